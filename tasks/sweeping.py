"""What time alone brings about: deadlines passed, hints lost."""

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from tasks.attempts import attempt_lose
from tasks.hints import build_profile_on_commit
from tasks.models import Attempt, Task
from tasks.queue.scheduling import assign_waiting, rebind_strays
from tasks.reasons import Reason
from tasks.selectors import last_attempt
from tasks.services import task_abandon, task_fail
from tasks.states import TaskState

log = structlog.get_logger()

#: a profile that is not built after this long has lost its hint
HINT_PATIENCE = datetime.timedelta(seconds=20)
#: an agent ends a run at its time limit; this much later the server does not believe in it any more
OVERRUN = datetime.timedelta(minutes=30)
CANCEL_PATIENCE = datetime.timedelta(minutes=5)


def sweep() -> None:
    """One round: everything that is due, each in a transaction of its own.

    One row that cannot be moved must not keep the others waiting: its error is logged, the round
    goes on.
    """
    now = timezone.now()
    live = Attempt.objects.filter(ended_at=None).select_related("task")
    _each(live.filter(lease_expires_at__lt=now), lambda a: _lose_expired(a, now))
    _each(live, lambda a: _lose_overdue(a, now))
    tasks = Task.objects.select_related("worker")
    initiated = tasks.filter(state=TaskState.INITIATED, upload_deadline_at__lt=now)
    _each(initiated, task_abandon)
    _each(tasks.filter(_overdue(TaskState.WAITING, "queue", now)), _fail(Reason.QUEUE_TIMED_OUT))
    # first: what another device can take does not end with the one where it waits
    _each([None], lambda _: rebind_strays())
    _fail_tasks_of_absent_workers(now)
    late = _overdue(TaskState.PROCESSING, "processing", now)
    _each(tasks.filter(late), _fail(Reason.PROFILE_TIMED_OUT))
    unread = tasks.filter(state=TaskState.PROCESSING, hinted_at__lt=now - HINT_PATIENCE)
    _each(unread, lambda task: _hint(task, now))
    _each([None], lambda _: assign_waiting())


def _each(rows: Iterable[Any], act: Callable[[Any], object]) -> None:
    for row in rows:
        try:
            act(row)
        except Exception:
            log.exception("sweep_failed", row=repr(row))


def _fail(reason: Reason) -> Callable[[Task], bool]:
    return lambda task: task_fail(task, reason=reason.value)


def _overdue(state: TaskState, deadline: str, now: datetime.datetime) -> Q:
    return Q(("state", state), (f"{deadline}_deadline_at__lt", now))


def _lose_expired(attempt: Attempt, now: datetime.datetime) -> None:
    if attempt_lose(attempt, reason="lease_expired", lease_before=now):
        log.warning("attempt_lost", attempt=str(attempt.pk), worker=attempt.worker_id)


def _lose_overdue(attempt: Attempt, now: datetime.datetime) -> None:
    """End what an agent that is alive keeps for ever; the next heartbeat is told to stop it."""
    task = attempt.task
    fetching = datetime.timedelta(seconds=settings.AGENT_PRESIGN_EXPIRY_S)
    started_at = attempt.started_at or attempt.created_at + fetching
    limit = datetime.timedelta(seconds=task.timeout_s) + OVERRUN
    cancelling = task.state == TaskState.CANCELLING and task.updated_at < now - CANCEL_PATIENCE
    if cancelling or started_at < now - limit:
        log.warning("attempt_overdue", attempt=str(attempt.pk), worker=attempt.worker_id)
        attempt_lose(attempt, reason="agent_error")


def _hint(task: Task, now: datetime.datetime) -> None:
    Task.objects.filter(pk=task.pk).update(hinted_at=now)
    if attempt := last_attempt(task):
        build_profile_on_commit(str(attempt.pk))


def _fail_tasks_of_absent_workers(now: datetime.datetime) -> None:
    """A device that stays away ends its waiting tasks: their owners can then pick another one."""
    retired = Task.objects.filter(
        state=TaskState.WAITING, worker__retired_at__isnull=False, target__isnull=True
    )
    _each(retired, _fail(Reason.WORKER_RETIRED))
    patience = now - datetime.timedelta(seconds=settings.OFFLINE_GRACE_S)
    waiting = Task.objects.filter(state=TaskState.WAITING, submitted_at__lt=patience)
    waiting = waiting.select_related("worker")
    # None: it was drained when that moment was not kept yet
    drained = Q(worker__disabled_at__lt=patience) | Q(worker__disabled_at=None)
    _each(waiting.filter(drained, worker__is_enabled=False), _fail(Reason.WORKER_DISABLED))
    absent = Q(worker__last_seen_at__lt=patience) | Q(worker__last_seen_at=None)
    _each(waiting.filter(absent), _fail(Reason.WORKER_WENT_OFFLINE))
    _each(waiting.filter(worker__last_seen_at__gte=patience), _fail_without_runtime)


def _fail_without_runtime(task: Task) -> None:
    if not task.worker.runtimes.filter(version=task.runtime_version, problem="").exists():
        task_fail(task, reason=Reason.RUNTIME_WENT_AWAY.value, detail=task.runtime_version)
