"""Everything that changes an attempt but what its agent reports of it (`tasks.reports`).

An attempt that ended is fenced: each UPDATE here asks for `ended_at IS NULL` and the row count
decides.
"""

import datetime
import uuid
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Exists, Q, Sum
from django.utils import timezone

from agent.protocol import AttemptLog
from tasks import announce
from tasks.ends import attempt_again, attempts_cancelled
from tasks.hints import dispatch_on_commit
from tasks.models import Attempt, LogChunk, Task
from tasks.queue.eligibility import scripts_takers
from tasks.states import TaskState
from tasks.transitions import tasks_lock, transitions_if
from webprofile.meters import DISPATCH_SECONDS, LOG_BYTES, LOG_PIECES
from webprofile.saving import wait_at_most
from workers.models import Worker

#: why an attempt ended whose worker was silent for longer than a lease
LEASE_EXPIRED = "lease_expired"
#: how long an assignment that may not wait for tasks waits for other rows
_ROW_S = 1.0
#: why one ended before it began: the device was forbidden to run scripts
SCRIPTS_WITHDRAWN = "scripts_withdrawn"


def _s(span: datetime.timedelta) -> float:
    """Seconds; clocks of two machines may differ."""
    return max(0.0, span.total_seconds())


def lease_end() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.LEASE_S)


def attempt_assign(task: Task, *, slot: int, may_wait: bool = True) -> Attempt | None:
    """Give a waiting task to its worker; None if it is not waiting for this one any more.

    may_wait: see `attempts_assign`. Raises IntegrityError if the slot is taken: the caller
    lost a race.
    """
    return next(iter(attempts_assign([(task, slot)], may_wait=may_wait)), None)


@transaction.atomic
def attempts_assign(places: Sequence[tuple[Task, int]], *, may_wait: bool = True) -> list[Attempt]:
    """The same of several tasks, each with its slot, in as many statements as of one.

    may_wait: whether to wait for tasks that somebody has locked, which are left out otherwise
    Returns the attempts of those that still waited there. Raises IntegrityError if any of the slots
    is taken; then nothing is done. Without `may_wait` OperationalError if anything else was locked
    for longer than a second.
    """
    if not may_wait:
        wait_at_most(_ROW_S)
        free = set(tasks_lock([task.pk for task, _ in places], may_wait=False))
        places = [(task, slot) for task, slot in places if task.pk in free]
        if not places:
            return []
    # first in line on commit: the device should not wait for what browsers are told
    poked = set[int]()
    announce.poke_workers_on_commit(poked)
    ids = {task.pk: uuid.uuid4() for task, _ in places}
    about = {
        task.pk: {"attempt": str(ids[task.pk]), "worker": task.worker.name} for task, _ in places
    }
    still = reduce(or_, (_waits_here(task) for task, _ in places))
    tasks = [task for task, _ in places]
    moved = transitions_if(tasks, TaskState.ASSIGNED, {TaskState.WAITING}, only=still, about=about)
    poked |= {task.worker_id for task in moved}
    slots = {task.pk: slot for task, slot in places}
    tried = Attempt.objects.filter(task__in=moved).order_by().values_list("task")
    numbers = dict(tried.annotate(Count("pk")))
    attempts = Attempt.objects.bulk_create(
        Attempt(
            pk=ids[task.pk],
            task=task,
            worker_id=task.worker_id,
            number=numbers.get(task.pk, 0) + 1,
            slot=slots[task.pk],
            lease_expires_at=lease_end(),
        )
        for task in moved
    )
    for attempt in attempts:
        if attempt.number == 1 and attempt.task.submitted_at is not None:
            waited_s = _s(attempt.created_at - attempt.task.submitted_at)
            DISPATCH_SECONDS.labels("assigned").observe(waited_s)
    return attempts


def _waits_here(task: Task) -> Q:
    """That no other dispatcher moved it to another device since it was read."""
    here = Q(pk=task.pk, worker=task.worker_id, runtime_version=task.runtime_version)
    if task.is_script:
        # its owner, or an administrator, may have withdrawn it since
        here &= Q(Exists(scripts_takers().filter(pk=task.worker_id)))
    return here


@transaction.atomic
def attempt_log(attempt: Attempt, chunk: AttemptLog) -> None:
    """Keep a piece of the log; a repeated one, a late one and one over the limit are dropped."""
    size = len(chunk.text.encode())
    kept = attempt.log.aggregate(bytes=Sum("size"))["bytes"] or 0
    if attempt.ended_at is not None or kept + size > settings.LOG_LIMIT_BYTES:
        LOG_PIECES.labels("dropped").inc()
        return
    _, new = LogChunk.objects.get_or_create(
        attempt=attempt,
        seq=chunk.seq,
        # PostgreSQL's text cannot hold a NUL
        defaults={
            "offset": chunk.offset,
            "size": size,
            "text": chunk.text.replace("\x00", "\ufffd"),
        },
    )
    LOG_PIECES.labels("kept" if new else "repeated").inc()
    if new:
        LOG_BYTES.inc(size)
        announce.attempt_progressed_on_commit(attempt.task)


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
        attempts_cancelled([attempt])
    else:
        attempt_again(attempt, reason=reason)
    dispatch_on_commit({task.worker_id})
    return True


def log_tail(attempt: Attempt, chunks: int = 12) -> str:
    """The last pieces of an attempt's log."""
    last = list(attempt.log.order_by("-id")[:chunks])
    return "".join(chunk.text for chunk in reversed(last))
