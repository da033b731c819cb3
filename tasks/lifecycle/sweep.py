"""Periodic sweep: enforce deadlines, and repeat messages that may have been lost.

`manage.py sweep` calls `sweep` every few seconds. The rows are the outbox: a message that was sent
on commit and lost is sent again from here.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from structlog.contextvars import bound_contextvars

from agent.protocol.messages import EndReason
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.counters import count_outcomes
from tasks.lifecycle.failures import end_failed_run
from tasks.lifecycle.outcomes import LEASE_EXPIRED, abandon_task, fail_task, reader_of
from tasks.lifecycle.reasons import Reason
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import rebind_orphans, workers_with_work
from tasks.scheduling.eligibility import DRAINED, RETIRED, RUNTIME, all_hold, is_script_forbidden
from tasks.selectors import last_attempt
from tasks.states import LIVE, TaskState
from webprofile.background import enqueue
from webprofile.observability.counters import SWEEP_FAILURES, SWEEP_MOVED

log = structlog.get_logger()

#: the message to read a result is sent again after this time
RESEND_AFTER = datetime.timedelta(seconds=20)
#: the agent ends a run at its time limit; this much later the server ends the attempt itself
OVERRUN = datetime.timedelta(minutes=30)
CANCEL_PATIENCE = datetime.timedelta(minutes=5)
#: after a pause of the sweep of this length the site counts as having been down: its agents
#: reconnect within `COMING_BACK`
AWAY = datetime.timedelta(seconds=15)
#: the longest delay between two attempts to connect (agent.link.retries), plus the handshake
COMING_BACK = datetime.timedelta(seconds=75)


#: label of the metric, the rows that are due, and the function that is called with each row and
#: returns how many rows it moved
Step = tuple[str, Iterable[Any], Callable[[Any], int | bool]]


def sweep(began_at: datetime.datetime | None = None) -> None:
    """Run one round: process every row that is due, each in its own transaction.

    An error with one row is logged and does not affect the other rows.

    began_at: when the sweep started, or resumed after a pause; devices that were silent before
        then get `COMING_BACK` to reconnect
    """
    for label, rows, process in _steps(began_at, timezone.now()):
        for row in rows:
            try:
                moved = int(process(row))
            except Exception:
                SWEEP_FAILURES.inc()
                log.exception("sweep_failed", row=repr(row))
            else:
                SWEEP_MOVED.labels(label).inc(moved)


def is_coming_back(began_at: datetime.datetime | None, now: datetime.datetime) -> bool:
    """Whether agents may still be reconnecting after the site was down before `began_at`."""
    return began_at is not None and now < began_at + COMING_BACK


def _steps(began_at: datetime.datetime | None, now: datetime.datetime) -> Iterator[Step]:
    """Yield the steps in order; a step's query runs when `sweep` iterates over its rows.

    Steps whose rows must be in a state that no task has are left out: most of the time of the sweep
    is that of building queries, and an idle site must not disturb the runs of its devices. While
    agents may still be reconnecting, no deadline applies that passed because the site was down.
    """
    live = Attempt.objects.filter(ended_at=None).select_related("task", "worker")
    was_away = is_coming_back(began_at, now)
    expired = live.filter(lease_expires_at__lt=now)
    if began_at is not None and was_away:
        expired = expired.filter(lease_expires_at__gte=began_at - AWAY)
    if attempts := list(live):
        yield "attempts_lost", expired, partial(_lose_expired, now=now)
        if not was_away:
            yield "attempts_overdue", attempts, partial(_lose_overdue, now=now)
    states = set(Task.objects.filter(state__in=LIVE).values_list("state", flat=True).distinct())
    if not was_away:
        yield from _past_deadlines(states, now)
    if TaskState.WAITING in states:
        # before tasks of absent devices end: those that another device can take are moved
        yield _once("tasks_rebound", rebind_orphans)
        if not was_away:
            yield from _tasks_of_absent_workers(now)
    yield _once("ends_counted", count_outcomes)
    # last: each message to a broker that does not answer takes seconds, which must not delay leases
    # and deadlines
    if TaskState.WAITING in states:
        yield _once("devices_hinted", _resend_dispatch)
    if TaskState.PROCESSING in states:
        yield _once("results_hinted", partial(_resend_results, now))


def _past_deadlines(states: Collection[str], now: datetime.datetime) -> Iterator[Step]:
    """End the tasks that are in one of these states beyond its deadline."""
    for state, column, label, process in (
        (TaskState.INITIATED, "upload_deadline_at", "uploads_abandoned", abandon_task),
        (TaskState.WAITING, "queue_deadline_at", "tasks_timed_out", _fail(Reason.QUEUE_TIMED_OUT)),
        (TaskState.PROCESSING, "processing_deadline_at", "tasks_timed_out", _end_unread),
    ):
        if state in states:
            late = Task.objects.filter(state=state, **{f"{column}__lt": now})
            yield label, late.select_related("worker"), process


def _once(label: str, process: Callable[[], int]) -> Step:
    return label, [label], lambda _: process()


def _fail(reason: Reason) -> Callable[[Task], bool]:
    return lambda task: fail_task(task, reason=reason.code)


def _end_unread(task: Task) -> bool:
    """End a task whose profile or log no actor has read in time."""
    attempt = last_attempt(task)
    if attempt is None or attempt.exit_code == 0:
        return fail_task(task, reason=Reason.PROFILE_TIMED_OUT.code)
    return end_failed_run(attempt, reads_log=False)


def _lose_expired(attempt: Attempt, now: datetime.datetime) -> bool:
    with bound_contextvars(worker=attempt.worker.name):
        lost = lose_attempt(attempt, reason=LEASE_EXPIRED, lease_before=now)
        if lost:
            log.warning("attempt_lost", task=attempt.task_id, attempt=str(attempt.pk))
    return lost


def _lose_overdue(attempt: Attempt, now: datetime.datetime) -> bool:
    """End an attempt that runs far over its time limit although its agent is online.

    The reply to the next heartbeat on the socket orders the agent to stop the run.
    """
    task = attempt.task
    fetching = datetime.timedelta(seconds=settings.AGENT_PRESIGN_EXPIRY_S)
    started_at = attempt.started_at or attempt.created_at + fetching
    limit = datetime.timedelta(seconds=task.timeout_s) + OVERRUN
    cancelling = task.state == TaskState.CANCELLING and task.updated_at < now - CANCEL_PATIENCE
    if not cancelling and started_at >= now - limit:
        return False
    with bound_contextvars(worker=attempt.worker.name):
        log.warning("attempt_overdue", task=task.pk, attempt=str(attempt.pk))
        return lose_attempt(attempt, reason=EndReason.AGENT_ERROR)


def _tasks_of_absent_workers(now: datetime.datetime) -> Iterator[Step]:
    """Fail waiting tasks whose device is retired, or drained or offline for `OFFLINE_GRACE_S`, or
    lacks their version since it last reported something new, if that is as long ago.

    Their owners can then choose another device.
    """
    limit = now - datetime.timedelta(seconds=settings.OFFLINE_GRACE_S)
    waiting = Task.objects.filter(state=TaskState.WAITING).select_related("worker")
    retired = waiting.filter(~RETIRED.rows("worker__"), target__isnull=True)
    waiting = waiting.filter(submitted_at__lt=limit)
    drained = Q(worker__disabled_at__lt=limit)
    absent = Q(worker__last_heartbeat__last_seen_at__lt=limit) | Q(
        worker__last_heartbeat__last_seen_at=None
    )
    present = Q(worker__last_heartbeat__last_seen_at__gte=limit)
    unchanged = Q(worker__changed_at__lt=limit) | Q(worker__changed_at=None)
    for rows, process in (
        (retired, _fail(Reason.WORKER_RETIRED)),
        (waiting.filter(drained, ~DRAINED.rows("worker__")), _fail(Reason.WORKER_DISABLED)),
        (waiting.filter(absent), _fail(Reason.WORKER_WENT_OFFLINE)),
        (waiting.filter(present, unchanged).exclude(all_hold(RUNTIME)), _fail_without_runtime),
    ):
        yield "tasks_without_device", rows, process


def _fail_without_runtime(task: Task) -> bool:
    if is_script_forbidden(task, task.worker):
        return fail_task(task, reason=Reason.SCRIPTS_WITHDRAWN.code)
    return fail_task(task, reason=Reason.RUNTIME_WENT_AWAY.code, detail=task.runtime_version)


def _resend_dispatch() -> int:
    """Send `dispatch` again for devices that could start a task; return how many devices."""
    idle = workers_with_work()
    if idle:
        enqueue("dispatch", idle, queue="dispatch")
    return len(idle)


def _resend_results(now: datetime.datetime) -> int:
    """Send the message again for results that no actor has begun to read; return how many.

    Stops for this round at the first message that the broker does not accept.
    """
    unread = Task.objects.filter(state=TaskState.PROCESSING, hinted_at__lt=now - RESEND_AFTER)
    resent = 0
    for task in unread.order_by("hinted_at"):
        attempt = last_attempt(task)
        if attempt is None:
            continue
        try:
            enqueue(reader_of(attempt), str(attempt.pk), queue="profiles")
        except Exception:
            log.exception("result_message_not_sent", task=task.pk)
            break
        Task.objects.filter(pk=task.pk).update(hinted_at=timezone.now())
        resent += 1
    return resent
