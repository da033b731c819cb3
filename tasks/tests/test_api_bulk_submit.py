"""Tests of submitting several tasks with one request."""

import pytest

from accounts.tests.threads import at_once
from tasks.api import views as rest_views
from tasks.models import Task, TaskEvent
from tasks.scheduling.assignment import assign_waiting
from tasks.submission import uploads
from tasks.submission.submit import submit_task
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
from webprofile.tests.documented_api import caller, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return caller(make_user("alice"))


def test_bulk_submit_continues_after_a_task_without_uploads(client, storage):
    made = [client.post(TASKS, task_request()).json() for _ in range(3)]
    first, empty, last = (task["id"] for task in made)
    for task in (made[0], made[2]):
        upload_files(task)
    theirs = make_task(make_user("bob")).pk
    body = {"tasks": [last, empty, theirs, first, last, 2**40]}
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
    assert answer["unknown"] == [theirs, 2**40]
    states = dict(Task.objects.values_list("pk", "state"))
    assert [states[pk] for pk in (empty, theirs)] == ["initiated"] * 2
    again = client.post(f"{TASKS}submit/", {"tasks": [first, last]}).json()
    assert [row["refusal"] for row in again["tasks"]] == [None, None]
    files = client.get(f"{TASKS}{first}/").json()["files"]
    assert all(file["is_stored"] for file in files)


def test_bulk_submit_fails_a_task_with_an_unreadable_input(client, storage):
    good = client.post(TASKS, task_request()).json()
    upload_files(good)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FILES, "data.npy", b"x" * len(FILES["data.npy"]))
        bad = client.post(TASKS, task_request()).json()
        upload_files(bad)
    answer = client.post(f"{TASKS}submit/", {"tasks": [bad["id"], good["id"]]}).json()
    outcomes = [
        (row["status"], row["refusal"] and row["refusal"]["code"]) for row in answer["tasks"]
    ]
    assert outcomes[1] == ("waiting", None)
    assert outcomes[0][1].startswith("input_")
    ended = Task.objects.get(pk=bad["id"])
    assert (ended.state, ended.outcome, ended.reason) == ("finished", "failed", "input_unreadable")
    assert outcomes[0][0] == "failed"


def test_bulk_submit_spreads_tasks_for_any_device_over_devices(client, storage):
    devices = {make_worker().pk for _ in range(3)}
    made = [
        client.post(TASKS, task_request(worker=None, runtime_version="", target={}))
        for _ in devices
    ]
    for response in made:
        assert response.status_code == 201, response.json()
        upload_files(response.json())
    client.post(f"{TASKS}submit/", {"tasks": [response.json()["id"] for response in made]})
    assert set(Task.objects.values_list("worker", flat=True)) == devices


def test_bulk_submit_continues_after_a_concurrent_deletion(client, storage, monkeypatch):
    made = [client.post(TASKS, task_request()).json() for _ in range(2)]
    for task in made:
        upload_files(task)
    gone = Task.objects.get(pk=made[0]["id"])
    submit = uploads.submit_task

    def deleted_first(*arrived):
        Task.objects.filter(pk=gone.pk).delete()
        return submit(*arrived)

    monkeypatch.setattr(uploads, "submit_task", deleted_first)
    answer = client.post(f"{TASKS}submit/", {"tasks": [task["id"] for task in made]})
    assert answer.status_code == 200
    assert answer.json()["tasks"][1]["status"] == "waiting"


@pytest.mark.parametrize("numbers", [[], list(range(1, 102)), "all"])
def test_bulk_submit_rejects_none_and_too_many_tasks(client, numbers):
    refused(client.post(f"{TASKS}submit/", {"tasks": numbers}), 422, "invalid")


def test_submit_returns_the_attempt_that_a_concurrent_request_started(client, storage, monkeypatch):
    """Two requests submit the same task; the device takes it before the slower one is answered."""
    make_worker("board")
    made = client.post(TASKS, task_request(worker="board")).json()
    upload_files(made)
    confirm = rest_views.confirm_task

    def slowly(task):
        confirm(Task.objects.get(pk=task.pk))
        (attempt,) = assign_waiting()
        confirm(task)
        return attempt

    monkeypatch.setattr(rest_views, "confirm_task", slowly)
    answer = client.post(f"{TASKS}{made['id']}/submit/").json()
    assert (answer["state"], len(answer["attempts"])) == ("assigned", 1)


def test_submit_of_an_initiated_task_does_not_query_attempts(
    client, storage, django_assert_max_num_queries
):
    make_worker("board")
    made = client.post(TASKS, task_request(worker="board")).json()
    upload_files(made)
    with django_assert_max_num_queries(20) as captured:
        answer = client.post(f"{TASKS}{made['id']}/submit/").json()
    assert (answer["state"], answer["attempts"]) == ("waiting", [])
    assert not [query for query in captured if 'FROM "tasks_attempt"' in query["sql"]]


@pytest.mark.django_db(transaction=True)
def test_concurrent_submits_of_a_task_submit_it_once():
    task, files = at_once(lambda: (made := make_task(), stored_objects(made)))[0]

    def submit():
        submit_task(Task.objects.get(pk=task.pk), files)

    at_once(submit, submit)

    def state_now():
        moves = list(TaskEvent.objects.values_list("task", "kind"))
        return moves, Task.objects.get().state, Task.objects.get().files.filter(stored_at=None)

    ((moves, state, missing),) = at_once(state_now)
    assert moves == [(task.pk, "task.waiting")]
    assert (state, list(missing)) == ("waiting", [])
