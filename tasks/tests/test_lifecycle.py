"""Tests of the states of a task, its history, and late or repeated reports."""

from unittest import mock

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agent.protocol.messages import AttemptLog, EndReason
from tasks.actors import diagnose_run
from tasks.lifecycle import attempts
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.outcomes import complete_task
from tasks.lifecycle.reasons import Blame, wording_of
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.states import ENTERED_FROM, Outcome, Status, TaskState
from tasks.submission import uploads
from tasks.tests.make import (
    MD5,
    accept_attempt,
    change_worker,
    fail_run,
    finished_report,
    make_attempt,
    make_task,
    make_waiting_task,
    make_worker,
    receive_report,
    started_report,
    store_log_chunk,
    stored_objects,
)
from webprofile.errors import DomainError

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def test_task_passes_through_all_states():
    task = make_task()
    assert task.status == Status.INITIATED
    uploads.submit_task(task, stored_objects(task))
    (attempt,) = assign_waiting()
    accept_attempt(attempt)
    receive_report(attempt, started_report(attempt))
    task.refresh_from_db()
    assert task.status == Status.RUNNING
    assert receive_report(attempt, finished_report(attempt))
    assert complete_task(Task.objects.get(pk=task.pk))
    task.refresh_from_db()
    assert (task.status, task.outcome) == (Status.SUCCEEDED, Outcome.SUCCEEDED)
    assert [(e.seq, e.kind) for e in task.events.all()] == [
        (1, "task.waiting"),
        (2, "task.assigned"),
        (3, "task.running"),
        (4, "task.processing"),
        (5, "task.finished"),
    ]


def test_progress_never_decreases_and_adds_no_event():
    attempt = make_attempt()
    accept_attempt(attempt)
    receive_report(attempt, started_report(attempt, passes=3))
    assert (attempt.passes, attempt.passes_done) == (3, 0)
    events, started_at = attempt.task.events.count(), attempt.started_at
    receive_report(attempt, started_report(attempt, passes=3, passes_done=2, command="another"))
    receive_report(attempt, started_report(attempt, passes=3, passes_done=1))
    receive_report(attempt, started_report(attempt))
    assert (attempt.passes, attempt.passes_done) == (3, 2)
    assert (attempt.started_at, attempt.command) == (started_at, "load_and_run model.mge")
    assert attempt.task.events.count() == events
    receive_report(attempt, finished_report(attempt, EndReason.TIMED_OUT))
    receive_report(attempt, started_report(attempt, passes=3, passes_done=3))
    assert attempt.passes_done == 2


@pytest.mark.parametrize("stored", [(10, MD5), (11, "0" * 32)])
def test_file_with_another_size_or_checksum_is_rejected(stored):
    task = make_task()
    objects = stored_objects(task) | {task.files.last().pk: stored}
    with pytest.raises(DomainError, match="upload_damaged"):
        uploads.submit_task(task, objects)


def test_slot_holds_one_live_attempt():
    worker = make_worker()
    first, second = make_waiting_task(worker=worker), make_waiting_task(worker=worker)
    assert [attempt.task for attempt in assign_waiting()] == [first]
    assert assign_waiting() == []
    with pytest.raises(IntegrityError), transaction.atomic():
        attempts.assign_attempt(second, slot=0)
    second.refresh_from_db()
    assert second.state == TaskState.WAITING


def test_device_with_two_slots_gets_the_two_oldest_tasks():
    worker = make_worker(slots=2)
    tasks = [make_waiting_task(worker=worker) for _ in range(3)]
    assert [attempt.task for attempt in assign_waiting()] == tasks[:2]
    assert set(Attempt.objects.values_list("slot", flat=True)) == {0, 1}


def test_offline_drained_or_broken_device_gets_no_task():
    for change in ({"last_seen_at": None}, {"is_enabled": False}):
        worker = make_worker()
        make_waiting_task(worker=worker)
        change_worker(worker.pk, **change)
    broken = make_worker()
    make_waiting_task(worker=broken)
    broken.runtimes.update(problem="no Python")
    assert assign_waiting() == []


def test_stale_task_cannot_be_assigned_again():
    task = make_waiting_task()
    stale = Task.objects.get(pk=task.pk)
    assert attempts.assign_attempt(task, slot=0)
    assert attempts.assign_attempt(stale, slot=1) is None
    assert Attempt.objects.count() == 1


def test_late_report_of_a_lost_attempt_is_ignored():
    attempt = make_attempt()
    attempts.lose_attempt(attempt, reason="lease_expired")
    task = attempt.task
    events = task.events.count()
    receive_report(attempt, started_report(attempt))
    store_log_chunk(
        attempt,
        AttemptLog(attempt=attempt.pk, seq=1, offset=0, size=1, text="x"),
    )
    assert receive_report(attempt, finished_report(attempt)) is False
    task.refresh_from_db()
    assert (task.state, task.events.count(), attempt.log.count()) == ("waiting", events, 0)


def test_repeated_final_report_is_ignored():
    attempt = make_attempt()
    receive_report(attempt, started_report(attempt))
    assert receive_report(attempt, finished_report(attempt))
    events = attempt.task.events.count()
    assert receive_report(attempt, finished_report(attempt)) is False
    assert attempt.task.events.count() == events


def test_lost_attempts_are_retried_up_to_the_limit(settings):
    task = make_waiting_task()
    for _ in range(settings.MAX_ATTEMPTS):
        (attempt,) = assign_waiting()
        attempts.lose_attempt(attempt, reason="lease_expired")
    assert assign_waiting() == []
    task.refresh_from_db()
    assert (task.status, task.outcome, task.reason) == ("failed", "lost", "lease_expired")
    assert wording_of(task.reason).blame is Blame.DEVICE


@pytest.mark.parametrize("reason", [EndReason.DOWNLOAD_FAILED, EndReason.UPLOAD_FAILED])
def test_retry_after_a_transfer_failure_is_delayed(reason):
    attempt = make_attempt()
    receive_report(attempt, finished_report(attempt, reason))
    assert assign_waiting() == []
    Task.objects.update(not_before_at=timezone.now())
    assert len(assign_waiting()) == 1


def test_retry_delay_is_at_most_the_setting(settings):
    settings.MAX_ATTEMPTS, settings.RETRY_PAUSE_MOST_S = 30, 60.0
    task = make_waiting_task()
    for _ in range(20):
        (attempt,) = assign_waiting()
        receive_report(attempt, finished_report(attempt, EndReason.UPLOAD_FAILED))
        task.refresh_from_db()
        assert (task.not_before_at - timezone.now()).total_seconds() <= 60
        Task.objects.update(not_before_at=timezone.now())


@pytest.mark.parametrize("reason", [EndReason.KILLED, EndReason.CANCELLED])
def test_killed_run_is_retried_at_once(reason):
    attempt = make_attempt()
    receive_report(attempt, finished_report(attempt, reason, exit_code=137))
    assert len(assign_waiting()) == 1


def test_reason_comes_from_the_log_end_if_chunks_were_lost():
    attempt = make_attempt()
    output = "terminate called after throwing an instance of 'lar::ModelError'\n  what():  no model"
    fail_run(attempt, exit_code=134, detail="SIGABRT", log_end=output)
    assert (attempt.task.reason, attempt.task.detail) == ("model_invalid", "no model")
    attempt.refresh_from_db()
    assert attempt.log_end == ""


def test_log_of_a_failed_run_is_read_by_an_actor_and_once(client):
    attempt = make_attempt()
    report = finished_report(attempt, exit_code=1, log_end="ERROR: --fast: no\n")
    assert receive_report(attempt, report)
    task = attempt.task
    assert (task.state, task.outcome, task.reason) == ("processing", "", "")
    client.force_login(task.owner)
    assert "The run failed. Reading its log…" in client.get(f"/tasks/{task.pk}/").text
    for _ in range(2):
        diagnose_run.fn(str(attempt.pk))
        task.refresh_from_db()
        assert (task.status, task.reason) == ("failed", "option_unsupported")
    kinds = [event.data.get("status") for event in task.events.all()]
    assert kinds.count("failed") == 1


def test_diagnosis_that_breaks_ends_the_task_nevertheless():
    attempt = make_attempt()
    with mock.patch("tasks.lifecycle.failures.diagnose", side_effect=RuntimeError):
        fail_run(attempt, detail="the agent's words")
    task = attempt.task
    assert (task.status, task.reason, task.detail) == ("failed", "run_failed", "the agent's words")


def test_failure_of_the_model_is_not_retried():
    attempt = make_attempt()
    fail_run(attempt, exit_code=134, detail="SIGABRT")
    assert (attempt.task.outcome, attempt.task.reason) == ("failed", "crashed")


def test_detail_names_the_file_as_the_user_did():
    attempt = make_attempt()
    text = "instance of 'lar::InputError'\n  what():  \"input-0.npy\" is cut off\n"
    chunk = AttemptLog(attempt=attempt.pk, seq=1, offset=0, size=len(text), text=text)
    store_log_chunk(attempt, chunk)
    fail_run(attempt, exit_code=134)
    assert attempt.task.detail == '"data.npy" is cut off'


def test_cancel_of_a_waiting_task_ends_it_at_once():
    task = make_waiting_task()
    cancel_task(task)
    assert (task.status, task.reason) == ("cancelled", "cancelled_by_user")
    assert assign_waiting() == []


def test_cancelled_run_ends_as_cancelled_despite_a_success_report():
    attempt = make_attempt()
    receive_report(attempt, started_report(attempt))
    cancel_task(Task.objects.get(pk=attempt.task_id))
    receive_report(attempt, finished_report(attempt))
    attempt.task.refresh_from_db()
    assert (attempt.task.state, attempt.task.outcome) == ("finished", "cancelled")


def test_cancel_of_an_ended_task_has_no_effect():
    attempt = make_attempt()
    fail_run(attempt)
    task = Task.objects.get(pk=attempt.task_id)
    cancel_task(task)
    assert task.outcome == "failed"


def test_repeated_log_chunk_is_stored_once():
    attempt = make_attempt()
    for _ in range(2):
        store_log_chunk(
            attempt,
            AttemptLog(attempt=attempt.pk, seq=1, offset=0, size=3, text="a\x00b"),
        )
    assert [chunk.text for chunk in attempt.log.all()] == ["a\ufffdb"]


def test_log_beyond_the_limit_is_discarded(settings):
    settings.LOG_LIMIT_BYTES = 4
    attempt = make_attempt()
    for seq, text in enumerate(("ab", "cd", "e"), start=1):
        message = AttemptLog(attempt=attempt.pk, seq=seq, offset=0, size=0, text=text)
        store_log_chunk(attempt, message)
    assert attempts.log_tail(attempt) == "abcd"


@pytest.mark.parametrize("state", TaskState)
def test_finished_task_changes_to_no_state(state):
    task = make_task()
    cancel_task(task)
    assert not transition_if(task, state, set(TaskState))
    assert task.outcome == "cancelled"


def move_to_another_device(task: Task) -> bool:
    now = timezone.now()
    other = {"worker_id": make_worker("other").pk, "submitted_at": now, "queue_deadline_at": now}
    assert task.worker.name != "other"
    return transition_if(task, TaskState.WAITING, {TaskState.INITIATED}, **other)


def finish(task: Task) -> bool:
    return transition_if(task, TaskState.FINISHED, {TaskState.INITIATED}, outcome=Outcome.LOST)


@pytest.mark.parametrize("change", [move_to_another_device, finish])
def test_transition_updates_the_instance_without_a_query(change):
    task = make_task()
    with CaptureQueriesContext(connection) as captured:
        assert change(task)
    assert not [query for query in captured if 'FROM "tasks_task"' in query["sql"]]
    row = Task.objects.get(pk=task.pk)
    assert task.worker == row.worker
    for field in Task._meta.concrete_fields:
        assert getattr(task, field.attname) == getattr(row, field.attname), field.name
    assert list(row.events.values_list("seq", flat=True)) == list(range(1, task.event_seq + 1))


def test_transition_outside_the_state_machine_has_no_effect():
    task = make_task()
    assert not transition_if(task, TaskState.RUNNING, set(TaskState))
    assert set(ENTERED_FROM) == set(TaskState)


def test_database_rejects_an_outcome_of_a_live_task():
    task = make_task()
    with pytest.raises(IntegrityError), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(outcome=Outcome.FAILED)


def test_old_status_plus_events_gives_the_new_status():
    """A reader of the status at event n who reads later events knows the current status."""
    task = make_task()
    seq, status = task.event_seq, task.status.value
    uploads.submit_task(task, stored_objects(task))
    (attempt,) = assign_waiting()
    receive_report(attempt, started_report(attempt))
    for event in task.events.filter(seq__gt=seq):
        status = event.data["status"]
    task.refresh_from_db()
    assert status == task.status.value
