"""Services that change attempts, except for agents' reports (`tasks.lifecycle.reports`).

An attempt that has ended is fenced: each UPDATE in this module requires `ended_at IS NULL`, and
its row count decides whether the change took place.
"""

import datetime
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, JSONObject
from django.utils import timezone

from agent.protocol.messages import AttemptLog
from tasks.lifecycle import wakeups
from tasks.lifecycle.outcomes import LEASE_EXPIRED, continue_task
from tasks.lifecycle.transitions import transition_if
from tasks.models import Attempt, LogChunk, Task
from tasks.scheduling.eligibility import scripts_takers
from tasks.states import TaskState
from webprofile.observability.counters import DISPATCH_SECONDS, LOG_BYTES, LOG_PIECES
from workers.models import Worker

log = structlog.get_logger()


def lease_deadline() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.LEASE_S)


@transaction.atomic
def assign_attempt(task: Task, *, slot: int) -> Attempt | None:
    """Create an attempt of a waiting task in a slot of its worker, and wake the worker's agent.

    Returns None if the task no longer waits for this worker, or if another transaction has locked
    the task or the worker; the next round of the sweep tries again. Raises IntegrityError if the
    slot is taken, which means that a concurrent dispatcher was faster.
    """
    if task.is_script:
        # the device's owner or an administrator may have withdrawn the permission to run scripts
        # since the task was read; the lock preserves the permission until the commit
        takers = scripts_takers().filter(pk=task.worker_id)
        takers = takers.select_for_update(no_key=True, skip_locked=True)
        if not takers.values_list("pk", flat=True):
            return None
    # registered first, so that on commit the device is woken before the browsers
    wakeups.wake_worker_on_commit(task.worker_id)
    attempt_id = uuid.uuid4()
    is_moved = transition_if(
        task,
        TaskState.ASSIGNED,
        {TaskState.WAITING},
        # another dispatcher may have moved the task to another device since it was read
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
        environment=Subquery(environments().filter(pk=task.worker_id)),
    )
    # the database computed these fields: defer them, so that the first access reads them
    del attempt.number
    del attempt.environment
    # only first attempts: `not_before_at` is set when a task is queued again
    if task.not_before_at is None and task.submitted_at is not None:
        waited_s = (attempt.created_at - task.submitted_at).total_seconds()
        # the two times may come from machines whose clocks differ
        DISPATCH_SECONDS.labels("assigned").observe(max(0.0, waited_s))
    return attempt


def environments() -> QuerySet[Worker, Any]:
    """Return `Attempt.environment` for each worker."""
    return Worker.objects.order_by().values_list(
        JSONObject(
            agent=F("agent_version"),
            platform=KT("facts__platform"),
            cpu_model=KT("facts__cpu_model"),
            driver=KT("facts__gpus__0__driver"),
        )
    )


@transaction.atomic
def store_log(attempts: QuerySet[Attempt], chunk: AttemptLog) -> Attempt | None:
    """Store a chunk of an attempt's log; drop repeated and late chunks and those over the limit.

    attempts: a queryset that holds the attempt or is empty

    Returns the attempt, or None if the queryset is empty.
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
    is_beyond = (
        attempt.kept_bytes + size > settings.LOG_LIMIT_BYTES
        # each number is stored once, so this limits the rows, also those of empty pieces
        or chunk.seq > settings.LOG_PIECES_LIMIT
    )
    if attempt.ended_at is not None or is_beyond or not chunk.text:
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
    # two connections of one agent may send the same chunk concurrently
    LogChunk.objects.bulk_create([piece], ignore_conflicts=True)
    LOG_PIECES.labels("kept").inc()
    LOG_BYTES.inc(size)
    wakeups.attempt_progressed_on_commit(attempt.task)
    return attempt


def keep_leases(live: Iterable[Attempt]) -> None:
    """Renew leases in one UPDATE, except those of which less than a quarter has passed.

    This way heartbeats write an attempt's row only a few times per lease.
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
    """End an attempt that its worker no longer holds; return whether its task was moved.

    reason: for example `lease_expired` or `agent_forgot`
    lease_before: end the attempt only if its lease expires before this time, since a heartbeat may
        have renewed it meanwhile
    """
    live = Attempt.objects.filter(pk=attempt.pk, ended_at=None)
    if lease_before is not None:
        live = live.filter(lease_expires_at__lt=lease_before)
    ended = live.update(ended_at=timezone.now(), end_reason=reason)
    # the next step depends on the task's state, so lock the task: if a cancellation came between
    # reading the state and moving the task, nothing would ever end the task
    rows = Attempt.objects.select_related("task", "worker")
    attempt.refresh_from_db(from_queryset=rows.select_for_update(of=("self", "task")))
    return bool(ended) and continue_task(attempt, reason=reason)


def revive_attempts(worker_id: int, running: Iterable[uuid.UUID]) -> None:
    """Resume attempts that this worker still runs and that ended only because their lease expired.

    After the server was down for longer than a lease, all leases have expired although the devices
    may have continued to work. An attempt whose task no other device has taken meanwhile continues.
    """
    expired = Attempt.objects.filter(
        worker=worker_id, pk__in=running, end_reason=LEASE_EXPIRED, ended_at__isnull=False
    )
    for attempt in expired.select_related("task"):
        # another attempt may occupy its slot by now
        with suppress(IntegrityError), transaction.atomic():
            if _revive(attempt):
                log.info("attempt_revived", attempt=str(attempt.pk), worker=worker_id)


def _revive(attempt: Attempt) -> bool:
    """Resume an ended attempt if its task still waits for this device; return whether it did."""
    task, same_worker = attempt.task, {"worker_id": attempt.worker_id}
    if task.attempts.filter(number__gt=attempt.number).exists():
        return False
    if not transition_if(task, TaskState.ASSIGNED, {TaskState.WAITING}, only=same_worker):
        return False
    # if the slot is taken, this UPDATE raises IntegrityError and rolls the transition back too
    Attempt.objects.filter(pk=attempt.pk).update(
        ended_at=None, end_reason="", lease_expires_at=lease_deadline()
    )
    if attempt.started_at is not None:
        transition_if(task, TaskState.RUNNING, {TaskState.ASSIGNED})
    return True


def log_tail(attempt: Attempt) -> str:
    """Return the last 12 chunks of an attempt's log."""
    last = list(attempt.log.order_by("-id")[:12])
    return "".join(chunk.text for chunk in reversed(last))
