"""Tests of the queue status of a task: position, running attempts, expected wait, causes, hints."""

import datetime

import numpy as np
import pytest
from django.utils import timezone

from tasks.lifecycle.attempts import assign_attempt
from tasks.models import Attempt, Purpose, Task
from tasks.scheduling.messages import cause_words, rough, wait_words
from tasks.scheduling.queue_depth import loads_of
from tasks.scheduling.queue_status import outlook, queue_facts, wait_samples
from tasks.tests.make import (
    cause_codes,
    make_task,
    make_tasks,
    make_user,
    make_waiting_task,
    make_worker,
)
from workers.models import Runtime, Worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]


@pytest.fixture
def bob():
    return make_user("bob")


@pytest.fixture
def frozen_time(monkeypatch) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)


def start(task: Task, *, ago_s: float = 0.0) -> Attempt:
    attempt = assign_attempt(task, slot=0)
    started_at = timezone.now() - datetime.timedelta(seconds=ago_s)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=started_at)
    return attempt


def make_history(worker: Worker, owner, *durations_s: float) -> None:
    """Create ended attempts on a device, too old to count for the fair share."""
    ended = timezone.now() - datetime.timedelta(hours=5)
    for duration_s in durations_s:
        attempt = start(make_waiting_task(owner, worker))
        started_at = ended - datetime.timedelta(seconds=duration_s)
        Attempt.objects.filter(pk=attempt.pk).update(created_at=started_at, ended_at=ended)
        Task.objects.filter(pk=attempt.task_id).update(state="processing")


def test_queue_status_shows_position_and_causes(alice, bob):
    worker = make_worker("x86-1")
    running = make_waiting_task(bob, worker)
    start(running, ago_s=60)
    make_waiting_task(bob, worker)
    task = make_waiting_task(alice, worker)
    # bob has used the device and alice has not, so she is next
    facts = queue_facts(task, reader=alice)
    assert (facts.position, cause_codes(task)) == (1, ["busy"])
    second = make_waiting_task(alice, worker)
    assert queue_facts(second, reader=alice).position > 1
    assert cause_codes(second) == ["behind"]
    assert "ahead of this one on x86-1" in cause_words(queue_facts(second, reader=alice).causes[0])


def test_queue_status_hides_the_ids_of_other_users_tasks(alice, bob):
    worker = make_worker(slots=2)
    foreign = make_waiting_task(bob, worker)
    start(foreign)
    task = make_waiting_task(alice, worker)
    (running,) = queue_facts(task, reader=alice).running
    assert (running.task_id, running.is_own) == (None, False)
    (running,) = queue_facts(task, reader=make_user("root", is_staff=True)).running
    assert running.task_id == foreign.pk
    (running,) = outlook(worker, "1.13.0", owner=bob).running
    assert (running.task_id, running.is_own) == (foreign.pk, True)


def test_queue_status_does_not_name_the_task_itself_as_running(alice):
    worker = make_worker()
    task = make_waiting_task(alice, worker)
    # the dispatcher assigns it after the request has read it
    start(Task.objects.get(pk=task.pk))
    assert queue_facts(task, reader=alice).running == ()


def test_queue_status_marks_a_running_health_check(alice, bob):
    worker = make_worker()
    start(make_waiting_task(bob, worker, purpose=Purpose.HEALTH))
    (running,) = queue_facts(make_waiting_task(alice, worker), reader=alice).running
    assert (running.is_check, running.task_id) == (True, None)


def test_task_that_does_not_wait_has_no_queue_status(alice):
    task = make_task(alice)
    assert queue_facts(task, reader=alice) is None


def test_pages_reveal_nothing_about_other_users_tasks(client, alice, bob):
    worker = make_worker("desk")
    start(make_waiting_task(bob, worker, title="secret project"))
    make_waiting_task(bob, worker, title="another secret")
    own = make_waiting_task(alice, worker)
    client.force_login(alice)
    for answer in (
        client.get(f"/tasks/{own.pk}/"),
        client.get("/tasks/outlook/", {"worker": worker.pk, "runtime": "1.13.0"}),
        client.get(f"/api/v1/tasks/{own.pk}/queue/"),
    ):
        text = answer.content.decode()
        assert answer.status_code == 200
        assert "secret" not in text
        assert "bob" not in text.replace("combobox", "")
        assert f"#{Task.objects.earliest('pk').pk}" not in text


# -- expected wait --------------------------------------------------------------------------------


@pytest.mark.usefixtures("frozen_time")
def test_estimate_from_equal_runs_is_exact(alice):
    worker = make_worker()
    make_history(worker, alice, *[60.0] * 5)
    start(make_waiting_task(alice, worker), ago_s=20)
    tasks = [make_waiting_task(alice, worker) for _ in range(3)]
    waits = [queue_facts(task, reader=alice).wait for task in tasks]
    assert [wait.p50_s for wait in waits] == pytest.approx([40, 100, 160])
    assert [wait.p90_s for wait in waits] == pytest.approx([40, 100, 160])
    assert waits[0].runs == 5


def test_estimate_from_unequal_runs_has_p90_above_p50(alice):
    worker = make_worker()
    make_history(worker, alice, 10, 10, 10, 10, 10, 10, 10, 200)
    tasks = [make_waiting_task(alice, worker) for _ in range(5)]
    wait = queue_facts(tasks[-1], reader=alice).wait
    assert 40 <= wait.p50_s < wait.p90_s <= 800


def test_task_for_a_free_device_starts_at_once(alice):
    worker = make_worker()
    make_history(worker, alice, 10, 20, 30)
    task = make_waiting_task(alice, worker)
    facts = queue_facts(task, reader=alice)
    assert (facts.wait.p90_s, facts.causes[0].code) == (0.0, "next")
    assert wait_words(facts.wait) == "It starts immediately."


def test_estimate_does_not_wait_for_the_task_itself(alice):
    worker = make_worker()
    make_history(worker, alice, 10, 20, 30)
    task = make_waiting_task(alice, worker)
    # the page has read the task, and then it is assigned
    start(Task.objects.get(pk=task.pk))
    facts = queue_facts(task, reader=alice)
    assert [cause.code for cause in facts.causes] == ["next"]
    assert wait_words(facts.wait) == "It starts immediately."


def test_estimate_needs_three_runs(alice):
    worker = make_worker()
    make_history(worker, alice, 10, 10)
    assert queue_facts(make_waiting_task(alice, worker), reader=alice).wait is None


@pytest.mark.usefixtures("frozen_time")
def test_estimate_includes_the_retry_delay(alice):
    worker = make_worker()
    make_history(worker, alice, 10, 10, 10)
    task = make_waiting_task(alice, worker)
    task.not_before_at = timezone.now() + datetime.timedelta(seconds=100)
    task.save()
    facts = queue_facts(task, reader=alice)
    assert [cause.code for cause in facts.causes] == ["paused"]
    assert facts.wait.p50_s == pytest.approx(100)


def test_estimate_uses_all_slots():
    waits = wait_samples([10.0] * 4, [0.0, 5.0], slots=2, before=2)
    assert np.allclose(waits, 15.0)
    # longer than the part of the queue that is simulated task by task
    assert np.allclose(wait_samples([10.0] * 4, [], slots=2, before=200), 1000.0)


def test_p90_of_the_estimate_covers_90_percent_of_simulated_waits():
    generator = np.random.default_rng(7)
    durations_s = generator.lognormal(3, 0.8, 50)
    covered = 0
    for _ in range(300):
        elapsed_s = generator.uniform(0, 10)
        left_s = generator.choice(durations_s[durations_s > elapsed_s]) - elapsed_s
        wait_s = left_s + generator.choice(durations_s, 6).sum()
        waits_s = wait_samples(list(durations_s), [elapsed_s], slots=1, before=6)
        covered += wait_s <= np.quantile(waits_s, 0.9)
    assert 0.84 < covered / 300 < 0.96


def test_estimate_for_a_run_longer_than_all_others_is_its_elapsed_time():
    assert np.allclose(wait_samples([10.0] * 3, [50.0], slots=1, before=0), 50.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (89, "89 s"), (95, "2 min"), (5400, "1.5 h"), (7200, "2 h"), (200000, "2.3 d")],
)
def test_durations_are_rounded_for_readers(seconds, text):
    assert rough(seconds) == text


def test_a_run_that_yields_to_a_task_does_not_delay_its_start(alice, bob):
    worker = make_worker()
    make_history(worker, bob, 600, 600, 600)
    start(make_waiting_task(bob, worker, purpose=Purpose.HEALTH))
    facts = outlook(worker, "1.13.0", owner=alice)
    assert facts.running[0].is_check
    assert facts.wait.p50_s == 0


def test_estimate_ignores_health_checks(alice, bob):
    worker = make_worker()
    make_history(worker, bob, 600, 600, 600)
    now, ended = timezone.now(), {"state": "finished", "outcome": "succeeded"}
    Attempt.objects.bulk_create(
        Attempt(task_id=pk, worker=worker, number=1, slot=0, lease_expires_at=now, ended_at=now)
        for pk in make_tasks(bob, 50, worker=worker, purpose=Purpose.HEALTH, **ended)
    )
    make_waiting_task(bob, worker)
    assert loads_of([worker])[worker.pk].usual_s is None
    wait = outlook(worker, "1.13.0", owner=alice).wait
    assert (wait.runs, wait.p50_s) == (3, 600)


# -- outlook of the form --------------------------------------------------------------------------


def get_outlook(client, user, **query) -> str:
    client.force_login(user)
    answer = client.get("/tasks/outlook/", query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_outlook_describes_the_queue_of_the_device(client, alice, bob):
    worker = make_worker("desk")
    make_history(worker, bob, *[60.0] * 3)
    start(make_waiting_task(bob, worker))
    make_waiting_task(bob, worker)
    query = {"worker": worker.pk, "runtime": "1.13.0", "priority": "0"}
    text = get_outlook(client, alice, **query)
    assert "desk is busy; this task is next." in text
    assert "task of another user" in text
    assert "Expected start: in about " in text
    assert "task is ahead of this one on desk" in get_outlook(client, bob, **query)


def test_outlook_names_the_matching_device_or_the_unmet_requirement(client, alice):
    make_worker("small", labels={"chip": "A"})
    make_worker("big", labels={"chip": "B"})
    assert "big with MegEngine 1.13.0" in get_outlook(client, alice, any="1", labels="chip=B")
    text = get_outlook(client, alice, any="1", labels="chip=C")
    assert "small (A), big (B)" in text or "big (B), small (A)" in text
    assert "is not a version range" in get_outlook(client, alice, any="1", versions="soon")


def test_outlook_names_the_matching_device_that_supports_the_options(client, alice):
    make_worker("a-plain")
    cuda = make_worker("b-cuda")
    Runtime.objects.filter(worker=cuda).update(kind="binary", builds=["cuda"])
    assert "a-plain with MegEngine" in get_outlook(client, alice, any="1")
    text = get_outlook(client, alice, any="1", options='{"cuda": true}')
    assert "b-cuda with MegEngine" in text
    assert "a-plain with MegEngine" in get_outlook(client, alice, any="1", options='{"iter": 0}')
    Runtime.objects.exclude(worker=cuda).update(kind="binary", flags=["profile"])
    text = get_outlook(client, alice, any="1", files="fast_run_algo_policy")
    assert "b-cuda with MegEngine" in text


def test_outlook_reports_the_task_limit(client):
    user = make_user(task_limit=1)
    worker = make_worker()
    make_waiting_task(user, worker)
    text = get_outlook(client, user, worker=worker.pk, runtime="1.13.0")
    assert "You have 1 unfinished task; the limit is 1." in text


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"worker": "x"},
        {"worker": "9" * 40, "runtime": "\x00"},
        {"worker": "1", "priority": "1e9"},
        {"any": "1", "labels": ["", "=", "a=b=c", "\x00=1"]},
        {"any": "1", "versions": ">=" * 500, "pool": "x" * 5000},
        {"any": "1", "options": "[" * 9_000},
        {"any": "1", "options": "[]", "files": ["", "x"]},
        {"any": "1", "options": '{"iter": NaN, "cuda": [{}], "x": null}'},
    ],
)
def test_outlook_accepts_malformed_queries(client, alice, query):
    make_worker()
    get_outlook(client, alice, **query)


def test_outlook_reports_an_unusable_version(client, alice):
    worker = make_worker("desk")
    Runtime.objects.update(problem="no such file")
    text = get_outlook(client, alice, worker=worker.pk, runtime="1.13.0")
    assert "MegEngine 1.13.0 cannot be used on desk: no such file" in text
    assert "in a moment" not in text


def test_outlook_hides_private_devices(client, alice):
    worker = make_worker("secret", is_public=False)
    assert "secret" not in get_outlook(client, alice, worker=worker.pk, runtime="1.13.0")
    client.logout()
    assert client.get("/tasks/outlook/").status_code == 302
