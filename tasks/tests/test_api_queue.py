"""Tests of the queue in the API: position of a task, possible devices, and checks of a request."""

import pytest

from tasks.lifecycle.cancel import cancel_task
from tasks.models import Purpose, Task
from tasks.tests.make import MD5, TASKS, make_task, make_user, make_waiting_task, make_worker
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.database]

MODEL = {"kind": "model", "name": "net.mge", "size_bytes": 11, "md5": MD5}


@pytest.fixture
def client(alice):
    return caller(alice)


def test_queue_of_a_waiting_task_has_position_and_cause(client, alice):
    first, second = make_waiting_task(owner=alice), make_waiting_task(owner=alice)
    queue = client.get(f"{TASKS}{second.pk}/queue/").json()["queue"]
    assert (queue["position"], queue["worker"]) == (2, first.worker_id)
    assert queue["causes"][0]["code"] == "behind"
    assert queue["causes"][0]["text"]
    cancel_task(first)
    assert client.get(f"{TASKS}{first.pk}/queue/").json() == {"queue": None}
    expect_problem(caller(make_user("bob")).get(f"{TASKS}{second.pk}/queue/"), 404, "not_found")


def test_judge_checks_a_request_without_creating_a_task(client):
    worker = make_worker()
    body = {"worker": worker.pk, "runtime_version": "1.13.0", "files": [MODEL]}
    judgement = client.post(f"{TASKS}judge/", body | {"options": {"iter": 7}}).json()
    assert (judgement["refusal"], judgement["worker"]) == (None, worker.pk)
    clean, profiled = judgement["commands"]
    assert (clean["kind"], profiled["kind"]) == ("clean", "profiled")
    assert "--iter=7" in profiled["line"]
    assert judgement["queue"]["position"] == 1
    assert judgement["quota"]["live"] == 0
    hidden = make_worker(is_public=False)
    for changes, code in (
        ({"runtime_version": "9"}, "runtime_missing"),
        ({"worker": hidden.pk}, "worker_unknown"),
    ):
        judgement = client.post(f"{TASKS}judge/", body | changes).json()
        assert (judgement["refusal"]["code"], judgement["queue"]) == (code, None)
    assert not Task.objects.exists()


def test_move_takes_a_waiting_task_to_another_device(client, alice):
    here, there = make_worker(), make_worker()
    task = make_waiting_task(owner=alice, worker=here)
    address = f"{TASKS}{task.pk}/move/"
    for worker, value in ((there, there.pk), (here, here.name)):
        assert client.post(address, {"worker": value}).json()["worker"] == worker.pk
    hidden = make_worker(is_public=False)
    for worker in (hidden.pk, 9**9):
        expect_problem(client.post(address, {"worker": worker}), 422, "worker_unknown")
    cancel_task(task)
    expect_problem(client.post(address, {"worker": here.pk}), 409, "not_waiting")


def test_a_health_check_stays_on_its_device():
    here, there = make_worker(), make_worker()
    task = make_waiting_task(worker=here, purpose=Purpose.HEALTH)
    client = caller(make_user("root", is_staff=True))
    answer = client.post(f"{TASKS}{task.pk}/move/", {"worker": there.pk})
    expect_problem(answer, 409, "check_stays")
    assert client.get(f"{TASKS}{task.pk}/queue/").json()["queue"]["hints"] == []


def test_priority_changes_within_the_range_of_the_user(client, alice):
    task = make_task(owner=alice)
    address = f"{TASKS}{task.pk}/priority/"
    assert client.post(address, {"priority": 1}).json()["priority"] == 1
    expect_problem(client.post(address, {"priority": 99}), 422, "priority_bad")
    expect_problem(client.post(address, {"priority": 10**6}), 422, "invalid")
    root = caller(make_user("root", is_staff=True))
    assert root.post(address, {"priority": 99}).json()["priority"] == 99
    cancel_task(task)
    expect_problem(client.post(address, {"priority": 1}), 409, "not_waiting")


def test_saved_views_have_unique_names_and_belong_to_one_user(client):
    address = f"{TASKS}views/"
    answer = client.post(address, {"name": "failed", "query": "status=failed"})
    assert (answer.status_code, answer.json()["replaced_query"]) == (201, "")
    answer = client.post(address, {"name": "failed", "query": "odd=1&q=net&page=9"})
    view = answer.json()
    assert (answer.status_code, view["replaced_query"]) == (200, "status=failed")
    assert [row["query"] for row in client.get(address).json()["results"]] == ["q=net"]
    expect_problem(client.post(address, {"name": "\u0007", "query": "q=x"}), 422, "character_bad")
    for query in ("status=odd", "odd=1", "%00", "since=2026-02-30"):
        expect_problem(client.post(address, {"name": "x", "query": query}), 422, "view_query_bad")
    stranger = caller(make_user("bob"))
    assert stranger.get(address).json()["results"] == []
    expect_problem(stranger.delete(f"{address}{view['id']}/"), 404, "not_found")
    assert client.delete(f"{address}{view['id']}/").status_code == 204
    assert client.get(address).json()["results"] == []
