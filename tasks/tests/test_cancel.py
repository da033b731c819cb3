"""Tests of cancelling several tasks or all own tasks, and of fields that a copy keeps."""

import pytest
from django.utils import timezone

from tasks.lifecycle.cancel import cancel_task, cancel_tasks
from tasks.lifecycle.outcomes import fail_task
from tasks.models import Purpose, Task
from tasks.scheduling.targets import Target
from tasks.submission.creation import create_task, rerun_task
from tasks.submission.request import TaskRequest
from tasks.tests.make import (
    data_file,
    make_attempt,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    model_file,
)
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
