"""What time alone brings about: deadlines passed, hints lost."""

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from structlog.contextvars import bound_contextvars

from tasks.attempts import LEASE_EXPIRED, attempt_lose
from tasks.models import Attempt, Task
from tasks.queue.eligibility import (
    CONSENT,
    DRAINED,
    RETIRED,
    SCRIPT_WHEEL,
    VERSION,
    Placement,
    find_runtime,
    meets,
)
from tasks.queue.scheduling import assign_waiting, rebind_strays
from tasks.reasons import Reason
from tasks.selectors import last_attempt
from tasks.services import task_abandon, task_fail
from tasks.states import TaskState
from tasks.tallies import ends_count
from webprofile.background import enqueue
from webprofile.meters import SWEEP_FAILURES, SWEEP_MOVED

log = structlog.get_logger()

#: a profile that is not built after this long has lost its hint
HINT_PATIENCE = datetime.timedelta(seconds=20)
#: an agent ends a run at its time limit; this much later the server does not believe in it any more
OVERRUN = datetime.timedelta(minutes=30)
CANCEL_PATIENCE = datetime.timedelta(minutes=5)
#: a site that was away for so long heard nobody; its agents come back within `COMING_BACK`
AWAY = datetime.timedelta(seconds=15)
#: the longest wait between two tries of an agent (agent.retry), and the time to say hello
COMING_BACK = datetime.timedelta(seconds=75)


def sweep(began_at: datetime.datetime | None = None) -> None:
    """One round: everything that is due, each in a transaction of its own.

    One row that cannot be moved must not keep the others waiting: its error is logged, the round
    goes on. `began_at`: since when rounds are made; what was silent before is not judged at once.
    """
    now = timezone.now()
    live = Attempt.objects.filter(ended_at=None).select_related("task", "worker")
    expired = live.filter(lease_expires_at__lt=now)
    was_away = is_coming_back(began_at, now)
    if began_at is not None and was_away:
        expired = expired.filter(lease_expires_at__gte=began_at - AWAY)
    _each("attempts_lost", expired, lambda a: _lose_expired(a, now))
    _each("attempts_overdue", live, lambda a: _lose_overdue(a, now))
    tasks = Task.objects.select_related("worker")
    initiated = tasks.filter(state=TaskState.INITIATED, upload_deadline_at__lt=now)
    _each("uploads_abandoned", initiated, task_abandon)
    late = _overdue(TaskState.WAITING, "queue", now)
    _each("tasks_timed_out", tasks.filter(late), _fail(Reason.QUEUE_TIMED_OUT))
    # first: what another device can take does not end with the one where it waits
    _each("tasks_rebound", [None], lambda _: rebind_strays())
    if not was_away:
        _fail_tasks_of_absent_workers(now)
    late = _overdue(TaskState.PROCESSING, "processing", now)
    _each("tasks_timed_out", tasks.filter(late), _fail(Reason.PROFILE_TIMED_OUT))
    _each("tasks_assigned", [None], lambda _: len(assign_waiting()))
    _each("ends_counted", [None], lambda _: ends_count())
    _each("results_hinted", [None], lambda _: _hint_unread(now))


def is_coming_back(began_at: datetime.datetime | None, now: datetime.datetime) -> bool:
    """Whether agents may still be silent only because the site was away before `began_at`."""
    return began_at is not None and now < began_at + COMING_BACK


def _each(what: str, rows: Iterable[Any], act: Callable[[Any], int | bool]) -> None:
    """Do `act` to each row; it says how many it moved."""
    for row in rows:
        try:
            moved = int(act(row))
        except Exception:
            SWEEP_FAILURES.inc()
            log.exception("sweep_failed", row=repr(row))
        else:
            SWEEP_MOVED.labels(what).inc(moved)


def _fail(reason: Reason) -> Callable[[Task], bool]:
    return lambda task: task_fail(task, reason=reason.value)


def _overdue(state: TaskState, deadline: str, now: datetime.datetime) -> Q:
    return Q(("state", state), (f"{deadline}_deadline_at__lt", now))


def _lose_expired(attempt: Attempt, now: datetime.datetime) -> bool:
    with bound_contextvars(worker=attempt.worker.name):
        lost = attempt_lose(attempt, reason=LEASE_EXPIRED, lease_before=now)
        if lost:
            log.warning("attempt_lost", task=attempt.task_id, attempt=str(attempt.pk))
    return lost


def _lose_overdue(attempt: Attempt, now: datetime.datetime) -> bool:
    """End what an agent that is alive keeps for ever; the next heartbeat is told to stop it."""
    task = attempt.task
    fetching = datetime.timedelta(seconds=settings.AGENT_PRESIGN_EXPIRY_S)
    started_at = attempt.started_at or attempt.created_at + fetching
    limit = datetime.timedelta(seconds=task.timeout_s) + OVERRUN
    cancelling = task.state == TaskState.CANCELLING and task.updated_at < now - CANCEL_PATIENCE
    if not cancelling and started_at >= now - limit:
        return False
    with bound_contextvars(worker=attempt.worker.name):
        log.warning("attempt_overdue", task=task.pk, attempt=str(attempt.pk))
        return attempt_lose(attempt, reason="agent_error")


def _hint_unread(now: datetime.datetime) -> int:
    """Ask anew for results that nobody began to read; returns for how many.

    A broker that does not answer takes seconds each time: after the first of them it is left alone
    for this round, since leases and deadlines do not wait.
    """
    unread = Task.objects.filter(state=TaskState.PROCESSING, hinted_at__lt=now - HINT_PATIENCE)
    hinted = 0
    for task in unread.order_by("hinted_at"):
        attempt = last_attempt(task)
        if attempt is None:
            continue
        try:
            enqueue("build_profile", str(attempt.pk), queue="profiles")
        except Exception:
            log.exception("result_not_hinted", task=task.pk)
            break
        Task.objects.filter(pk=task.pk).update(hinted_at=timezone.now())
        hinted += 1
    return hinted


def _fail_tasks_of_absent_workers(now: datetime.datetime) -> None:
    """A device that stays away ends its waiting tasks: their owners can then pick another one."""
    retired = Task.objects.filter(
        ~RETIRED.rows("worker__"), state=TaskState.WAITING, target__isnull=True
    )
    _each("tasks_without_device", retired, _fail(Reason.WORKER_RETIRED))
    patience = now - datetime.timedelta(seconds=settings.OFFLINE_GRACE_S)
    waiting = Task.objects.filter(state=TaskState.WAITING, submitted_at__lt=patience)
    waiting = waiting.select_related("worker")
    # None: it was drained when that moment was not kept yet
    drained = Q(worker__disabled_at__lt=patience) | Q(worker__disabled_at=None)
    shut = waiting.filter(drained, ~DRAINED.rows("worker__"))
    _each("tasks_without_device", shut, _fail(Reason.WORKER_DISABLED))
    absent = Q(worker__pulse__last_seen_at__lt=patience) | Q(worker__pulse__last_seen_at=None)
    _each("tasks_without_device", waiting.filter(absent), _fail(Reason.WORKER_WENT_OFFLINE))
    there = waiting.filter(worker__pulse__last_seen_at__gte=patience)
    _each("tasks_without_device", there, _fail_without_runtime)


def _fail_without_runtime(task: Task) -> bool:
    worker, version = task.worker, task.runtime_version
    placement = Placement(worker, version, find_runtime(worker, version), is_script=task.is_script)
    if not meets(placement, CONSENT):
        return task_fail(task, reason=Reason.SCRIPTS_WITHDRAWN.value)
    if meets(placement, (*VERSION, SCRIPT_WHEEL)):
        return False
    return task_fail(task, reason=Reason.RUNTIME_WENT_AWAY.value, detail=version)
