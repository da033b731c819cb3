"""Tests of repeating a task, unchanged or with changes."""

import datetime
import hashlib

import pytest
from django.utils import timezone

from profiles.services import purge_abandoned_uploads
from tasks.lifecycle.cancel import cancel_task
from tasks.models import IdempotencyKey, Task, TaskFile
from tasks.submission.creation import DOUBLE_CLICK_S, rerun_task
from tasks.submission.plans import PRESETS
from tasks.submission.request import InputRequest, request_of
from tasks.submission.uploads import confirm_task
from tasks.tests.make import (
    MODEL,
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

DATA = npy_bytes()


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def retry(client, task: Task, **headers):
    address = f"/api/v1/tasks/{task.pk}/retry/"
    return client.post(address, content_type="application/json", **headers)


@pytest.fixture
def ended_task(client, storage, devices_stay_online) -> Task:
    """An ended task with all fields of a request and with its files in storage."""
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
    confirm_task(task)
    cancel_task(task)
    return Task.objects.get(pk=task.pk)


def test_rerun_copies_the_request_and_its_files(client, ended_task):
    answer = client.post(f"/tasks/{ended_task.pk}/rerun/")
    copy = Task.objects.latest("pk")
    assert answer["Location"] == f"/tasks/{copy.pk}/"
    assert copy.state == "waiting"
    assert copy.copied_from == ended_task
    for field in ("worker", "runtime_version", "options", "plan", "inputs", "seed", "owner"):
        assert getattr(copy, field) == getattr(ended_task, field), field
    assert copy.pk != ended_task.pk
    contents = [object_store.read(f.object_key, limit_bytes=1000) for f in copy.files.all()]
    assert contents == [MODEL, DATA]
    assert copy.files.get(kind="data").arrays == ended_task.files.get(kind="data").arrays != []


def test_task_page_offers_rerun_only_after_the_end(client, ended_task):
    page = client.get(f"/tasks/{ended_task.pk}/").text
    assert 'id="rerun"' in page
    assert f"/tasks/new/?from={ended_task.pk}" in page
    assert "random values" in page
    assert "float32 {1,3}" in page
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    live = Task.objects.latest("pk")
    assert 'id="rerun"' not in client.get(f"/tasks/{live.pk}/").text


def test_retry_with_a_purged_file_is_rejected(client, ended_task):
    TaskFile.objects.filter(task=ended_task, kind="data").update(purged_at=ended_task.created_at)
    answer = retry(client, ended_task)
    assert (answer.status_code, answer.json()["code"]) == (422, "file_gone")
    assert Task.objects.count() == 1
    assert 'id="rerun"' not in client.get(f"/tasks/{ended_task.pk}/").text


def copy_requests(task):
    """Yield address and body of each request that copies the files of a task."""
    yield f"/api/v1/tasks/{task.pk}/retry/", {}
    files = [{"kind": file.kind, "from_file": file.pk} for file in task.files.all()]
    body = {"worker": task.worker_id, "runtime_version": task.runtime_version, "files": files}
    yield "/api/v1/tasks/", body | {"copied_from": task.pk}


@pytest.mark.parametrize(
    ("content", "code", "text"),
    [
        (None, "file_gone", "“net.mge” is no longer in storage"),
        (b"another model", "file_changed", "“net.mge” in storage differs from the uploaded file"),
    ],
)
def test_copy_of_a_lost_or_changed_file_is_rejected(client, ended_task, content, code, text):
    key = ended_task.files.get(kind="model").object_key
    object_store.delete(key) if content is None else object_store.write(key, content)
    for address, body in copy_requests(ended_task):
        answer = client.post(address, body, content_type="application/json")
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (422, code), address
        assert text in problem["detail"]
        assert "choose the file again" in problem["detail"]
        assert list(Task.objects.all()) == [ended_task]


def test_copy_of_a_file_never_uploaded_has_its_own_error(client, ended_task):
    TaskFile.objects.filter(task=ended_task, kind="data").update(stored_at=None)
    for address, body in copy_requests(ended_task):
        problem = client.post(address, body, content_type="application/json").json()
        assert problem["code"] == "file_not_uploaded", address
        assert list(Task.objects.all()) == [ended_task]


def test_retry_while_storage_is_unreachable_creates_no_task(client, ended_task, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    answer = retry(client, ended_task)
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unreachable")
    assert list(Task.objects.all()) == [ended_task]


def test_form_is_filled_from_an_earlier_task(client, ended_task):
    data = form_data(ended_task)
    assert f'"id": {ended_task.pk}' in client.get(f"/tasks/new/?from={ended_task.pk}").text
    assert (data["worker"], data["runtime_version"]) == (ended_task.worker_id, "1.13.0")
    assert (data["options"], data["seed"], data["plan"]["preset"]) == ({"iter": 3}, "7", "standard")
    assert [file["kind"] for file in data["files"]] == ["model", "data"]
    assert data["files"][1]["input"] == "data"
    assert data["files"][1]["is_stored"] is True
    assert [row["name"] for row in data["inputs"]] == ["mask", "ids"]


def test_copy_accepts_changes(ended_task):
    copy = make_changed_copy(ended_task, options={"iter": 9}, seed=8)
    assert (copy.options, copy.seed, copy.plan) == ({"iter": 9}, 8, ended_task.plan)
    sources = [file.source for file in request_of(ended_task).files]
    assert sources == [file.object_key for file in ended_task.files.all()]
    with pytest.raises(DomainError, match="option_unknown"):
        make_changed_copy(ended_task, options={"nope": 1})


@pytest.mark.parametrize("method", ["copy", "read_start"])
@pytest.mark.parametrize("error", [DomainError("storage_unreachable", status=503), ValueError("x")])
def test_retry_that_fails_in_storage_has_reason_copy_failed(
    client, ended_task, monkeypatch, method, error
):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(ObjectStorage, method, fail)
    client.raise_request_exception = False
    answer = retry(client, ended_task)
    assert answer.status_code == getattr(error, "status", 500)
    copy = Task.objects.latest("pk")
    assert copy.pk != ended_task.pk
    assert (copy.state, copy.outcome, copy.reason) == ("finished", "failed", "copy_failed")
    assert "could not be reused" in client.get(f"/tasks/{copy.pk}/").text


def test_double_click_on_rerun_creates_one_task(client, ended_task):
    first, second = (client.post(f"/tasks/{ended_task.pk}/rerun/")["Location"] for _ in range(2))
    assert first == second
    assert Task.objects.count() == 2
    assert f"Task #{ended_task.pk} was already repeated a moment ago" in client.get(first).text
    Task.objects.filter(copied_from=ended_task).update(
        created_at=timezone.now() - datetime.timedelta(seconds=DOUBLE_CLICK_S + 1)
    )
    assert client.post(f"/tasks/{ended_task.pk}/rerun/")["Location"] != first
    assert Task.objects.count() == 3


@pytest.mark.parametrize("change", [{"time_limit_s": 77}, {"priority": -1}, "file"])
def test_rerun_beside_a_changed_copy_creates_another_task(client, ended_task, change):
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    changed = Task.objects.latest("pk")
    if change == "file":
        changed.files.update(md5="0" * 32)
    else:
        Task.objects.filter(pk=changed.pk).update(**change)
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    assert Task.objects.count() == 3


def test_page_of_a_task_with_a_removed_file_offers_the_form_but_no_repetition(client, ended_task):
    buttons = ('id="rerun"', 'id="change"')
    page = client.get(f"/tasks/{ended_task.pk}/").text
    assert [button in page for button in buttons] == [True, True]
    ended_task.files.update(purged_at=timezone.now())
    page = client.get(f"/tasks/{ended_task.pk}/").text
    assert [button in page for button in buttons] == [False, True]


def test_rerun_after_the_copy_ended_creates_another_task(client, ended_task):
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    cancel_task(Task.objects.latest("pk"))
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    assert Task.objects.count() == 3


def test_retry_rejects_an_option_value_that_is_no_longer_valid(client, ended_task):
    Task.objects.update(options={"warmup_iter": 0})
    assert client.get(f"/tasks/{ended_task.pk}/").status_code == 200
    answer = retry(client, ended_task)
    assert (answer.status_code, answer.json()["code"]) == (422, "option_too_small")
    assert "warmup_iter" in answer.json()["detail"]
    assert Task.objects.count() == 1


def test_retry_rejects_a_file_that_is_no_longer_valid(client, ended_task):
    data = ended_task.files.get(kind="data")
    content = npy_bytes(dtype="float64")
    object_store.write(data.object_key, content)
    TaskFile.objects.filter(pk=data.pk).update(size_bytes=len(content), md5=md5(content))
    answer = retry(client, ended_task)
    assert answer.json()["code"] == "input_no_type"
    copy = Task.objects.latest("pk")
    assert copy.reason == "copy_failed"
    assert "float64" in copy.detail


def test_rerun_after_a_changed_copy_creates_an_unchanged_copy(client, ended_task):
    make_changed_copy(ended_task, seed=8)
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    assert Task.objects.latest("pk").seed == ended_task.seed
    assert Task.objects.count() == 3


def test_sweep_deletes_the_files_of_a_failed_copy(client, ended_task, monkeypatch):
    monkeypatch.setattr(ObjectStorage, "read_start", staticmethod(lambda *_, **__: 1 / 0))
    client.raise_request_exception = False
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    copy = Task.objects.latest("pk")
    assert all(object_store.head(file.object_key) for file in copy.files.all())
    assert purge_abandoned_uploads() == 2
    assert not any(object_store.head(file.object_key) for file in copy.files.all())
    assert all(object_store.head(file.object_key) for file in ended_task.files.all())


def test_rerun_of_a_live_task_returns_409(client, ended_task):
    client.post(f"/tasks/{ended_task.pk}/rerun/")
    live = Task.objects.latest("pk")
    assert live.state == "waiting"
    assert client.post(f"/tasks/{live.pk}/rerun/").status_code == 409
    answer = retry(client, live)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_ended")
    assert Task.objects.count() == 2


def test_rerun_of_a_deleted_task_raises_task_gone(ended_task):
    stale = Task.objects.get(pk=ended_task.pk)
    ended_task.delete()
    with pytest.raises(DomainError, match="task_gone"):
        rerun_task(stale, owner=stale.owner)


@pytest.mark.parametrize("origin", ["deleted", "foreign", "nonsense", "-1", "9" * 30, "²"])
def test_form_reports_an_unavailable_source_task(client, logged_in, origin):
    task = make_task(make_user("bob"))
    number = {"deleted": task.pk, "foreign": task.pk}.get(origin, origin)
    if origin == "deleted":
        task.delete()
    page = client.get("/tasks/new/", {"from": number}).text
    assert 'id="origin-gone"' in page
    assert 'id="origin"' not in page


def test_form_without_a_source_task_reports_none(client, logged_in):
    assert 'id="origin-gone"' not in client.get("/tasks/new/").text


def test_copy_of_the_model_of_a_foreign_purged_or_deleted_task_is_rejected(client, ended_task):
    model = ended_task.files.get(kind="model")
    body = {
        "worker": ended_task.worker_id,
        "runtime_version": "1.13.0",
        "copied_from": ended_task.pk,
        "files": [{"kind": "model", "from_file": model.pk}],
    }
    client.force_login(make_user("carol"))
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_unknown")
    client.force_login(ended_task.owner)
    TaskFile.objects.filter(pk=model.pk).update(purged_at=timezone.now())
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_gone")
    ended_task.delete()
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_unknown")
    assert not Task.objects.exists()


# -- idempotency keys -----------------------------------------------------------------------------


@pytest.fixture
def incomplete_copy(client, ended_task):
    """A copy that was not submitted because its process ended, and a function that repeats it."""

    def repeat():
        return retry(client, ended_task, HTTP_IDEMPOTENCY_KEY="again")

    copy = Task.objects.get(pk=repeat().json()["id"])
    Task.objects.filter(pk=copy.pk).update(state="initiated", submitted_at=None)
    return copy, repeat


def test_repeated_key_submits_a_copy_that_was_only_copied(incomplete_copy):
    copy, repeat = incomplete_copy
    answer = repeat()
    assert (answer.status_code, answer.json()["id"]) == (201, copy.pk)
    assert answer.json()["status"] == "waiting"


def test_repeated_key_replaces_an_incomplete_copy_after_a_timeout(incomplete_copy):
    copy, repeat = incomplete_copy
    copy.files.filter(kind="data").update(stored_at=None)
    answer = repeat()  # the first request may still be active
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


def test_repeated_key_is_released_when_the_copy_fails_again(incomplete_copy, settings):
    copy, repeat = incomplete_copy
    address, settings.S3_ENDPOINT_URL = settings.S3_ENDPOINT_URL, "http://127.0.0.1:9"
    answer = repeat()
    assert (answer.status_code, answer.json()["code"]) == (503, "storage_unreachable")
    copy.refresh_from_db()
    assert (copy.status, copy.reason) == ("failed", "copy_failed")
    settings.S3_ENDPOINT_URL = address
    again = repeat().json()
    assert (again["id"] != copy.pk, again["status"]) == (True, "waiting")


def compare_paired(client, task: Task, *others: int, **headers):
    address = f"/api/v1/tasks/{task.pk}/compare-paired/"
    return client.post(address, {"others": others}, content_type="application/json", **headers)


def test_ended_tasks_are_compared_in_pairs_with_copies_of_their_files(client, ended_task):
    other = retry(client, ended_task).json()["id"]
    answers = [
        compare_paired(client, ended_task, other, HTTP_IDEMPOTENCY_KEY="pair") for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    task = answers[0].json()
    assert (task["status"], task["worker"]) == ("waiting", ended_task.worker_id)
    # `iter` belongs to a run alone
    assert (task["options"], task["pairing"]["arms"][0]["options"]) == ({}, {})
    assert [(file["arm"], file["kind"], file["is_stored"]) for file in task["files"]] == [
        (0, "model", True), (0, "data", True), (1, "model", True), (1, "data", True)
    ]  # fmt: skip


def test_tasks_that_cannot_be_compared_in_pairs_are_refused(client, ended_task):
    foreign = make_task(make_user("bob"))
    assert compare_paired(client, ended_task, foreign.pk).status_code == 404
    assert compare_paired(client, ended_task).status_code == 422
    ended_task.files.filter(kind="data").update(purged_at=timezone.now())
    answer = compare_paired(client, ended_task, ended_task.pk)
    assert (answer.status_code, answer.json()["code"]) == (422, "file_gone")
