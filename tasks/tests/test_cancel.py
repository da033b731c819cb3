"""Tests of cancelling tasks, of ending runs early, and of fields that a copy keeps."""

import html

import pytest
from django.utils import timezone

from agent.protocol.messages import Enough, LatencySoFar
from tasks.dispatch.gateway import desired_state, on_heartbeats
from tasks.lifecycle.cancel import cancel_task, cancel_tasks
from tasks.lifecycle.outcomes import complete_task, fail_task
from tasks.models import Purpose, Task
from tasks.scheduling.targets import Target
from tasks.submission.creation import create_task, rerun_task
from tasks.submission.request import TaskRequest
from tasks.tests.make import (
    accept_attempt,
    data_file,
    finished_report,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
    receive_report,
    start_run,
    started_report,
)
from tasks.tests.scripts import make_script_task
from tasks.views.task_form import form_data

pytestmark = [
    pytest.mark.django_db, pytest.mark.database, pytest.mark.usefixtures("logged_in"),
]  # fmt: skip


def state_of(task: Task) -> tuple[str, str]:
    task.refresh_from_db()
    return task.state, task.outcome


def test_cancel_tasks_reports_cancelled_ended_and_unknown_ids(alice):
    worker = make_worker(slots=2)
    waiting = make_waiting_task(alice, worker)
    running = make_attempt(make_waiting_task(alice, worker)).task
    failed = make_waiting_task(alice, worker)
    fail_task(failed, reason="queue_timed_out")
    foreign = make_waiting_task(make_user("bob"), worker)
    ids = [waiting.pk, running.pk, failed.pk, foreign.pk, 10**15, waiting.pk]
    report = cancel_tasks(ids, by=alice)
    assert report.cancelled == [waiting.pk, running.pk]
    assert (report.ended, report.unknown) == ([failed.pk], [foreign.pk, 10**15])
    assert state_of(waiting) == ("finished", "cancelled")
    assert state_of(running)[0] == "cancelling"
    assert state_of(foreign) == ("waiting", "")
    # a repetition changes nothing and returns the same report
    assert cancel_tasks(ids, by=alice) == report
    assert waiting.events.filter(kind="task.finished").count() == 1


def test_cancel_all_of_an_administrator_cancels_only_own_tasks(client):
    root = make_user("root", is_staff=True)
    client.force_login(root)
    worker = make_worker()
    own = [make_task(root, worker), make_waiting_task(root, worker)]
    check = make_waiting_task(root, worker, purpose=Purpose.HEALTH)
    foreign = make_waiting_task(make_user("bob"), worker)
    page = client.post("/tasks/cancel-all/", follow=True).text
    assert "2 tasks were cancelled." in page
    assert {state_of(task) for task in own} == {("finished", "cancelled")}
    assert state_of(check) == state_of(foreign) == ("waiting", "")


def test_cancel_all_includes_running_tasks(client, alice):
    worker = make_worker()
    running = make_attempt(make_waiting_task(alice, worker)).task
    waiting = make_waiting_task(alice, worker)
    confirmation = client.post("/tasks/act/", {"act": "cancel-waiting"}).content.decode()
    assert 'formaction="/tasks/cancel-all/"' in confirmation
    page = client.post("/tasks/cancel-all/", {"query": "", "sure": "1"}, follow=True)
    assert "2 tasks were cancelled." in page.content.decode()
    assert state_of(waiting) == ("finished", "cancelled")
    assert state_of(running) == ("cancelling", "")


def ask_enough(client, task: Task):
    return client.post(f"/api/v1/tasks/{task.pk}/enough/")


def test_enough_is_offered_once_a_pass_has_ended_and_reaches_the_agent(client, alice):
    worker = make_worker(facts={"features": ["enough"]})
    attempt = start_run(alice, worker=worker)
    address = f"/tasks/{attempt.task_id}/"
    assert 'id="enough"' not in client.get(address).text
    refused = ask_enough(client, attempt.task)
    assert (refused.status_code, refused.json()["code"]) == (409, "enough_nothing")
    accept_attempt(attempt)
    latency = LatencySoFar(passes=2, used=2, median_ms=10.4, low_ms=10.0, high_ms=10.8)
    report = started_report(attempt, passes=8, passes_done=2, latency=latency)
    receive_report(attempt, report)
    page = client.get(address).text
    assert 'id="enough"' in page
    assert "Median 10.4 ms; 95 % interval 10.0 ms to 10.8 ms (±3.8 %)" in html.unescape(page)
    (shown,) = client.get(f"/api/v1/tasks/{attempt.task_id}/").json()["attempts"]
    assert (shown["latency"]["high_ms"], shown["enough_at"]) == (10.8, None)
    assert desired_state(worker.pk, frozenset({attempt.pk})) == []
    assert client.post(f"{address}enough/", follow=True).status_code == 200
    order = Enough(attempt=attempt.pk)
    assert desired_state(worker.pk, frozenset({attempt.pk})) == [order]
    # until the end, also over a new connection
    assert on_heartbeats({worker.pk: frozenset({attempt.pk})}) == {worker.pk: [order]}
    page = client.get(address).text
    assert "Ends after this pass…" in page and 'id="enough"' not in page
    assert "Early end requested" in page
    # a repetition changes nothing, nor does one after the end
    assert ask_enough(client, attempt.task).json()["attempts"][0]["enough_at"]
    receive_report(attempt, finished_report(attempt))
    assert ask_enough(client, attempt.task).json()["state"] == "processing"
    complete_task(Task.objects.get(pk=attempt.task_id))
    assert ask_enough(client, attempt.task).json()["status"] == "succeeded"
    assert attempt.task.events.filter(kind="task.enough").count() == 1
    assert desired_state(worker.pk) == []


def test_enough_is_refused_where_a_run_cannot_end_early(client, alice):
    waiting = make_waiting_task(alice)
    assert ask_enough(client, waiting).json()["code"] == "enough_nothing"
    attempt = start_run(alice, passes_done=2)
    assert ask_enough(client, attempt.task).json()["code"] == "enough_old_agent"
    assert 'id="enough"' not in client.get(f"/tasks/{attempt.task_id}/").text
    script = make_script_task(alice)
    receive_report(make_attempt(script), started_report(script.attempts.get(), passes_done=1))
    assert ask_enough(client, script).json()["code"] == "enough_script"
    foreign = start_run(make_user("bob"), worker=make_worker(), passes_done=2)
    assert ask_enough(client, foreign.task).status_code == 404
    assert client.post(f"/tasks/{foreign.task_id}/enough/").status_code == 404


def test_a_cancelled_run_is_not_ended_early(client, alice):
    worker = make_worker(facts={"features": ["enough"]})
    attempt = start_run(alice, worker=worker, passes_done=2)
    cancel_task(attempt.task)
    assert ask_enough(client, attempt.task).json()["state"] == "cancelling"
    assert [order.type for order in desired_state(worker.pk)] == ["cancel"]


def test_copy_keeps_target_priority_and_title(alice):
    make_worker(labels={"chip": "A"})
    task = create_task(
        owner=alice,
        request=TaskRequest(
            target=Target({"chip": "A"}, versions=">=1.12"),
            priority=7,
            title="before the change",
            files=(model_file(), data_file()),
        ),
    )
    task.files.update(stored_at=timezone.now())
    cancel_task(task)
    copy, request = rerun_task(task, owner=alice)
    assert request is not None
    for name in ("target", "priority", "title", "runtime_version"):
        assert getattr(copy, name) == getattr(task, name)
    assert copy.copied_from == task
    assert copy.target == {"labels": {"chip": "A"}, "versions": ">=1.12"}
    form = form_data(task)
    assert (form["target"], form["priority"]) == (task.target, 7)
    assert form["title"] == "before the change"
    # a double click creates one task
    assert rerun_task(task, owner=alice) == (copy, None)


def test_api_creates_a_task_for_any_device_or_names_the_error(client, alice):
    worker = make_worker("desk", labels={"chip": "A"})
    body = {
        "target": {"labels": {"chip": "A"}, "versions": "==1.13.*"},
        "priority": -3,
        "title": "nightly",
        "files": [{"kind": "model", "name": "net.mge", "size_bytes": 11, "md5": "0" * 32}],
    }
    answer = client.post("/api/v1/tasks/", body, content_type="application/json")
    assert answer.status_code == 201
    task = Task.objects.get(pk=answer.json()["id"])
    assert (task.worker, task.runtime_version) == (worker, "1.13.0")
    assert (task.priority, task.title) == (-3, "nightly")
    for changes, code in [
        ({"target": {"labels": {"chip": "Z"}}}, "target_label_unmet"),
        ({"target": {"labels": {"chip": 5}}}, "invalid"),
        ({"target": {}, "worker": worker.pk}, "target_and_worker"),
        ({"priority": 2.5}, "invalid"),
        ({"priority": "soon"}, "invalid"),
        ({"priority": 11}, "priority_bad"),
        ({"priority": 10**9}, "invalid"),
        ({"title": "x" * 201}, "invalid"),
        ({"title": "a\nb"}, "title_bad"),
        ({"title": "a\u202eb"}, "character_bad"),
        ({"target": None}, "worker_unknown"),
    ]:
        answer = client.post("/api/v1/tasks/", body | changes, content_type="application/json")
        assert (changes, answer.json()["code"]) == (changes, code)
