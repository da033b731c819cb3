"""Tests of a device that reconnects after its lease expired while its attempt still runs."""

import datetime

import pytest
from django.utils import timezone

from tasks.lifecycle import attempts
from tasks.lifecycle.attempts import revive_attempts
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.sweep import COMING_BACK, sweep
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.tests.make import (
    finished_report,
    make_attempt,
    make_processing_attempt,
    make_task,
    make_waiting_task,
    make_worker,
    receive_report,
    set_last_heartbeat,
    started_report,
)

pytestmark = [pytest.mark.django_db, pytest.mark.database]

LONG_AGO = timezone.now() - datetime.timedelta(minutes=10)


def make_lost_attempt() -> Attempt:
    attempt = make_attempt()
    attempts.lose_attempt(attempt, reason="lease_expired")
    return attempt


def reconnect(attempt: Attempt) -> None:
    revive_attempts(attempt.worker_id, {attempt.pk})
    attempt.refresh_from_db()
    attempt.task.refresh_from_db()


def test_final_report_after_the_reconnect_counts():
    attempt = make_lost_attempt()
    reconnect(attempt)
    assert receive_report(attempt, finished_report(attempt))
    attempt.task.refresh_from_db()
    assert (attempt.task.state, attempt.task.attempts.count()) == ("processing", 1)


@pytest.mark.parametrize(("is_started", "state"), [(False, "assigned"), (True, "running")])
def test_running_attempt_is_revived(is_started, state):
    attempt = make_attempt()
    if is_started:
        receive_report(attempt, started_report(attempt))
    attempts.lose_attempt(attempt, reason="lease_expired")
    reconnect(attempt)
    assert (attempt.ended_at, attempt.end_reason, attempt.task.state) == (None, "", state)
    assert attempt.lease_expires_at > timezone.now()
    assert assign_waiting() == []


def test_attempt_stays_lost_if_the_task_has_another_attempt():
    attempt = make_lost_attempt()
    (second,) = assign_waiting()
    reconnect(attempt)
    assert attempt.end_reason == "lease_expired"
    assert list(attempt.task.attempts.filter(ended_at=None)) == [second]
    attempts.lose_attempt(second, reason="lease_expired")
    reconnect(attempt)
    assert attempt.end_reason == "lease_expired"


def test_attempt_stays_lost_if_the_task_moved():
    attempt = make_lost_attempt()
    Task.objects.update(worker=make_worker("elsewhere"))
    reconnect(attempt)
    assert (attempt.end_reason, attempt.task.state) == ("lease_expired", "waiting")


def test_attempt_of_a_cancelled_task_stays_lost_if_the_device_is_busy():
    attempt = make_lost_attempt()
    cancel_task(attempt.task)
    other = make_waiting_task(worker=attempt.worker)
    assert [assigned.task for assigned in assign_waiting()] == [other]
    reconnect(attempt)
    assert attempt.end_reason == "lease_expired"


def test_attempt_stays_lost_if_its_slot_is_occupied():
    attempt = make_lost_attempt()
    Task.objects.filter(pk=attempt.task_id).update(not_before_at=timezone.now() + COMING_BACK)
    make_waiting_task(worker=attempt.worker)
    assert len(assign_waiting()) == 1
    reconnect(attempt)
    assert (attempt.end_reason, attempt.task.state) == ("lease_expired", "waiting")


@pytest.mark.parametrize("reason", ["agent_forgot", "agent_error"])
def test_only_attempts_lost_by_lease_are_revived(reason):
    attempt = make_attempt()
    attempts.lose_attempt(attempt, reason=reason)
    reconnect(attempt)
    assert attempt.end_reason == reason


@pytest.mark.parametrize(
    ("column", "reason"), [("lease_expires_at", "lease_expired"), ("started_at", "agent_error")]
)
def test_first_sweep_after_a_downtime_ends_no_attempts(column, reason):
    attempt = make_attempt()
    Attempt.objects.update(**{column: timezone.now() - datetime.timedelta(days=1)})
    sweep(timezone.now())
    attempt.refresh_from_db()
    assert attempt.ended_at is None
    sweep(timezone.now() - COMING_BACK)
    attempt.refresh_from_db()
    assert attempt.end_reason == reason


def test_lease_that_ends_after_a_short_restart_expires():
    attempt = make_attempt()
    Attempt.objects.update(lease_expires_at=timezone.now() - datetime.timedelta(seconds=2))
    sweep(timezone.now())
    attempt.refresh_from_db()
    assert attempt.end_reason == "lease_expired"


def test_first_sweep_after_a_downtime_fails_no_waiting_tasks():
    task = make_waiting_task()
    Task.objects.update(submitted_at=timezone.now() - datetime.timedelta(hours=2))
    set_last_heartbeat(timezone.now() - datetime.timedelta(hours=1))
    sweep(timezone.now())
    task.refresh_from_db()
    assert task.state == "waiting"
    sweep(timezone.now() - COMING_BACK)
    task.refresh_from_db()
    assert task.reason == "worker_went_offline"


@pytest.mark.parametrize(
    ("state", "column", "reason"),
    [
        ("initiated", "upload_deadline_at", "upload_abandoned"),
        ("waiting", "queue_deadline_at", "queue_timed_out"),
        ("processing", "processing_deadline_at", "profile_timed_out"),
    ],
)
def test_first_sweep_after_a_downtime_applies_no_deadline(state, column, reason):
    task = {
        "initiated": make_task,
        "waiting": make_waiting_task,
        "processing": lambda: make_processing_attempt().task,
    }[state]()
    Task.objects.update(**{column: LONG_AGO})
    sweep(timezone.now())
    task.refresh_from_db()
    assert task.state == state
    sweep(timezone.now() - COMING_BACK)
    task.refresh_from_db()
    assert task.reason == reason
