"""Everything that changes an attempt but what its agent reports of it (`tasks.lifecycle.reports`).

An attempt that ended is fenced: each UPDATE here asks for `ended_at IS NULL` and the row count
decides.
"""

import datetime
import uuid
from collections.abc import Iterable
from contextlib import suppress

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from agent.protocol import AttemptLog
from tasks.lifecycle import wakeups
from tasks.lifecycle.outcomes import LEASE_EXPIRED, continue_task
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, LogChunk, Task
from tasks.scheduling.eligibility import scripts_takers
from tasks.states import TaskState
from webprofile.observability.counters import DISPATCH_SECONDS, LOG_BYTES, LOG_PIECES

log = structlog.get_logger()


def lease_deadline() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.LEASE_S)


@transaction.atomic
def assign_attempt(task: Task, *, slot: int) -> Attempt | None:
    """Give a waiting task to its worker, and wake the worker's agent.

    None if it does not wait for this worker any more, or if somebody has locked it or the worker:
    the next round of the sweep tries again. Raises IntegrityError if the slot is taken: the caller
    lost a race.
    """
    if task.is_script:
        # its owner, or an administrator, may have withdrawn that since the task was read
        takers = scripts_takers().filter(pk=task.worker_id)
        # it stays so until the commit
        takers = takers.select_for_update(no_key=True, skip_locked=True)
        if not takers.values_list("pk", flat=True):
            return None
    # first in line on commit: the device should not wait for what browsers are told
    wakeups.poke_worker_on_commit(task.worker_id)
    attempt_id = uuid.uuid4()
    is_moved = transition_if(
        task,
        TaskState.ASSIGNED,
        {TaskState.WAITING},
        # another dispatcher may have moved it to another device since it was read
        only={"worker_id": task.worker_id, "runtime_version": task.runtime_version},
        may_wait=False,
        about={"attempt": str(attempt_id), "worker": task.worker.name},
    )
    if not is_moved:
        return None
    before = Attempt.objects.filter(task=task.pk).order_by("-number").values("number")[:1]
    attempt = Attempt.objects.create(
        pk=attempt_id,
        task=task,
        worker_id=task.worker_id,
        number=Coalesce(Subquery(before), 0) + 1,
        slot=slot,
        lease_expires_at=lease_deadline(),
    )
    # the database counted; read when somebody asks for it
    del attempt.number
    # one that was tried before has a moment before which it does not start again
    if task.not_before_at is None and task.submitted_at is not None:
        waited_s = (attempt.created_at - task.submitted_at).total_seconds()
        # clocks of two machines may differ
        DISPATCH_SECONDS.labels("assigned").observe(max(0.0, waited_s))
    return attempt


@transaction.atomic
def store_log(attempts: QuerySet[Attempt], chunk: AttemptLog) -> Attempt | None:
    """Keep a piece of the log; a repeated one, a late one and one over the limit are dropped.

    attempts: the one that it is of, or none. Returns it.
    """
    pieces = LogChunk.objects.filter(attempt=OuterRef("pk")).order_by()
    kept = pieces.values("attempt").annotate(bytes=Sum("size")).values("bytes")
    attempt = (
        attempts.select_related("task")
        .annotate(
            kept_bytes=Coalesce(Subquery(kept), 0),
            is_repeated=Exists(pieces.filter(seq=chunk.seq)),
        )
        .first()
    )
    if attempt is None:
        return None
    size = len(chunk.text.encode())
    if attempt.ended_at is not None or attempt.kept_bytes + size > settings.LOG_LIMIT_BYTES:
        LOG_PIECES.labels("dropped").inc()
        return attempt
    if attempt.is_repeated:
        LOG_PIECES.labels("repeated").inc()
        return attempt
    piece = LogChunk(
        attempt=attempt,
        seq=chunk.seq,
        offset=chunk.offset,
        size=size,
        # PostgreSQL's text cannot hold a NUL
        text=chunk.text.replace("\x00", "\ufffd"),
    )
    # two connections of one agent may say the same at the same moment
    LogChunk.objects.bulk_create([piece], ignore_conflicts=True)
    LOG_PIECES.labels("kept").inc()
    LOG_BYTES.inc(size)
    wakeups.attempt_progressed_on_commit(attempt.task)
    return attempt


def keep_leases(live: Iterable[Attempt]) -> None:
    """Push leases out in one UPDATE, but for those that have most of their time left.

    So a heartbeat writes an attempt's row a few times in a lease at most.
    """
    end = lease_deadline()
    enough = end - datetime.timedelta(seconds=settings.LEASE_S / 4)
    due = [attempt.pk for attempt in live if attempt.lease_expires_at < enough]
    if due:
        Attempt.objects.filter(pk__in=due, ended_at=None).update(lease_expires_at=end)


@transaction.atomic
def lose_attempt(
    attempt: Attempt, *, reason: str, lease_before: datetime.datetime | None = None
) -> bool:
    """End an attempt that its worker does not hold any more (`lease_expired`, `agent_forgot`).

    With `lease_before`, only if its lease still ends before then: a heartbeat may have come.
    """
    live = Attempt.objects.filter(pk=attempt.pk, ended_at=None)
    if lease_before is not None:
        live = live.filter(lease_expires_at__lt=lease_before)
    ended = live.update(ended_at=timezone.now(), end_reason=reason)
    # what follows is chosen by the task's state: a cancel must not come in between, or nobody would
    # ever end the task; that of an attempt that had ended waits here for nothing but the lock
    rows = Attempt.objects.select_related("task", "worker")
    attempt.refresh_from_db(from_queryset=rows.select_for_update(of=("self", "task")))
    return bool(ended) and continue_task(attempt, reason=reason)


def revive_attempts(worker_id: int, running: Iterable[uuid.UUID]) -> None:
    """Take up again those of the attempts that this worker holds, whose lease alone was over.

    A server that was away for longer than a lease finds all leases over, though every device may
    have gone on working. What nobody else has taken meanwhile need not be done twice.
    """
    given_up = Attempt.objects.filter(
        worker=worker_id, pk__in=running, end_reason=LEASE_EXPIRED, ended_at__isnull=False
    )
    for attempt in given_up.select_related("task"):
        # its slot may be another attempt's by now
        with suppress(IntegrityError), transaction.atomic():
            if _take_up(attempt):
                log.info("attempt_revived", attempt=str(attempt.pk), worker=worker_id)


def _take_up(attempt: Attempt) -> bool:
    """Let an attempt live again if its task still waits for this device; whether it did."""
    task, here = attempt.task, {"worker_id": attempt.worker_id}
    if task.attempts.filter(number__gt=attempt.number).exists():
        return False
    if not transition_if(task, TaskState.ASSIGNED, {TaskState.WAITING}, only=here):
        return False
    # the claim is this task's alone; the row below may still break it, and then all of it
    Attempt.objects.filter(pk=attempt.pk).update(
        ended_at=None, end_reason="", lease_expires_at=lease_deadline()
    )
    if attempt.started_at is not None:
        transition_if(task, TaskState.RUNNING, {TaskState.ASSIGNED})
    return True


def log_tail(attempt: Attempt, chunks: int = 12) -> str:
    """The last pieces of an attempt's log."""
    last = list(attempt.log.order_by("-id")[:chunks])
    return "".join(chunk.text for chunk in reversed(last))
