"""Everything that changes an attempt but what its agent reports of it (`tasks.reports`).

An attempt that ended is fenced: each UPDATE here asks for `ended_at IS NULL` and the row count
decides.
"""

import datetime
import uuid
from collections.abc import Iterable

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from agent.protocol import AttemptLog
from tasks import announce
from tasks.announce import dispatch_on_commit
from tasks.ends import attempt_again, attempt_cancelled
from tasks.models import Attempt, LogChunk, Task
from tasks.queue.eligibility import scripts_takers
from tasks.states import TaskState
from tasks.transitions import transition_if
from webprofile.meters import DISPATCH_SECONDS, LOG_BYTES, LOG_PIECES
from workers.models import Worker

#: why an attempt ended whose worker was silent for longer than a lease
LEASE_EXPIRED = "lease_expired"
#: why one ended before it began: the device was forbidden to run scripts
SCRIPTS_WITHDRAWN = "scripts_withdrawn"


def _s(span: datetime.timedelta) -> float:
    """Seconds; clocks of two machines may differ."""
    return max(0.0, span.total_seconds())


def lease_end() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.LEASE_S)


@transaction.atomic
def attempt_assign(task: Task, *, slot: int) -> Attempt | None:
    """Give a waiting task to its worker, and wake the worker's agent.

    None if it does not wait for this worker any more, or if somebody has locked it. Raises
    IntegrityError if the slot is taken: the caller lost a race.
    """
    if task.is_script and not _takes_scripts(task):
        return None
    # first in line on commit: the device should not wait for what browsers are told
    announce.poke_worker_on_commit(task.worker_id)
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
        lease_expires_at=lease_end(),
    )
    # the database counted; read when somebody asks for it
    del attempt.number
    # one that was tried before has a moment before which it does not start again
    if task.not_before_at is None and task.submitted_at is not None:
        DISPATCH_SECONDS.labels("assigned").observe(_s(attempt.created_at - task.submitted_at))
    return attempt


def _takes_scripts(task: Task) -> bool:
    """Whether its device may still run scripts: its owner, or an administrator, may have withdrawn
    that since the task was read. It stays so until the commit.
    """
    takers = scripts_takers().filter(pk=task.worker_id).select_for_update(no_key=True)
    return bool(takers.values_list("pk", flat=True))


@transaction.atomic
def attempt_log(attempts: QuerySet[Attempt], chunk: AttemptLog) -> Attempt | None:
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
    announce.attempt_progressed_on_commit(attempt.task)
    return attempt


def leases_renew(worker: Worker, running: frozenset[uuid.UUID]) -> None:
    """A sign of life names the attempts that an agent holds: push their leases out."""
    if running:
        leases_keep(Attempt.objects.filter(worker=worker, pk__in=running, ended_at=None))


def leases_keep(live: Iterable[Attempt]) -> None:
    """Push leases out in one UPDATE, but for those that have most of their time left.

    So a heartbeat writes an attempt's row a few times in a lease at most.
    """
    end = lease_end()
    enough = end - datetime.timedelta(seconds=settings.LEASE_S / 4)
    due = [attempt.pk for attempt in live if attempt.lease_expires_at < enough]
    if due:
        Attempt.objects.filter(pk__in=due, ended_at=None).update(lease_expires_at=end)


@transaction.atomic
def attempt_lose(
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
    if not ended:
        return False
    task = attempt.task
    if task.state == TaskState.CANCELLING:
        attempt_cancelled(attempt)
    else:
        attempt_again(attempt, reason=reason)
    dispatch_on_commit({task.worker_id})
    return True


def log_tail(attempt: Attempt, chunks: int = 12) -> str:
    """The last pieces of an attempt's log."""
    last = list(attempt.log.order_by("-id")[:chunks])
    return "".join(chunk.text for chunk in reversed(last))
