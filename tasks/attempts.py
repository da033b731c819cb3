"""Everything that changes an attempt: what an agent reports, and what its silence means.

An attempt that ended is fenced: reports that come later are acknowledged and change nothing,
because each UPDATE here asks for `ended_at IS NULL` and the row count decides.
"""

import datetime
import re
import uuid
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Q, Sum
from django.utils import timezone
from structlog.contextvars import bound_contextvars

from agent.protocol import AttemptFinished, AttemptLog, AttemptStarted, EndReason
from tasks import announce
from tasks.diagnosis import diagnose, diagnose_script
from tasks.hints import build_profile_on_commit, fill_slot_on_commit
from tasks.models import Attempt, LogChunk, Task, TaskEvent, TaskFile
from tasks.states import Outcome, TaskState
from tasks.transitions import transition_if
from webprofile.meters import DISPATCH_SECONDS, LOG_BYTES, LOG_PIECES
from workers.models import Worker

log = structlog.get_logger()

P = ParamSpec("P")
R = TypeVar("R")

#: ends for which neither model nor user is to blame; the task gets another attempt
RETRIED = frozenset(
    {
        EndReason.DOWNLOAD_FAILED,
        EndReason.UPLOAD_FAILED,
        EndReason.AGENT_RESTARTED,
        EndReason.AGENT_ERROR,
        EndReason.KILLED,
        # nobody here asked for it: a cancelled task is in state cancelling
        EndReason.CANCELLED,
    }
)
#: ends whose cause may last: a storage that is away, a full disk
PAUSED = frozenset({EndReason.DOWNLOAD_FAILED, EndReason.UPLOAD_FAILED, EndReason.AGENT_ERROR})
#: why an attempt ended whose worker was silent for longer than a lease
LEASE_EXPIRED = "lease_expired"
#: why one ended before it began: the device was forbidden to run scripts
SCRIPTS_WITHDRAWN = "scripts_withdrawn"


def _telling(act: Callable[Concatenate[Attempt, P], R]) -> Callable[Concatenate[Attempt, P], R]:
    """Name the attempt and its task in every line that is logged meanwhile."""

    @wraps(act)
    def told(attempt: Attempt, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with bound_contextvars(task=attempt.task_id, attempt=str(attempt.pk)):
            return act(attempt, *args, **kwargs)

    return told


def _s(span: datetime.timedelta) -> float:
    """Seconds; clocks of two machines may differ."""
    return max(0.0, span.total_seconds())


def lease_end() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.LEASE_S)


@transaction.atomic
def attempt_assign(task: Task, *, slot: int) -> Attempt | None:
    """Give a waiting task to its worker; None if it is not waiting for this one any more.

    Raises IntegrityError if the slot is taken: the caller lost a race.
    """
    # first in line on commit: the device should not wait for what browsers are told
    announce.poke_worker_on_commit(task.worker_id)
    # another dispatcher may have moved it to another device since it was read
    here = Q(worker=task.worker_id, runtime_version=task.runtime_version)
    if task.is_script:
        # its owner, or an administrator, may have withdrawn it since
        takers = Worker.objects.filter(allows_scripts=True, offers_scripts=True)
        here &= Q(Exists(takers.filter(pk=task.worker_id)))
    attempt_id = uuid.uuid4()
    with bound_contextvars(attempt=str(attempt_id), worker=task.worker.name):
        if not transition_if(task, TaskState.ASSIGNED, {TaskState.WAITING}, only=here):
            return None
    attempt = Attempt.objects.create(
        pk=attempt_id,
        task=task,
        worker_id=task.worker_id,
        number=task.attempts.count() + 1,
        slot=slot,
        lease_expires_at=lease_end(),
    )
    if attempt.number == 1 and task.submitted_at is not None:
        DISPATCH_SECONDS.labels("assigned").observe(_s(attempt.created_at - task.submitted_at))
    return attempt


def attempt_accept(attempt: Attempt) -> None:
    """Note that the agent has the order on disk. Repeating it changes nothing."""
    Attempt.objects.filter(pk=attempt.pk, ended_at=None, accepted_at=None).update(
        accepted_at=timezone.now(), lease_expires_at=lease_end()
    )


@_telling
@transaction.atomic
def attempt_start(attempt: Attempt, report: AttemptStarted) -> None:
    """Note that load_and_run runs."""
    live = Attempt.objects.filter(pk=attempt.pk, ended_at=None, started_at=None)
    now = timezone.now()
    if live.update(
        started_at=now,
        lease_expires_at=lease_end(),
        download_s=report.download_s,
        command=report.command,
    ):
        transition_if(attempt.task, TaskState.RUNNING, {TaskState.ASSIGNED})
        if attempt.number == 1:
            DISPATCH_SECONDS.labels("started").observe(_s(now - attempt.created_at))


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
        announce.log_grew_on_commit(attempt.task)


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


@_telling
@transaction.atomic
def attempt_finish(attempt: Attempt, report: AttemptFinished) -> bool:
    """Record the end that an agent reports and move the task on.

    Returns False if the attempt had ended before (a repeated or late report).
    """
    ended = _end(
        attempt,
        end_reason=report.reason.value,
        exit_code=report.exit_code,
        run_s=report.run_s,
        detail=report.detail,
        command=report.command or attempt.command,
    )
    if not ended:
        return False
    task = attempt.task
    _note_sums(task, report)
    if task.state == TaskState.CANCELLING:
        _finish(task, Outcome.CANCELLED, "cancelled_by_user")
    elif report.reason == EndReason.EXITED and report.exit_code == 0:
        held = {TaskState.ASSIGNED, TaskState.RUNNING}
        deadline = timezone.now() + datetime.timedelta(seconds=settings.PROCESSING_DEADLINE_S)
        facts: dict[str, Any] = {"processing_deadline_at": deadline, "hinted_at": timezone.now()}
        if transition_if(task, TaskState.PROCESSING, held, **facts):
            build_profile_on_commit(str(attempt.pk))
    elif report.reason in RETRIED:
        _try_again(task, reason=report.reason.value, detail=report.detail)
    else:
        _finish(task, Outcome.FAILED, *_diagnosed(attempt, report))
    fill_slot_on_commit(task.worker_id)
    return True


def _diagnosed(attempt: Attempt, report: AttemptFinished) -> tuple[str, str]:
    """Reason and detail, in which files have the names that they were uploaded with."""
    task = attempt.task
    judge = diagnose_script if task.is_script else diagnose
    reason, detail = judge(report, _log_of(attempt, report))
    around = (r"(?<![\w./-])", r"(?![\w-])") if task.is_script else ('(?<=")', '(?=")')
    for file in task.files.all():
        # the name is a user's: no backslash of it means anything
        name = file.name.replace("\\", r"\\")
        detail = re.sub(re.escape(file.device_name).join(around), name, detail)
    return reason, detail


@_telling
@transaction.atomic
def attempt_lose(
    attempt: Attempt, *, reason: str, lease_before: datetime.datetime | None = None
) -> bool:
    """End an attempt that its worker does not hold any more (`lease_expired`, `agent_forgot`).

    With `lease_before`, only if its lease still ends before then: a heartbeat may have come.
    """
    if not _end(attempt, lease_before=lease_before, end_reason=reason):
        return False
    task = attempt.task
    if task.state == TaskState.CANCELLING:
        _finish(task, Outcome.CANCELLED, "cancelled_by_user")
    else:
        _try_again(task, reason=reason)
    fill_slot_on_commit(task.worker_id)
    return True


def _note_sums(task: Task, report: AttemptFinished) -> None:
    """Keep the SHA-256 of each file as it arrived: with it the next device can use its cache."""
    sums = {file.name: file.sha256 for file in report.received}
    if not sums:
        return
    for file in task.files.all():
        found = sums.get(file.device_name, "")
        if found and found != file.sha256:
            TaskFile.objects.filter(pk=file.pk).update(sha256=found)


def _log_of(attempt: Attempt, report: AttemptFinished) -> str:
    """The end of the log: what came piece by piece, and what the report says of it."""
    tail = log_tail(attempt)
    return tail if tail.endswith(report.log_end) else f"{tail}\n{report.log_end}"


def log_tail(attempt: Attempt, chunks: int = 12) -> str:
    """The last pieces of an attempt's log."""
    last = list(attempt.log.order_by("-id")[:chunks])
    return "".join(chunk.text for chunk in reversed(last))


def _end(
    attempt: Attempt, *, lease_before: datetime.datetime | None = None, **facts: object
) -> bool:
    live = Attempt.objects.filter(pk=attempt.pk, ended_at=None)
    if lease_before is not None:
        live = live.filter(lease_expires_at__lt=lease_before)
    ended = live.update(ended_at=timezone.now(), **facts)
    # what follows is chosen by the task's state: a cancel must not come in between, or nobody would
    # ever end the task; that of an attempt that had ended waits here for nothing but the lock
    rows = Attempt.objects.select_related("task").select_for_update(of=("self", "task"))
    attempt.refresh_from_db(from_queryset=rows)
    return bool(ended)


def _finish(task: Task, outcome: Outcome, reason: str, detail: str = "") -> None:
    sources = {TaskState.ASSIGNED, TaskState.RUNNING, TaskState.CANCELLING}
    transition_if(
        task, TaskState.FINISHED, sources, outcome=outcome, reason=reason, detail=detail[:1000]
    )


def _pause_s(tried: int) -> float:
    # beyond ten attempts the power alone would be a year
    pause_s = settings.RETRY_PAUSE_S * 4 ** min(tried - 1, 10)
    return float(min(pause_s, settings.RETRY_PAUSE_MOST_S))


def _try_again(task: Task, *, reason: str, detail: str = "") -> None:
    """Queue the task once more, a bounded number of times, the next time later."""
    tried = task.attempts.count()
    if tried >= settings.MAX_ATTEMPTS:
        _finish(task, Outcome.LOST, reason, detail)
        return
    pause_s = _pause_s(tried) if reason in PAUSED else 0
    not_before = timezone.now() + datetime.timedelta(seconds=pause_s)
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(task, TaskState.WAITING, held, not_before_at=not_before):
        TaskEvent.objects.filter(task=task, seq=task.event_seq).update(
            data={"status": task.status.value, "retry_because": reason, "detail": detail[:200]}
        )
