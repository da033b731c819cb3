"""Tests of the sweep: deadlines, and repetition of lost messages."""

import datetime

import dramatiq
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from profiles.actors import build_profile
from tasks.actors import dispatch
from tasks.lifecycle import attempts
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.outcomes import abandon_task
from tasks.lifecycle.sweep import sweep
from tasks.management.commands import sweep as sweep_command
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import assign_waiting
from tasks.tests.make import (
    FACTS,
    RUNTIMES,
    change_worker,
    make_attempt,
    make_processing_attempt,
    make_task,
    make_waiting_task,
    make_worker,
    set_last_heartbeat,
)
from webprofile.errors import DomainError
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage
from workers.models import Worker
from workers.services import drain_worker, introduce_worker, resume_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

LONG_AGO = timezone.now() - datetime.timedelta(days=3)


def sweep_and_reload(row: Attempt | Task) -> None:
    sweep()
    row.refresh_from_db()


def test_expired_lease_ends_the_attempt_and_requeues_the_task():
    attempt = make_attempt()
    Attempt.objects.update(lease_expires_at=LONG_AGO)
    sweep_and_reload(attempt)
    assert (attempt.end_reason, attempt.task.state) == ("lease_expired", "waiting")


def test_overdue_upload_is_cancelled_and_its_files_are_deleted(storage):
    task = make_task()
    keys = [file.upload_key for file in task.files.all()]
    for key in keys:
        object_store.write(key, b"x")
    Task.objects.update(upload_deadline_at=LONG_AGO)
    call_command("sweep", "--once")
    call_command("sweep", "--once")
    task.refresh_from_db()
    assert (task.status, task.reason) == ("cancelled", "upload_abandoned")
    assert [object_store.head(key) for key in keys] == [None, None]


def test_overdue_waiting_task_fails():
    task = make_waiting_task()
    Task.objects.update(queue_deadline_at=LONG_AGO)
    sweep_and_reload(task)
    assert (task.status, task.reason) == ("failed", "queue_timed_out")


def test_device_offline_for_long_fails_its_waiting_tasks():
    task = make_waiting_task()
    Task.objects.update(submitted_at=LONG_AGO)
    set_last_heartbeat(timezone.now() - datetime.timedelta(seconds=60))
    sweep_and_reload(task)
    assert task.state == "waiting"  # within the grace period
    set_last_heartbeat(LONG_AGO)
    sweep_and_reload(task)
    assert (task.status, task.reason) == ("failed", "worker_went_offline")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda worker: worker.runtimes.update(problem="broken"), "runtime_went_away"),
        (
            lambda worker: change_worker(worker.pk, is_enabled=False, disabled_at=LONG_AGO),
            "worker_disabled",
        ),
    ],
)
def test_unusable_device_fails_its_waiting_tasks(change, reason):
    task = make_waiting_task()
    Task.objects.update(submitted_at=LONG_AGO)
    change(task.worker)
    sweep_and_reload(task)
    assert (task.status, task.reason) == ("failed", reason)


def test_lost_dispatch_message_is_sent_again():
    broker = dramatiq.get_broker()
    broker.flush_all()
    task = make_waiting_task(worker=make_worker())  # functions for `on_commit` do not run
    busy = make_worker()
    for _ in range(2):
        make_waiting_task(worker=busy)
    make_attempt(Task.objects.filter(worker=busy).first())
    make_worker("idle")
    sweep()
    message = dramatiq.Message.decode(broker.queues["dispatch"].get_nowait())
    assert (message.actor_name, message.args) == ("dispatch", ([task.worker_id],))
    dispatch.fn(*message.args)
    assert task.attempts.count() == 1
    sweep()
    assert broker.queues["dispatch"].empty()  # nothing waits for a free slot


@pytest.mark.parametrize(("exit_code", "actor"), [(0, "build_profile"), (1, "diagnose_run")])
def test_lost_result_message_is_sent_again_once(exit_code, actor):
    attempt = make_processing_attempt(exit_code=exit_code)
    broker = dramatiq.get_broker()
    broker.flush_all()
    queue = broker.queues[build_profile.queue_name]
    sweep()
    assert queue.empty()  # the message may still arrive
    Task.objects.update(hinted_at=LONG_AGO)
    for _ in range(3):
        sweep()
    assert queue.qsize() == 1
    message = dramatiq.Message.decode(queue.get_nowait())
    assert (message.actor_name, message.args) == (actor, (str(attempt.pk),))


def test_unreachable_broker_is_tried_once_per_queue_and_round(monkeypatch):
    for _ in range(3):
        make_processing_attempt(make_waiting_task(worker=make_worker()))
    make_waiting_task()
    Task.objects.update(hinted_at=LONG_AGO)
    broker, actors = dramatiq.get_broker(), []

    def fail(message, **_):
        actors.append(message.actor_name)
        raise ConnectionError("no broker")

    with monkeypatch.context() as patch:
        patch.setattr(broker, "enqueue", fail)
        sweep()
        assert actors == ["dispatch", "build_profile"]
    broker.flush_all()
    sweep()  # sends all messages as soon as the broker is back
    assert broker.queues[build_profile.queue_name].qsize() == 3


def test_overdue_profile_fails_its_task():
    attempt = make_processing_attempt()
    Task.objects.update(processing_deadline_at=LONG_AGO)
    sweep_and_reload(attempt.task)
    assert (attempt.task.status, attempt.task.reason) == ("failed", "profile_timed_out")


def test_failed_run_whose_log_nobody_reads_ends_by_its_exit_code():
    attempt = make_processing_attempt(exit_code=139, detail="SIGSEGV", log_end="ERROR: x\n")
    Task.objects.update(processing_deadline_at=LONG_AGO)
    sweep_and_reload(attempt.task)
    task = attempt.task
    assert (task.status, task.reason, task.detail) == ("failed", "crashed", "SIGSEGV")


def test_concurrently_renewed_lease_does_not_expire():
    attempt = make_attempt()  # its lease was renewed after the query of the sweep
    assert not attempts.lose_attempt(attempt, reason="lease_expired", lease_before=LONG_AGO)
    attempt.refresh_from_db()
    assert attempt.ended_at is None


def test_run_far_beyond_its_time_limit_is_ended():
    attempt = make_attempt()
    Attempt.objects.update(started_at=timezone.now() - datetime.timedelta(minutes=20))
    sweep_and_reload(attempt)
    assert attempt.ended_at is None
    Attempt.objects.update(started_at=LONG_AGO)
    sweep_and_reload(attempt)
    assert attempt.end_reason == "agent_error"


def test_order_that_never_starts_is_ended():
    attempt = make_attempt()
    Attempt.objects.update(created_at=LONG_AGO)  # heartbeats keep its lease
    sweep_and_reload(attempt)
    assert attempt.end_reason == "agent_error"


@pytest.mark.parametrize("started_at", [None, timezone.now()], ids=["fetching", "running"])
def test_cancelled_run_that_does_not_stop_ends_as_cancelled(started_at):
    attempt = make_attempt()
    Attempt.objects.update(started_at=started_at)
    cancel_task(Task.objects.get(pk=attempt.task_id))
    Task.objects.update(updated_at=LONG_AGO)
    sweep_and_reload(attempt.task)
    assert attempt.task.status == "cancelled"


def test_row_that_fails_does_not_block_others(monkeypatch):
    bad, good = make_task(), make_task()
    Task.objects.update(upload_deadline_at=LONG_AGO)
    waiting = make_waiting_task()
    Task.objects.filter(pk=waiting.pk).update(queue_deadline_at=LONG_AGO)
    abandon = abandon_task

    def break_on_one(task):
        if task.pk == bad.pk:
            raise RuntimeError
        return abandon(task)

    monkeypatch.setattr("tasks.lifecycle.sweep.abandon_task", break_on_one)
    sweep_and_reload(good)
    waiting.refresh_from_db()
    assert (good.status, waiting.status) == ("cancelled", "failed")


def test_device_without_the_version_keeps_its_waiting_tasks_for_the_grace_period(settings):
    """Its owner restarted the agent with a mistake in the configuration."""
    task = make_waiting_task()
    Task.objects.update(submitted_at=LONG_AGO)

    def connect_with(runtimes):
        worker = Worker.objects.get()
        introduce_worker(worker, facts=FACTS, agent_version="1", runtimes=runtimes)
        sweep_and_reload(task)

    connect_with([])
    assert task.state == "waiting"
    connect_with(RUNTIMES)
    assert task.state == "waiting"
    connect_with([])
    grace = datetime.timedelta(seconds=settings.OFFLINE_GRACE_S + 1)
    Worker.objects.update(changed_at=timezone.now() - grace)
    sweep_and_reload(task)
    assert (task.status, task.reason) == ("failed", "runtime_went_away")


def test_waiting_for_a_busy_device_needs_no_query_for_each_task():
    worker = make_worker()
    Worker.objects.update(changed_at=LONG_AGO)

    def queries_with(count: int) -> int:
        for _ in range(count):
            make_waiting_task(worker=worker)
        Task.objects.update(submitted_at=LONG_AGO)
        sweep()
        with CaptureQueriesContext(connection) as queries:
            sweep()
        return len(queries)

    assert queries_with(2) == queries_with(10)
    assert not Task.objects.exclude(state="waiting").exists()


def test_task_that_is_queued_again_has_all_of_its_time_in_the_queue():
    attempt = make_attempt()
    Task.objects.update(queue_deadline_at=timezone.now() - datetime.timedelta(seconds=1))
    Attempt.objects.update(lease_expires_at=LONG_AGO)
    sweep_and_reload(attempt.task)
    sweep_and_reload(attempt.task)
    assert (attempt.task.state, attempt.task.reason) == ("waiting", "")


def test_drained_device_keeps_its_waiting_tasks_for_the_grace_period(settings):
    task = make_waiting_task()
    Task.objects.update(submitted_at=LONG_AGO)
    drain_worker(task.worker, by=None)
    sweep_and_reload(task)
    assert task.state == "waiting"
    grace = datetime.timedelta(seconds=settings.OFFLINE_GRACE_S + 1)
    Worker.objects.update(disabled_at=timezone.now() - grace)
    sweep_and_reload(task)
    assert (task.status, task.reason) == ("failed", "worker_disabled")


def test_grace_period_restarts_when_a_resumed_device_is_drained():
    task = make_waiting_task()
    occupant = make_attempt(make_waiting_task())
    Task.objects.filter(pk=task.pk).update(submitted_at=LONG_AGO)
    drain_worker(task.worker, by=None)
    Worker.objects.update(disabled_at=LONG_AGO)
    resume_worker(task.worker, by=None)
    assert Worker.objects.get().disabled_at is None
    drain_worker(task.worker, by=None)
    sweep_and_reload(task)
    assert (task.state, occupant.ended_at) == ("waiting", None)


def test_tasks_are_assigned_while_wake_ups_fail(django_capture_on_commit_callbacks, monkeypatch):
    def fail(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setattr("tasks.lifecycle.wakeups._send", fail)
    with django_capture_on_commit_callbacks(execute=True):
        task = make_waiting_task()
        assign_waiting()
    task.refresh_from_db()
    assert task.state == "assigned"


def test_round_touches_the_alive_file(tmp_path):
    """The health check of the container reads the file."""
    alive = tmp_path / "sweep.alive"
    call_command("sweep", "--once", "--alive", str(alive))
    assert alive.exists()


def test_step_that_fails_does_not_block_others_and_is_reported(monkeypatch, tmp_path):
    """Deadlines are kept while storage is unreachable."""
    task = make_task()
    Task.objects.update(upload_deadline_at=LONG_AGO)
    later = []

    def fail(*args):
        raise DomainError("storage_unreachable")

    monkeypatch.setattr(ObjectStorage, "delete", staticmethod(fail))
    monkeypatch.setattr(sweep_command, "sweep_deliveries", lambda: later.append("deliveries"))
    with pytest.raises(DomainError):
        call_command("sweep", "--once")
    task.refresh_from_db()
    assert (task.status, later) == ("cancelled", ["deliveries"])


@pytest.fixture
def advance_clock(monkeypatch):
    """Stop the clock; return a function that advances it by some seconds."""
    now = timezone.now()

    def advance(seconds):
        nonlocal now
        now += datetime.timedelta(seconds=seconds)

    monkeypatch.setattr(timezone, "now", lambda: now)
    return advance


def test_leases_do_not_expire_right_after_a_database_outage(advance_clock, monkeypatch):
    attempt = make_attempt()
    rounds = sweep_command.Rounds(timezone.now())
    advance_clock(100)  # long after the start of the sweep
    assert rounds.round() == []

    def fail(*args):
        raise OperationalError

    names = [getattr(step, "__name__", "sweep") for step in rounds.steps()]
    with monkeypatch.context() as patch:
        for name in names:
            patch.setattr(sweep_command, name, fail)
        for _ in range(20):
            advance_clock(5)
            assert len(rounds.round()) == len(names)
    Attempt.objects.update(lease_expires_at=timezone.now() - datetime.timedelta(seconds=60))
    advance_clock(5)
    assert rounds.round() == []
    attempt.refresh_from_db()
    assert attempt.ended_at is None
    for _ in range(16):
        advance_clock(5)
        rounds.round()
    attempt.refresh_from_db()
    assert attempt.end_reason == "lease_expired"


def test_leases_expire_during_a_storage_outage(advance_clock, monkeypatch):
    attempt = make_attempt()
    rounds = sweep_command.Rounds(timezone.now())

    def fail():
        advance_clock(20)
        raise DomainError("storage_unreachable")

    monkeypatch.setattr(sweep_command, "purge_abandoned_uploads", fail)
    for _ in range(10):
        advance_clock(5)
        assert len(rounds.round()) == 1
    attempt.refresh_from_db()
    assert attempt.end_reason == "lease_expired"
