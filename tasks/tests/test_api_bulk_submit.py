"""Tests of submitting several tasks with one request."""

import pytest

from accounts.tests.threads import at_once
from tasks.api import views as rest_views
from tasks.models import Task, TaskEvent
from tasks.scheduling.assignment import assign_waiting
from tasks.submission import uploads
from tasks.submission.uploads import submit_task
from tasks.tests.make import (
    FILES,
    TASKS,
    make_task,
    make_user,
    make_worker,
    stored_objects,
    task_request,
    upload_files,
)
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return caller(make_user("alice"))


def create_and_upload(client) -> dict:
    task = client.post(TASKS, task_request()).json()
    upload_files(task)
    return task


def test_bulk_submit_continues_after_a_task_without_uploads(client, storage):
    first, last = (create_and_upload(client)["id"] for _ in range(2))
    empty = client.post(TASKS, task_request()).json()["id"]
    foreign = make_task(make_user("bob")).pk
    body = {"tasks": [last, empty, foreign, first, last, 2**40]}
    answer = client.post(f"{TASKS}submit/", body).json()
    outcomes = [(row["id"], row["status"], row["refusal"]) for row in answer["tasks"]]
    refusal = outcomes[1][2]
    assert outcomes == [
        (last, "waiting", None),
        (empty, "initiated", refusal),
        (first, "waiting", None),
    ]
    assert refusal["code"] == "upload_missing"
    assert "net.mge, data.npy" in refusal["detail"]
    assert answer["unknown"] == [foreign, 2**40]
    states = dict(Task.objects.values_list("pk", "state"))
    assert [states[pk] for pk in (empty, foreign)] == ["initiated"] * 2
    again = client.post(f"{TASKS}submit/", {"tasks": [first, last]}).json()
    assert [row["refusal"] for row in again["tasks"]] == [None, None]
    files = client.get(f"{TASKS}{first}/").json()["files"]
    assert all(file["is_stored"] for file in files)


def test_bulk_submit_fails_a_task_with_an_unreadable_input(client, storage):
    good = create_and_upload(client)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FILES, "data.npy", b"x" * len(FILES["data.npy"]))
        bad = create_and_upload(client)
    answer = client.post(f"{TASKS}submit/", {"tasks": [bad["id"], good["id"]]}).json()
    failed, waiting = answer["tasks"]
    assert (waiting["status"], waiting["refusal"]) == ("waiting", None)
    assert failed["status"] == "failed"
    assert failed["refusal"]["code"].startswith("input_")
    task = Task.objects.get(pk=bad["id"])
    assert (task.state, task.outcome, task.reason) == ("finished", "failed", "input_wrong")


def test_bulk_submit_spreads_tasks_for_any_device_over_devices(client, storage):
    devices = {make_worker().pk for _ in range(3)}
    request = task_request(worker=None, runtime_version="", target={})
    answers = [client.post(TASKS, request) for _ in devices]
    for answer in answers:
        assert answer.status_code == 201, answer.json()
        upload_files(answer.json())
    client.post(f"{TASKS}submit/", {"tasks": [answer.json()["id"] for answer in answers]})
    assert set(Task.objects.values_list("worker", flat=True)) == devices


def test_bulk_submit_continues_after_a_concurrent_deletion(client, storage, monkeypatch):
    ids = [create_and_upload(client)["id"] for _ in range(2)]
    submit = uploads.submit_task

    def delete_and_submit(*args):
        Task.objects.filter(pk=ids[0]).delete()
        return submit(*args)

    monkeypatch.setattr(uploads, "submit_task", delete_and_submit)
    answer = client.post(f"{TASKS}submit/", {"tasks": ids})
    assert answer.status_code == 200
    assert answer.json()["tasks"][1]["status"] == "waiting"


@pytest.mark.parametrize("ids", [[], list(range(1, 102)), "all"])
def test_bulk_submit_rejects_none_and_too_many_tasks(client, ids):
    expect_problem(client.post(f"{TASKS}submit/", {"tasks": ids}), 422, "invalid")


def test_submit_returns_the_attempt_that_a_concurrent_request_started(client, storage, monkeypatch):
    """Two requests submit a task, which is assigned before the second one returns."""
    task_id = create_and_upload(client)["id"]
    confirm = rest_views.confirm_task

    def confirm_twice(task):
        confirm(Task.objects.get(pk=task.pk))
        (attempt,) = assign_waiting()
        confirm(task)
        return attempt

    monkeypatch.setattr(rest_views, "confirm_task", confirm_twice)
    answer = client.post(f"{TASKS}{task_id}/submit/").json()
    assert (answer["state"], len(answer["attempts"])) == ("assigned", 1)


def test_submit_of_an_initiated_task_does_not_query_attempts(
    client, storage, django_assert_max_num_queries
):
    task_id = create_and_upload(client)["id"]
    with django_assert_max_num_queries(20) as captured:
        answer = client.post(f"{TASKS}{task_id}/submit/").json()
    assert (answer["state"], answer["attempts"]) == ("waiting", [])
    assert not [query for query in captured if 'FROM "tasks_attempt"' in query["sql"]]


@pytest.mark.django_db(transaction=True)
def test_concurrent_submits_of_a_task_submit_it_once():
    (task,) = at_once(make_task)
    (objects,) = at_once(lambda: stored_objects(task))

    def submit():
        submit_task(Task.objects.get(pk=task.pk), objects)

    at_once(submit, submit)

    def check():
        assert list(TaskEvent.objects.values_list("task", "kind")) == [(task.pk, "task.waiting")]
        assert Task.objects.get().state == "waiting"
        assert not Task.objects.get().files.filter(stored_at=None).exists()

    at_once(check)
