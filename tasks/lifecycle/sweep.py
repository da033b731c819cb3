"""What time alone brings about: deadlines passed, hints lost."""

import datetime
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone
from structlog.contextvars import bound_contextvars

from agent.protocol import EndReason
from tasks.lifecycle.attempts import lose_attempt
from tasks.lifecycle.counters import count_outcomes
from tasks.lifecycle.outcomes import LEASE_EXPIRED, abandon_task, fail_task
from tasks.lifecycle.reasons import Reason
from tasks.models import Attempt, Task
from tasks.scheduling.assignment import rebind_strays, workers_with_work
from tasks.scheduling.eligibility import (
    CONSENT,
    DRAINED,
    RETIRED,
    SCRIPT_WHEEL,
    VERSION,
    Placement,
    find_runtime,
    meets,
)
from tasks.selectors import last_attempt
from tasks.states import TaskState
from webprofile.background import enqueue
from webprofile.observability.counters import SWEEP_FAILURES, SWEEP_MOVED

log = structlog.get_logger()

#: a profile that is not built after this long has lost its hint
HINT_PATIENCE = datetime.timedelta(seconds=20)
#: an agent ends a run at its time limit; this much later the server does not believe in it any more
OVERRUN = datetime.timedelta(minutes=30)
CANCEL_PATIENCE = datetime.timedelta(minutes=5)
#: a site that was away for so long heard nobody; its agents come back within `COMING_BACK`
AWAY = datetime.timedelta(seconds=15)
#: the longest wait between two tries of an agent (agent.link.retries), and the time to say hello
COMING_BACK = datetime.timedelta(seconds=75)


#: what a step is counted as, the rows that are due, and what is done to each, which says how many
#: moved
Step = tuple[str, Iterable[Any], Callable[[Any], int | bool]]


def sweep(began_at: datetime.datetime | None = None) -> None:
    """One round: everything that is due, each in a transaction of its own.

    One row that cannot be moved must not keep the others waiting: its error is logged, the round
    goes on. `began_at`: since when rounds are made; what was silent before is not judged at once.
    """
    for what, rows, act in _steps(began_at, timezone.now()):
        for row in rows:
            try:
                moved = int(act(row))
            except Exception:
                SWEEP_FAILURES.inc()
                log.exception("sweep_failed", row=repr(row))
            else:
                SWEEP_MOVED.labels(what).inc(moved)


def is_coming_back(began_at: datetime.datetime | None, now: datetime.datetime) -> bool:
    """Whether agents may still be silent only because the site was away before `began_at`."""
    return began_at is not None and now < began_at + COMING_BACK


def _steps(began_at: datetime.datetime | None, now: datetime.datetime) -> Iterator[Step]:
    """All steps in their order; each reads its rows when its turn comes."""
    live = Attempt.objects.filter(ended_at=None).select_related("task", "worker")
    tasks = Task.objects.select_related("worker")
    was_away = is_coming_back(began_at, now)
    expired = live.filter(lease_expires_at__lt=now)
    if began_at is not None and was_away:
        expired = expired.filter(lease_expires_at__gte=began_at - AWAY)
    yield "attempts_lost", expired, partial(_lose_expired, now=now)
    yield "attempts_overdue", live, partial(_lose_overdue, now=now)
    late = tasks.filter(state=TaskState.INITIATED, upload_deadline_at__lt=now)
    yield "uploads_abandoned", late, abandon_task
    late = tasks.filter(state=TaskState.WAITING, queue_deadline_at__lt=now)
    yield "tasks_timed_out", late, _fail(Reason.QUEUE_TIMED_OUT)
    # first: what another device can take does not end with the one where it waits
    yield _once("tasks_rebound", rebind_strays)
    if not was_away:
        yield from _tasks_of_absent_workers(tasks.filter(state=TaskState.WAITING), now)
    late = tasks.filter(state=TaskState.PROCESSING, processing_deadline_at__lt=now)
    yield "tasks_timed_out", late, _fail(Reason.PROFILE_TIMED_OUT)
    yield _once("ends_counted", count_outcomes)
    # at last: a broker that does not answer takes seconds, and leases and deadlines do not wait
    yield _once("devices_hinted", _hint_dispatcher)
    yield _once("results_hinted", partial(_hint_unread, now))


def _once(what: str, act: Callable[[], int]) -> Step:
    return what, [what], lambda _: act()


def _fail(reason: Reason) -> Callable[[Task], bool]:
    return lambda task: fail_task(task, reason=reason.value)


def _lose_expired(attempt: Attempt, now: datetime.datetime) -> bool:
    with bound_contextvars(worker=attempt.worker.name):
        lost = lose_attempt(attempt, reason=LEASE_EXPIRED, lease_before=now)
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
        return lose_attempt(attempt, reason=EndReason.AGENT_ERROR)


def _tasks_of_absent_workers(waiting: QuerySet[Task], now: datetime.datetime) -> Iterator[Step]:
    """A device that stays away ends its waiting tasks: their owners can then pick another one."""
    patience = now - datetime.timedelta(seconds=settings.OFFLINE_GRACE_S)
    retired = waiting.filter(~RETIRED.rows("worker__"), target__isnull=True)
    waiting = waiting.filter(submitted_at__lt=patience)
    # None: it was drained when that moment was not kept yet
    drained = Q(worker__disabled_at__lt=patience) | Q(worker__disabled_at=None)
    absent = Q(worker__pulse__last_seen_at__lt=patience) | Q(worker__pulse__last_seen_at=None)
    for rows, act in (
        (retired, _fail(Reason.WORKER_RETIRED)),
        (waiting.filter(drained, ~DRAINED.rows("worker__")), _fail(Reason.WORKER_DISABLED)),
        (waiting.filter(absent), _fail(Reason.WORKER_WENT_OFFLINE)),
        (waiting.filter(worker__pulse__last_seen_at__gte=patience), _fail_without_runtime),
    ):
        yield "tasks_without_device", rows, act


def _fail_without_runtime(task: Task) -> bool:
    worker, version = task.worker, task.runtime_version
    placement = Placement(worker, version, find_runtime(worker, version), is_script=task.is_script)
    if not meets(placement, CONSENT):
        return fail_task(task, reason=Reason.SCRIPTS_WITHDRAWN.value)
    if meets(placement, (*VERSION, SCRIPT_WHEEL)):
        return False
    return fail_task(task, reason=Reason.RUNTIME_WENT_AWAY.value, detail=version)


def _hint_dispatcher() -> int:
    """Ask the dispatcher again for devices that could start something; returns for how many."""
    idle = workers_with_work()
    if idle:
        enqueue("dispatch", idle, queue="dispatch")
    return len(idle)


def _hint_unread(now: datetime.datetime) -> int:
    """Ask anew for results that nobody began to read; returns for how many.

    After the first question that a broker does not answer it is left alone for this round.
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
