"""Tests of tasks in the API, for their owner and for other users."""

import datetime

import httpx2
import pytest
from django.utils import timezone

from accounts.models import AuditEntry
from accounts.tests.threads import at_once
from profiles.models import RemovedObjects
from profiles.retention.deletion import sweep_removed_files
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Artifact, Attempt, IdempotencyKey, LogChunk, Task, TaskFile
from tasks.tests.make import (
    FILES,
    MODEL,
    TASKS,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    task_request,
    upload_files,
)
from webprofile.errors import DomainError
from webprofile.storage import storage as object_store
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.database]


@pytest.fixture
def client(alice):
    return caller(alice)


def test_task_is_created_uploaded_and_submitted(client, storage):
    body = task_request(
        title="night", options={"iter": 3}, plan={"preset": "standard"}, seed=2**63 - 1
    )
    answer = client.post(TASKS, body)
    task = answer.json()
    assert answer.status_code == 201, task
    address = f"{TASKS}{task['id']}/"
    assert answer["Location"] == address
    assert (task["status"], task["title"], task["seed"]) == ("initiated", "night", 2**63 - 1)
    problem = expect_problem(client.post(f"{address}submit/"), 409, "upload_missing")
    assert all(name in problem["detail"] for name in FILES)
    upload_files(task)
    answer = client.post(f"{address}submit/")
    assert (answer.status_code, answer.json()["status"]) == (200, "waiting")
    assert all(file["is_stored"] for file in answer.json()["files"])
    assert answer.json() == client.get(address).json()
    assert client.post(f"{address}submit/").json()["status"] == "waiting"
    link = client.get(f"{address}files/{task['files'][0]['id']}/")
    assert (link.status_code, httpx2.get(link["Location"]).content) == (302, MODEL)


def test_time_limit_is_at_most_that_of_the_site_and_kept_by_retry(client, storage):
    body = task_request(plan={"preset": "quick"})
    most = client.post(TASKS, body).json()["timeout_s"]
    too_long = body | {"time_limit_s": most + 1}
    problem = expect_problem(client.post(TASKS, too_long), 422, "time_limit")
    assert (problem["field"], str(most) in problem["detail"]) == ("time_limit_s", True)
    judgement = client.post(f"{TASKS}judge/", too_long).json()
    assert judgement["refusal"]["code"] == "time_limit"
    task = client.post(TASKS, body | {"time_limit_s": 45}).json()
    assert (task["time_limit_s"], task["timeout_s"]) == (45, 45)
    upload_files(task)
    client.post(f"{TASKS}{task['id']}/submit/")
    cancel_task(Task.objects.get(pk=task["id"]))
    copy = client.post(f"{TASKS}{task['id']}/retry/").json()
    assert (copy["time_limit_s"], copy["timeout_s"]) == (45, 45)


def test_damaged_upload_is_rejected_and_can_be_repeated(client, storage):
    task = client.post(TASKS, task_request()).json()
    address = f"{TASKS}{task['id']}/"
    model, data = task["uploads"]
    httpx2.put(model["url"], content=MODEL[:-1] + b"b", headers=model["headers"])
    httpx2.put(data["url"], content=FILES["data.npy"], headers=data["headers"])
    problem = expect_problem(client.post(f"{address}submit/"), 409, "upload_damaged")
    assert "net.mge" in problem["detail"]
    assert "data.npy" not in problem["detail"]
    upload_files(client.post(f"{address}uploads/").json())
    assert client.post(f"{address}submit/").status_code == 200
    expect_problem(client.post(f"{address}uploads/"), 409, "not_initiated")


def test_invalid_request_returns_the_error_code_of_its_rule(client):
    def reject(code, **changes):
        return expect_problem(client.post(TASKS, task_request(**changes)), 422, code)

    private, offline = make_worker(is_public=False), make_worker(online=False)
    problem = reject("worker_unknown", worker=private.pk)
    assert problem == reject("worker_unknown", worker=2**63 - 1)
    assert reject("worker_is_offline", worker=offline.pk)["field"] == "worker"
    reject("runtime_missing", runtime_version="0.1")
    reject("one_model_wanted", files=[])
    reject("plan_empty", plan={"preset": "custom", "profiled": 0})
    for plan in (
        {"preset": "best"}, {"preset": None}, {"preset": ["quick"]}, {"more": 1}, {"clean": 1},
        {"profiled": 51}, {"profiled": -1}, {"profiled": "3"}, {"profiled": 1.5},
        {"profiled": True},
    ):  # fmt: skip
        reject("invalid", plan=plan)
    for seed in (-1, 2**63):
        assert str(2**63 - 1) in reject("invalid", seed=seed)["errors"][0]["detail"]
    reject("source_unknown", copied_from=1)
    reject("option_unknown", options={"no_such": 1})
    reject("invalid", options={"iter": [1]})
    assert not Task.objects.exists()


def test_repeated_idempotency_key_returns_the_same_task(client):
    body, key = task_request(), {"HTTP_IDEMPOTENCY_KEY": "night-1"}
    first = client.post(TASKS, body, **key)
    again = client.post(TASKS, body, **key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert len(again.json()["uploads"]) == 2
    expect_problem(
        client.post(TASKS, body | {"title": "other"}, **key), 422, "idempotency_key_reused"
    )
    assert Task.objects.count() == 1
    # keys of different users are independent
    assert caller(make_user("bob")).post(TASKS, body, **key).status_code == 201


def test_idempotency_key_of_an_abandoned_request_is_released(client, alice):
    body, key = task_request(), {"HTTP_IDEMPOTENCY_KEY": "k"}
    client.post(TASKS, body, **key)
    IdempotencyKey.objects.update(task=None)
    expect_problem(client.post(TASKS, body, **key), 409, "idempotency_in_progress")
    IdempotencyKey.objects.update(created_at="2026-01-01T00:00:00Z", request_sha256="")
    assert client.post(TASKS, body, **key).status_code == 201


def test_slow_request_whose_key_was_taken_over_creates_no_second_task(client, monkeypatch):
    body, key = task_request(), {"HTTP_IDEMPOTENCY_KEY": "k"}
    other_answers = []

    def check_while_another_request_takes_over(files):
        monkeypatch.undo()
        IdempotencyKey.objects.update(created_at=timezone.now() - datetime.timedelta(minutes=2))
        other_answers.append(client.post(TASKS, body, **key))

    monkeypatch.setattr("tasks.api.views.check_sources", check_while_another_request_takes_over)
    expect_problem(client.post(TASKS, body, **key), 409, "idempotency_in_progress")
    (answer,) = other_answers
    assert client.post(TASKS, body, **key).json()["id"] == answer.json()["id"]
    assert Task.objects.count() == 1


def test_idempotency_key_of_a_rejected_request_is_released(client):
    worker = make_worker(online=False)
    key = {"HTTP_IDEMPOTENCY_KEY": "k"}
    expect_problem(
        client.post(TASKS, task_request(worker=worker.pk), **key), 422, "worker_is_offline"
    )
    assert client.post(TASKS, task_request(), **key).status_code == 201


def test_failed_request_does_not_free_a_key_that_was_taken_over(client, monkeypatch):
    body, key = task_request(), {"HTTP_IDEMPOTENCY_KEY": "k"}

    def fail_after_another_request_took_over(files):
        IdempotencyKey.objects.update(created_at=timezone.now())
        raise DomainError("storage_unreachable", status=503)

    monkeypatch.setattr("tasks.api.views.check_sources", fail_after_another_request_took_over)
    expect_problem(client.post(TASKS, body, **key), 503, "storage_unreachable")
    monkeypatch.undo()
    expect_problem(client.post(TASKS, body, **key), 409, "idempotency_in_progress")


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "schlüssel"])
def test_invalid_idempotency_key_is_rejected(client, key):
    answer = client.post(TASKS, task_request(), HTTP_IDEMPOTENCY_KEY=key)
    expect_problem(answer, 422, "idempotency_key_bad")


def test_files_of_an_earlier_task_are_copied_without_an_upload(client, alice, storage):
    task = client.post(TASKS, task_request()).json()
    upload_files(task)
    client.post(f"{TASKS}{task['id']}/submit/")
    files = [{"kind": file["kind"], "from_file": file["id"]} for file in task["files"]]
    files[1]["input"] = "other"
    copy = client.post(TASKS, task_request(files=files, copied_from=task["id"])).json()
    assert (copy["uploads"], copy["copied_from"]) == ([], task["id"])
    assert [file["input"] for file in copy["files"]] == ["", "other"]
    assert client.post(f"{TASKS}{copy['id']}/submit/").json()["status"] == "waiting"
    stranger = caller(make_user("bob"))
    expect_problem(stranger.post(TASKS, task_request(files=files)), 422, "file_unknown")


def test_repeated_key_copies_what_an_interrupted_request_has_not_copied(client, storage):
    task = client.post(TASKS, task_request()).json()
    upload_files(task)
    client.post(f"{TASKS}{task['id']}/submit/")
    files = [{"kind": file["kind"], "from_file": file["id"]} for file in task["files"]]
    body, key = task_request(files=files), {"HTTP_IDEMPOTENCY_KEY": "k"}
    copy = client.post(TASKS, body, **key).json()
    # the first request has not copied the last file; after a while, its process must have died
    TaskFile.objects.filter(task=copy["id"], kind="data").update(stored_at=None, copy="")
    expect_problem(client.post(TASKS, body, **key), 409, "idempotency_in_progress")
    IdempotencyKey.objects.update(created_at=timezone.now() - datetime.timedelta(minutes=2))
    again = client.post(TASKS, body, **key).json()
    assert (again["id"], again["uploads"]) == (copy["id"], [])
    assert client.post(f"{TASKS}{copy['id']}/submit/").json()["status"] == "waiting"


def test_cancel_accepts_one_several_or_all_own_tasks(client, alice):
    bob = make_user("bob")
    one, two, three, four = (make_waiting_task(owner=alice) for _ in range(4))
    foreign = make_waiting_task(owner=bob)
    assert client.post(f"{TASKS}{one.pk}/cancel/").json()["status"] == "cancelled"
    assert client.post(f"{TASKS}{one.pk}/cancel/").json()["status"] == "cancelled"
    several = client.post(f"{TASKS}cancel/", {"tasks": [one.pk, two.pk, two.pk, foreign.pk, 9**9]})
    unknown = [foreign.pk, 9**9]
    assert several.json() == {"cancelled": [one.pk, two.pk], "ended": [], "unknown": unknown}
    everything = client.post(f"{TASKS}cancel/", {"all_mine": True}).json()
    assert everything == {"cancelled": [four.pk, three.pk], "ended": [], "unknown": []}
    for body in ({}, {"all_mine": True, "tasks": [1]}):
        expect_problem(client.post(f"{TASKS}cancel/", body), 422, "cancel_which")
    foreign.refresh_from_db()
    assert foreign.status == "waiting"


def test_delete_removes_the_task_and_its_files_in_storage(client, alice, storage, settings):
    attempt = make_attempt(make_waiting_task(owner=alice))
    task = attempt.task
    keys = [task.files.first().object_key, f"attempts/{attempt.pk}/profile.json"]
    for key in keys:
        object_store.write(key, b"content")
    expect_problem(client.delete(f"{TASKS}{task.pk}/"), 409, "task_live")
    Attempt.objects.update(ended_at="2026-01-01T00:00:00Z")
    Task.objects.filter(pk=task.pk).update(state="finished", outcome="cancelled")
    assert client.delete(f"{TASKS}{task.pk}/").status_code == 204
    expect_problem(client.get(f"{TASKS}{task.pk}/"), 404, "not_found")
    expect_problem(client.delete(f"{TASKS}{task.pk}/"), 404, "not_found")
    sweep_removed_files()
    assert [object_store.head(key) for key in keys] == [None, None]
    # the last sweep deletes files that were uploaded later to a presigned URL, and then the rows
    object_store.write(keys[0], b"late")
    RemovedObjects.objects.update(due_at="2026-01-01T00:00:00Z")
    sweep_removed_files()
    assert object_store.head(keys[0]) is None
    assert not RemovedObjects.objects.exists()


def test_delete_works_while_storage_is_unreachable(client, alice, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:1"
    task = make_task(owner=alice)
    cancel_task(task)
    assert client.delete(f"{TASKS}{task.pk}/").status_code == 204
    sweep_removed_files()
    assert RemovedObjects.objects.get().is_last is False


def test_delete_of_another_users_task_is_audited(alice):
    task = make_task(owner=alice)
    cancel_task(task)
    assert caller(make_user("root", is_staff=True)).delete(f"{TASKS}{task.pk}/").status_code == 204
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.before["owner"]) == ("task.delete", alice.email)


def test_events_are_paged_by_sequence_number(client, alice):
    task = make_waiting_task(owner=alice)
    cancel_task(task)
    address = f"{TASKS}{task.pk}/events/"
    first = client.get(f"{address}?limit=1").json()
    assert (first["last_seq"], first["is_complete"]) == (1, False)
    assert first["results"][0]["status"] == "waiting"
    rest = client.get(f"{address}?after=1").json()
    assert [event["state"] for event in rest["results"]] == ["finished"]
    assert (rest["results"][0]["outcome"], rest["is_complete"]) == ("cancelled", True)
    assert client.get(f"{address}?after=99").json()["results"] == []
    expect_problem(client.get(f"{address}?after=-1"), 400, "query_invalid")
    expect_problem(client.get(f"{address}?limit=100000"), 400, "query_invalid")


def test_log_is_read_from_a_byte_offset(client, alice):
    task = make_waiting_task(owner=alice)
    address = f"{TASKS}{task.pk}/log/"
    assert client.get(address).content == b""
    attempt = make_attempt(task)
    offset = 0
    for seq, text in enumerate(["loading\n", "测量\n", "done\n"]):
        size = len(text.encode())
        LogChunk.objects.create(attempt=attempt, seq=seq, offset=offset, size=size, text=text)
        offset += size
    whole = client.get(address)
    assert whole["Content-Type"] == "text/plain; charset=utf-8"
    assert (whole.content.decode(), whole["Log-Next-Offset"]) == ("loading\n测量\ndone\n", "20")
    assert client.get(f"{address}?offset=8").content.decode() == "测量\ndone\n"
    assert client.get(f"{address}?offset=9").content.decode() == "量\ndone\n"
    assert client.get(f"{address}?offset=20").content == b""
    assert client.get(f"{address}?attempt=1", HTTP_ACCEPT="text/plain").status_code == 200
    expect_problem(client.get(f"{address}?attempt=2"), 404, "not_found")
    expect_problem(
        client.get(f"{address}?offset=x", HTTP_ACCEPT="text/plain"), 400, "query_invalid"
    )


def test_artifacts_are_listed_and_downloaded_from_storage(client, alice, storage):
    attempt = make_attempt(make_waiting_task(owner=alice))
    task = attempt.task
    Artifact.objects.create(attempt=attempt, name="log.txt", size_bytes=3, md5="0" * 32)
    Artifact.objects.create(
        attempt=attempt, name="profile.json", size_bytes=3, md5="0" * 32, is_stored=False
    )
    object_store.write(f"attempts/{attempt.pk}/log.txt", b"log")
    (row,) = client.get(f"{TASKS}{task.pk}/artifacts/").json()
    assert (row["name"], row["attempt"]) == ("log.txt", 1)
    link = client.get(row["url"])
    assert (link.status_code, httpx2.get(link["Location"]).content) == (302, b"log")
    for name in ("profile.json", "nothing", "..%2F..%2Fsecret"):
        expect_problem(client.get(f"{TASKS}{task.pk}/artifacts/{name}/"), 404, "not_found")


def test_list_combines_filters(client, alice):
    x86, pi = make_worker("x86"), make_worker("pi", version="1.12.0")
    first = make_task(owner=alice, worker=x86, title="Night run")
    second = make_task(owner=alice, worker=pi, runtime_version="1.12.0", title="day run")
    cancel_task(second)

    def ids(query):
        return [row["id"] for row in client.get(f"{TASKS}?{query}").json()["results"]]

    assert ids("") == [second.pk, first.pk]
    assert ids("status=cancelled") == [second.pk]
    assert ids("status=cancelled&status=initiated") == [second.pk, first.pk]
    assert ids(f"worker={x86.pk}") == ids("worker_name=x86") == [first.pk]
    assert ids("version=1.12.0") == [second.pk]
    assert ids("title=NIGHT") == [first.pk]
    # spaces at the ends of the filter are significant
    assert ids("title=night%20") == [first.pk]
    assert ids("title=run%20") == []
    assert ids("title=run&status=running") == []
    assert ids("model_name=NET") == ids("search=NET") == [second.pk, first.pk]
    assert ids("search=night") == [first.pk]
    assert ids("created_after=2999-01-01T00:00:00Z") == []
    assert ids("created_before=2999-01-01") == [second.pk, first.pk]
    assert ids(f"owner={alice.email.upper()}") == [second.pk, first.pk]
    assert ids(f"owner={alice.email.replace('@', '＠')}") == [second.pk, first.pk]
    for date in ("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00", "x", ""):
        expect_problem(client.get(f"{TASKS}?created_after={date}"), 400, "query_invalid")


def test_number_of_queries_of_the_list_does_not_depend_on_tasks(
    client, alice, django_assert_num_queries
):
    worker = make_worker()
    for count in (1, 10):
        for _ in range(count):
            make_task(owner=alice, worker=worker)
        with django_assert_num_queries(7):  # session, user, tasks, files, 3 for figures
            client.get(TASKS)


@pytest.mark.usefixtures("transactional_db")
def test_concurrent_requests_with_the_same_key_create_one_task():
    user, body = at_once(lambda: make_user("alice"), task_request)

    def create():
        answer = caller(user).post(TASKS, body, HTTP_IDEMPOTENCY_KEY="k")
        return answer.status_code, answer.json().get("id")

    answers = at_once(*[create] * 4)
    assert at_once(Task.objects.count) == [1]
    assert {status for status, _ in answers} <= {201, 409}
    assert len({task_id for status, task_id in answers if status == 201}) == 1
