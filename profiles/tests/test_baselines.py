"""Tests of pinned baselines: pin and unpin by page and API, one per owner, model and device."""

import datetime
import io

import pytest
from django.core.management import call_command
from django.utils import timezone

from profiles.models import Profile
from profiles.retention.deletion import delete_task
from profiles.selectors import baseline_profile
from profiles.tests.imports import make_import
from profiles.tests.make import make_measured_task, make_profile, profile_json, to_json
from profiles.tests.pages import make_result
from tasks.baselines import baseline_of, pin_baseline
from tasks.models import Baseline, Task
from tasks.tests.make import (
    fail_run,
    make_attempt,
    make_user,
    make_waiting_task,
    make_worker,
    post_json,
)

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def pin(client, task, pin="yes", **fields):
    return client.post(f"/tasks/{task.pk}/baseline/", {"pin": pin} | fields)


def test_the_newest_pin_is_the_baseline_of_its_model_and_device(client, alice):
    desk, phone = make_worker("desk"), make_worker("phone")
    first, second = make_measured_task(alice, desk), make_measured_task(alice, desk)
    other_model = make_measured_task(alice, desk, name="other.mge")
    other_device = make_measured_task(alice, phone)
    assert baseline_of(first) is None
    for task in (first, second, second):
        assert pin(client, task).status_code == 302
        assert baseline_of(first) == baseline_of(second) == task
    assert baseline_of(other_model) is None
    assert baseline_of(other_device) is None
    pin(client, other_device)
    assert baseline_of(first) == second
    pin(client, second, "no")
    assert baseline_of(first) is None
    assert baseline_of(other_device) == other_device


def test_baseline_applies_to_unfinished_tasks_and_to_repeats(alice):
    worker = make_worker()
    task = make_measured_task(alice, worker)
    pin_baseline(task)
    assert baseline_of(make_waiting_task(alice, worker)) == task


def test_baseline_profile_is_that_of_another_task(alice):
    worker = make_worker()
    pinned, task = make_measured_task(alice, worker), make_measured_task(alice, worker)
    assert baseline_profile(task) is None
    pin_baseline(pinned)
    assert baseline_profile(task) == Profile.objects.get(attempt__task=pinned)
    assert baseline_profile(pinned) is None


def test_users_with_the_same_file_name_have_their_own_baselines(client, alice):
    bob, worker = make_user("bob"), make_worker()
    of_alice, of_bob = make_measured_task(alice, worker), make_measured_task(bob, worker)
    pin(client, of_alice)
    assert baseline_of(of_bob) is None
    assert pin(client, of_bob).status_code == 404
    url = f"/api/v1/tasks/{of_bob.pk}/baseline/"
    assert post_json(client, url, {"pin": True}).status_code == 404
    assert baseline_of(of_bob) is None
    # an administrator pins for the owner
    client.force_login(make_user("root", is_staff=True))
    assert pin(client, of_bob).status_code == 302
    assert (baseline_of(of_alice), baseline_of(of_bob)) == (of_alice, of_bob)


def test_tasks_without_a_result_cannot_be_pinned(client, alice):
    attempt = make_attempt(make_waiting_task(alice))
    for change in (lambda: None, lambda: fail_run(attempt)):
        change()
        assert pin(client, attempt.task).status_code == 409
        url = f"/api/v1/tasks/{attempt.task_id}/baseline/"
        answer = post_json(client, url, {"pin": True})
        assert (answer.status_code, answer.json()["code"]) == (409, "baseline_result")
        assert post_json(client, url, {"pin": False}).status_code == 200
    assert not Baseline.objects.exists()


def test_api_pins_and_shows_the_baseline(client, alice):
    worker = make_worker()
    pinned, task = make_measured_task(alice, worker), make_measured_task(alice, worker)
    url = f"/api/v1/tasks/{pinned.pk}/baseline/"
    assert post_json(client, url, {"pin": True}).json()["baseline"] == pinned.pk
    assert client.get(f"/api/v1/tasks/{task.pk}/baseline/").json()["baseline"] == pinned.pk
    assert post_json(client, url, {"pin": "perhaps"}).status_code == 422
    assert post_json(client, url, {"pin": False}).json()["baseline"] is None


def test_deletion_of_the_task_removes_the_pin(alice):
    worker = make_worker()
    pinned, task = make_measured_task(alice, worker), make_measured_task(alice, worker)
    pin_baseline(pinned)
    delete_task(pinned, by=alice)
    assert baseline_of(task) is None


def test_purge_of_the_task_removes_the_pin(alice):
    worker = make_worker()
    pinned, task = make_measured_task(alice, worker), make_measured_task(alice, worker)
    pin_baseline(pinned)
    long_ago = timezone.now() - datetime.timedelta(days=100)
    Task.objects.filter(pk=pinned.pk).update(finished_at=long_ago)
    call_command("purge", "--older-than", "30", "--yes", "--only", "tasks", stdout=io.StringIO())
    assert not Task.objects.filter(pk=pinned.pk).exists()
    assert baseline_of(task) is None


@pytest.mark.object_storage
def test_imported_profile_cannot_be_pinned(client, alice):
    profile = make_import(alice, profile_json(0.5)).profile
    page = client.get(f"/profiles/{profile.pk}/").text
    assert 'data-view="compare"' in page
    assert "Pin as baseline" not in page


@pytest.mark.object_storage
def test_button_of_the_result_page_pins_and_unpins(client, alice):
    task = make_result(profile_json(0.5), owner=alice).attempt.task
    address = f"/tasks/{task.pk}/"
    assert "Pin as baseline" in client.get(address).text
    page = client.post(f"{address}baseline/", {"pin": "yes"}, follow=True)
    assert page.redirect_chain[-1][0] == address
    assert "Unpin baseline" in page.text
    assert "Pin as baseline" in client.post(f"{address}baseline/", {}, follow=True).text


@pytest.mark.object_storage
def test_without_device_times_differences_to_the_baseline_are_those_on_the_host(client, alice):
    base, profile = (
        make_result(to_json(make_profile({"0": {}}, host={"0": time_s})), owner=alice)
        for time_s in (4e-3, 3e-3)
    )
    Task.objects.filter(pk=profile.attempt.task_id).update(worker=base.attempt.task.worker)
    pin_baseline(base.attempt.task)
    differences = client.get(f"/api/v1/profiles/{profile.pk}/charts/baseline/").json()
    assert differences["us"] == [-1000]


@pytest.mark.object_storage
def test_each_operator_shows_its_difference_to_the_baseline(client, alice):
    base, profile = (
        make_result(to_json(make_profile(times)), owner=alice)
        for times in ({"0": 4e-3, "1": 1e-3}, {"0": 3e-3, "1": 1e-3})
    )
    task = profile.attempt.task
    Task.objects.filter(pk=task.pk).update(worker=base.attempt.task.worker)
    address, url = f"/tasks/{task.pk}/", f"/api/v1/profiles/{profile.pk}/charts/baseline/"
    assert "data-baseline" not in client.get(address).text
    answer = client.get(url)
    assert (answer.status_code, answer.json()["code"]) == (404, "baseline_none")
    pin_baseline(base.attempt.task)
    assert f'data-baseline="{url}"' in client.get(address).text
    differences = client.get(url).json()
    names = client.get(f"/api/v1/profiles/{profile.pk}/charts/operators/").json()["names"]
    assert dict(zip(names, differences["us"], strict=True)) == {"op0": -1000, "op1": 0}
    # one pass of each gives no verdict
    assert differences["clear"] == [False, False]
    assert "data-baseline" not in client.get(f"/tasks/{base.attempt.task_id}/").text
