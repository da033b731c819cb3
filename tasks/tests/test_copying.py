"""Tests of repeating a task, unchanged or with changes."""

import datetime
import hashlib
from importlib import import_module

import pytest
from django.apps import apps
from django.utils import timezone

from profiles.services import abandoned_uploads_purge
from tasks.lifecycle.cancel import cancel_task
from tasks.models import IdempotencyKey, Task, TaskFile
from tasks.submission.creation import DOUBLE_CLICK_S, rerun_task
from tasks.submission.plans import PRESETS
from tasks.submission.request import InputRequest, request_of
from tasks.tests.make import (
    data_file,
    make_changed_copy,
    make_task,
    make_user,
    model_file,
    npy_bytes,
)
from tasks.views.task_form import form_data
from webprofile.errors import DomainError
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage

pytestmark = [pytest.mark.django_db, pytest.mark.database]

MODEL, DATA = b"a model", npy_bytes()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@pytest.fixture
def done(client, storage) -> Task:
    """An ended task whose files lie in storage, with all that a request can hold."""
    alice = make_user()
    task = make_task(
        alice,
        options={"iter": 3},
        plan=PRESETS["standard"],
        seed=7,
        inputs=(
            InputRequest("mask", shape=(1, 3), dtype="float32"),
            InputRequest("ids", literal="1,2"),
        ),
        files=[
            model_file(size_bytes=len(MODEL), md5=md5(MODEL)),
            data_file(size_bytes=len(DATA), md5=md5(DATA)),
        ],
    )
    for file, content in zip(task.files.all(), (MODEL, DATA), strict=True):
        object_store.write(file.object_key, content)
    client.force_login(alice)
    assert client.post(f"/api/v1/tasks/{task.pk}/submit/").status_code == 200
    cancel_task(task)
    return Task.objects.get(pk=task.pk)


def test_run_again_makes_the_same_task_with_copies_of_its_files(client, done):
    answer = client.post(f"/tasks/{done.pk}/rerun/")
    copy = Task.objects.latest("pk")
    assert answer["Location"] == f"/tasks/{copy.pk}/"
    assert copy.state == "waiting"
    assert copy.copied_from == done
    for field in ("worker", "runtime_version", "options", "plan", "inputs", "seed", "owner"):
        assert getattr(copy, field) == getattr(done, field), field
    assert copy.pk != done.pk
    contents = [object_store.read(f.object_key, limit_bytes=1000) for f in copy.files.all()]
    assert contents == [MODEL, DATA]
    assert copy.files.get(kind="data").arrays == done.files.get(kind="data").arrays != []


def test_the_page_of_an_ended_task_offers_both_ways_and_a_live_one_neither(client, done):
    page = client.get(f"/tasks/{done.pk}/").text
    assert 'id="rerun"' in page
    assert f"/tasks/new/?from={done.pk}" in page
    assert "random values" in page
    assert "float32 {1,3}" in page
    client.post(f"/tasks/{done.pk}/rerun/")
    live = Task.objects.latest("pk")
    assert 'id="rerun"' not in client.get(f"/tasks/{live.pk}/").text


def test_a_file_that_is_gone_is_named_and_nothing_is_made(client, done):
    TaskFile.objects.filter(task=done, kind="data").update(purged_at=done.created_at)
    answer = client.post(f"/api/v1/tasks/{done.pk}/retry/", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_gone")
    assert Task.objects.count() == 1
    assert 'id="rerun"' not in client.get(f"/tasks/{done.pk}/").text


def changed_request(task):
    """What the form and the API send to repeat a task with changes."""
    files = [{"kind": file.kind, "from_file": file.pk} for file in task.files.all()]
    return {"worker": task.worker_id, "files": files, "copied_from": task.pk}


def ways_to_repeat(task):
    """Address, and body, of each request that copies the task's files."""
    changed = changed_request(task)
    yield f"/api/v1/tasks/{task.pk}/retry/", {}
    yield "/api/v1/tasks/", changed | {"runtime_version": task.runtime_version}


@pytest.mark.parametrize(
    ("left", "code", "text"),
    [
        (None, "file_gone", "“net.mge” is not in storage any more"),
        (b"another model", "file_changed", "“net.mge” in storage is not what was uploaded"),
    ],
)
def test_a_file_that_storage_lost_or_changed_is_named_and_no_task_is_made(
    client, done, left, code, text
):
    key = done.files.get(kind="model").object_key
    object_store.delete(key) if left is None else object_store.write(key, left)
    for address, body in ways_to_repeat(done):
        answer = client.post(address, body, content_type="application/json")
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, code), address
        words = problem["detail"]
        assert (text in words, "choose the file again" in words) == (True, True)
        assert list(Task.objects.all()) == [done]


def test_a_file_that_never_came_is_told_from_one_that_is_gone(client, done):
    TaskFile.objects.filter(task=done, kind="data").update(stored_at=None)
    for address, body in ways_to_repeat(done):
        problem = client.post(address, body, content_type="application/json").json()
        assert problem["code"] == "file_not_uploaded", address
        assert list(Task.objects.all()) == [done]


def test_a_storage_that_is_away_is_told_before_a_task_is_made(client, done, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    answer = client.post(f"/api/v1/tasks/{done.pk}/retry/", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unreachable")
    assert list(Task.objects.all()) == [done]


def test_the_form_gets_all_it_needs(client, done):
    data = form_data(done)
    assert f'"id": {done.pk}' in client.get(f"/tasks/new/?from={done.pk}").text
    assert (data["worker"], data["runtime_version"]) == (done.worker_id, "1.13.0")
    assert (data["options"], data["seed"], data["plan"]["preset"]) == ({"iter": 3}, "7", "standard")
    assert [file["kind"] for file in data["files"]] == ["model", "data"]
    assert data["files"][1]["input"] == "data"
    assert data["files"][1]["is_stored"] is True
    assert [given["name"] for given in data["inputs"]] == ["mask", "ids"]


def test_a_copy_may_be_changed(done):
    copy = make_changed_copy(done, options={"iter": 9}, seed=8)
    assert (copy.options, copy.seed, copy.plan) == ({"iter": 9}, 8, done.plan)
    sources = [file.source for file in request_of(done).files]
    assert sources == [file.object_key for file in done.files.all()]
    with pytest.raises(DomainError, match="option_unknown"):
        make_changed_copy(done, options={"nope": 1})


@pytest.mark.parametrize("place", ["copy", "read_start"])
@pytest.mark.parametrize("error", [DomainError("storage_unreachable", status=503), ValueError("x")])
def test_a_copy_that_storage_fails_ends_with_a_reason_of_its_own(
    client, done, monkeypatch, place, error
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(ObjectStorage, place, fail)
    client.raise_request_exception = False
    answer = client.post(f"/api/v1/tasks/{done.pk}/retry/", content_type="application/json")
    assert answer.status_code == getattr(error, "status", 500)
    copy = Task.objects.latest("pk")
    assert copy.pk != done.pk
    assert (copy.state, copy.outcome, copy.reason) == ("finished", "failed", "copy_failed")
    assert "could not be taken over" in client.get(f"/tasks/{copy.pk}/").text


def test_a_double_click_makes_one_task_and_a_later_click_another(client, done):
    first, second = (client.post(f"/tasks/{done.pk}/rerun/")["Location"] for _ in range(2))
    assert first == second
    assert Task.objects.count() == 2
    assert f"Task #{done.pk} was run again a moment ago, as this task" in client.get(first).text
    Task.objects.filter(copied_from=done).update(
        created_at=timezone.now() - datetime.timedelta(seconds=DOUBLE_CLICK_S + 1)
    )
    assert client.post(f"/tasks/{done.pk}/rerun/")["Location"] != first
    assert Task.objects.count() == 3


def test_a_click_after_the_copy_ended_makes_another_task(client, done):
    client.post(f"/tasks/{done.pk}/rerun/")
    cancel_task(Task.objects.latest("pk"))
    client.post(f"/tasks/{done.pk}/rerun/")
    assert Task.objects.count() == 3


def test_a_task_from_before_the_sanity_check_was_left_out_still_means_the_same(client, done):
    migration = import_module("tasks.migrations.0003_keep_sanity_check")
    Task.objects.update(options={"iter": 3})
    explicit = make_task(done.owner, done.worker)
    Task.objects.filter(pk=explicit.pk).update(options={"no_sanity_check": True})
    migration.tell_what_was_meant(apps, None)
    done.refresh_from_db()
    explicit.refresh_from_db()
    assert done.options == {"iter": 3, "no_sanity_check": False}
    assert explicit.options == {"no_sanity_check": True}
    client.post(f"/tasks/{done.pk}/rerun/")
    copy = Task.objects.latest("pk")
    assert copy.copied_from == done
    assert copy.options == done.options


def test_a_task_with_a_value_that_is_not_accepted_any_more_is_refused_with_words(client, done):
    Task.objects.update(options={"warmup_iter": 0})
    assert client.get(f"/tasks/{done.pk}/").status_code == 200
    answer = client.post(f"/api/v1/tasks/{done.pk}/retry/", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "option_too_small")
    assert "warmup_iter" in answer.json()["detail"]
    assert Task.objects.count() == 1


def test_a_copy_whose_file_is_not_accepted_any_more_says_which_and_why(client, done):
    data = done.files.get(kind="data")
    content = npy_bytes(dtype="float64")
    object_store.write(data.object_key, content)
    TaskFile.objects.filter(pk=data.pk).update(size_bytes=len(content), md5=md5(content))
    answer = client.post(f"/api/v1/tasks/{done.pk}/retry/", content_type="application/json")
    assert answer.json()["code"] == "input_no_type"
    copy = Task.objects.latest("pk")
    assert copy.reason == "copy_failed"
    assert "float64" in copy.detail


def test_a_copy_with_changes_is_not_taken_for_the_same_click(client, done):
    make_changed_copy(done, seed=8)
    client.post(f"/tasks/{done.pk}/rerun/")
    assert Task.objects.latest("pk").seed == done.seed
    assert Task.objects.count() == 3


def test_what_a_failed_copy_left_in_storage_is_deleted(client, done, monkeypatch):
    monkeypatch.setattr(ObjectStorage, "read_start", staticmethod(lambda *_, **__: 1 / 0))
    client.raise_request_exception = False
    client.post(f"/tasks/{done.pk}/rerun/")
    copy = Task.objects.latest("pk")
    assert all(object_store.head(file.object_key) for file in copy.files.all())
    assert abandoned_uploads_purge() == 2
    assert not any(object_store.head(file.object_key) for file in copy.files.all())
    assert all(object_store.head(file.object_key) for file in done.files.all())


def test_a_task_that_has_not_ended_is_not_repeated(client, done):
    client.post(f"/tasks/{done.pk}/rerun/")
    live = Task.objects.latest("pk")
    assert live.state == "waiting"
    assert client.post(f"/tasks/{live.pk}/rerun/").status_code == 409
    answer = client.post(f"/api/v1/tasks/{live.pk}/retry/", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_ended")
    assert Task.objects.count() == 2


def test_a_task_that_is_deleted_under_ones_hands_is_not_repeated(done):
    stale = Task.objects.get(pk=done.pk)
    done.delete()
    with pytest.raises(DomainError, match="task_gone"):
        rerun_task(stale, owner=stale.owner)


@pytest.mark.parametrize("origin", ["deleted", "foreign", "nonsense", "-1", "9" * 30, "²"])
def test_the_form_says_that_the_task_it_was_to_start_from_is_gone(client, done, origin):
    number = done.pk
    if origin == "deleted":
        done.delete()
    elif origin == "foreign":
        client.force_login(make_user("carol"))
    else:
        number = origin
    page = client.get("/tasks/new/", {"from": number}).content.decode()
    assert 'id="origin-gone"' in page
    assert 'id="origin"' not in page
    assert 'id="origin-gone"' not in client.get("/tasks/new/").content.decode()


def test_a_new_task_cannot_take_over_the_model_of_a_deleted_or_a_foreign_task(client, done):
    model = done.files.get(kind="model")
    body = {
        "worker": done.worker_id,
        "runtime_version": "1.13.0",
        "copied_from": done.pk,
        "files": [{"kind": "model", "from_file": model.pk}],
    }
    client.force_login(make_user("carol"))
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_unknown")
    client.force_login(done.owner)
    TaskFile.objects.filter(pk=model.pk).update(purged_at=timezone.now())
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_gone")
    done.delete()
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_unknown")
    assert not Task.objects.exists()


# -- over the API, with a key ---------------------------------------------------------------------


@pytest.fixture
def half_repeated(client, done):
    """A copy whose process was gone before it was submitted, and the request that asked for it."""

    def repeat():
        key = {"HTTP_IDEMPOTENCY_KEY": "again", "content_type": "application/json"}
        return client.post(f"/api/v1/tasks/{done.pk}/retry/", **key)

    copy = Task.objects.get(pk=repeat().json()["id"])
    Task.objects.filter(pk=copy.pk).update(state="initiated", submitted_at=None)
    return copy, repeat


def test_a_copy_whose_process_died_once_all_was_copied_is_submitted_by_the_next(half_repeated):
    copy, repeat = half_repeated
    answer = repeat()
    assert (answer.status_code, answer.json()["id"]) == (201, copy.pk)
    assert answer.json()["status"] == "waiting"


def test_a_copy_whose_process_died_while_it_copied_is_made_anew_after_a_while(half_repeated):
    copy, repeat = half_repeated
    copy.files.filter(kind="data").update(stored_at=None)
    answer = repeat()  # it may be copying still
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_progress")
    copy.refresh_from_db()
    assert copy.state == "initiated"
    IdempotencyKey.objects.update(created_at=timezone.now() - datetime.timedelta(minutes=2))
    answer = repeat()
    assert (answer.status_code, answer.json()["status"]) == (201, "waiting")
    assert answer.json()["id"] != copy.pk
    copy.refresh_from_db()
    assert (copy.status, copy.reason) == ("failed", "copy_failed")
    assert repeat().json()["id"] == answer.json()["id"]


def test_a_copy_that_the_next_request_cannot_finish_either_frees_its_key(half_repeated, settings):
    copy, repeat = half_repeated
    address, settings.S3_ENDPOINT_URL = settings.S3_ENDPOINT_URL, "http://127.0.0.1:9"
    answer = repeat()
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unreachable")
    copy.refresh_from_db()
    assert (copy.status, copy.reason) == ("failed", "copy_failed")
    settings.S3_ENDPOINT_URL = address
    again = repeat().json()
    assert (again["id"] != copy.pk, again["status"]) == (True, "waiting")
