"""What the end of an attempt means for its task: the task ends, or it gets another attempt."""

import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from agent.protocol.messages import EndReason
from tasks.lifecycle.reasons import Reason
from tasks.lifecycle.transitions import transition_if
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Attempt, Task, TaskEvent
from tasks.states import Outcome, TaskState

#: end reasons that the server sets itself: the worker sent no heartbeat for longer than a lease,
#: the agent reconnected without the attempt, or the permission to run scripts was withdrawn before
#: the attempt started
LEASE_EXPIRED = "lease_expired"
AGENT_FORGOT = "agent_forgot"
SCRIPTS_WITHDRAWN = "scripts_withdrawn"
#: end reason of an attempt whose device got other bytes than the user announced, twice: neither
#: another attempt nor another device would get the right ones
FILE_CHANGED = "file_changed"


class End(NamedTuple):
    """The consequences of an end reason of an attempt.

    reason: the reason of the task if it fails because of this; None if exit code and log decide
    is_retried: neither the model nor the user is to blame, so the task gets another attempt
    may_last: the cause may persist (unavailable storage, a full disk), so the next attempt is
        delayed
    is_device_at_fault: the cause lies in the device, its agent or its network
    outcome: the outcome under which statistics count the attempt
    """

    reason: Reason | None = None
    is_retried: bool = False
    may_last: bool = False
    is_device_at_fault: bool = False
    outcome: Outcome = Outcome.FAILED


def _retried(reason: Reason, *, may_last: bool = False, outcome: Outcome = Outcome.FAILED) -> End:
    return End(reason, True, may_last, True, outcome)


ENDS: dict[str, End] = {
    EndReason.EXITED: End(),
    EndReason.INPUT_WRONG: End(),
    EndReason.TIMED_OUT: End(Reason.TIMED_OUT),
    EndReason.REFUSED: End(Reason.REFUSED_BY_AGENT),
    EndReason.NO_RUNTIME: End(Reason.RUNTIME_MISSING, is_device_at_fault=True),
    EndReason.NO_PROFILE: End(Reason.NO_PROFILE),
    EndReason.SILENT: End(Reason.SILENT),
    EndReason.OUTPUT_TOO_LARGE: End(Reason.OUTPUT_TOO_LARGE),
    EndReason.LOG_TOO_LONG: End(Reason.LOG_TOO_LONG),
    EndReason.TOO_MANY_PROCESSES: End(Reason.TOO_MANY_PROCESSES),
    EndReason.OUT_OF_MEMORY: End(Reason.OUT_OF_MEMORY),
    EndReason.NOTHING_TIMED: End(Reason.NOTHING_TIMED),
    EndReason.NO_SANDBOX: End(Reason.NO_SANDBOX, is_device_at_fault=True),
    EndReason.FILE_MISSING: End(Reason.FILE_MISSING),
    EndReason.DOWNLOAD_FAILED: _retried(Reason.DOWNLOAD_FAILED, may_last=True),
    FILE_CHANGED: End(Reason.FILE_CHANGED),
    EndReason.UPLOAD_FAILED: _retried(Reason.UPLOAD_FAILED, may_last=True),
    EndReason.AGENT_RESTARTED: _retried(Reason.AGENT_RESTARTED),
    EndReason.AGENT_ERROR: _retried(Reason.AGENT_ERROR, may_last=True),
    EndReason.KILLED: _retried(Reason.KILLED),
    # the agent stopped the run by itself: a task that its user cancelled is in state cancelling
    EndReason.CANCELLED: End(Reason.CANCELLED, is_retried=True, outcome=Outcome.CANCELLED),
    LEASE_EXPIRED: _retried(Reason.LEASE_EXPIRED, outcome=Outcome.LOST),
    AGENT_FORGOT: _retried(Reason.AGENT_FORGOT, outcome=Outcome.LOST),
    SCRIPTS_WITHDRAWN: End(Reason.SCRIPTS_WITHDRAWN, is_retried=True),
}


def about(attempt: Attempt) -> dict[str, str]:
    """Return the fields that identify an attempt in log records about its task."""
    return {"attempt": str(attempt.pk), "worker": attempt.worker.name}


def continue_task(attempt: Attempt, *, reason: str, detail: str = "") -> bool:
    """After the end of an attempt, end its task if it was cancelled, or queue it again.

    attempt: locked together with its task

    Returns False if neither applies; the caller then derives the outcome from the run's results.
    """
    # registered first, so that on commit the device is woken before the browsers
    dispatch_on_commit({attempt.worker_id})
    if attempt.task.state == TaskState.CANCELLING:
        end_task(attempt, Outcome.CANCELLED, Reason.CANCELLED_BY_USER.code)
    elif ENDS[reason].is_retried:
        _queue_again(attempt, reason, detail)
    else:
        return False
    return True


def reader_of(attempt: Attempt) -> str:
    """Return the name of the actor that reads what a run left: its profile, or its log."""
    return "build_profile" if attempt.exit_code == 0 else "diagnose_run"


def end_task(attempt: Attempt, outcome: Outcome, reason: str, detail: str = "") -> bool:
    """End the task of an attempt that has ended; return whether this call ended it."""
    return transition_if(
        attempt.task,
        TaskState.FINISHED,
        {TaskState.ASSIGNED, TaskState.RUNNING, TaskState.CANCELLING, TaskState.PROCESSING},
        about=about(attempt),
        outcome=outcome,
        reason=reason,
        notes=[] if outcome == Outcome.CANCELLED else attempt.notes,
        detail=detail[:1000],
    )


def _queue_again(attempt: Attempt, reason: str, detail: str) -> None:
    """Queue the task for another attempt, or end it as lost after `MAX_ATTEMPTS` attempts.

    If the cause may last, the task pauses first; each pause is four times as long as the last one.
    """
    task = attempt.task
    attempts = task.attempts.count()
    if attempts >= settings.MAX_ATTEMPTS:
        end_task(attempt, Outcome.LOST, reason, detail)
        return
    # the exponent is limited: the result is cut to `RETRY_PAUSE_MOST_S` in any case
    pause_s = settings.RETRY_PAUSE_S * 4 ** min(attempts - 1, 10) if ENDS[reason].may_last else 0
    pause = datetime.timedelta(seconds=min(pause_s, settings.RETRY_PAUSE_MOST_S))
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    next_at = timezone.now() + pause
    if transition_if(
        task,
        TaskState.WAITING,
        held,
        about=about(attempt),
        not_before_at=next_at,
        queue_deadline_at=next_at + datetime.timedelta(seconds=settings.QUEUE_DEADLINE_S),
    ):
        TaskEvent.objects.filter(task=task, seq=task.event_seq).update(
            data={
                "status": task.status.value,
                "retry_because": reason,
                "notes": attempt.notes,
                "detail": detail[:200],
            }
        )
        forget_progress(attempt)  # the next attempt measures it again


def forget_progress(attempt: Attempt) -> None:
    """Remove what the agent reported before the result: operators, latency and verdicts."""
    if attempt.slowest is not None or attempt.latency is not None or attempt.verdicts:
        attempt.slowest, attempt.latency, attempt.verdicts = None, None, []
        attempt.save(update_fields=["slowest", "latency", "verdicts"])


@transaction.atomic(savepoint=False)
def complete_task(task: Task) -> bool:
    """End a task whose profile is stored as succeeded; return whether this call ended it."""
    return transition_if(
        task, TaskState.FINISHED, {TaskState.PROCESSING}, outcome=Outcome.SUCCEEDED
    )


@transaction.atomic
def abandon_task(task: Task) -> bool:
    """End a task whose upload was not completed in time as cancelled."""
    return transition_if(
        task,
        TaskState.FINISHED,
        {TaskState.INITIATED},
        outcome=Outcome.CANCELLED,
        reason="upload_abandoned",
    )


@transaction.atomic
def begin_reading(task: Task) -> None:
    """Record that an actor reads the task's result, so that the sweep sends no further message.

    The first call sets the deadline for it.
    """
    now = timezone.now()
    deadline = Value(now + datetime.timedelta(seconds=settings.PROCESSING_DEADLINE_S))
    processing = Task.objects.filter(pk=task.pk, state=TaskState.PROCESSING)
    processing.update(
        hinted_at=now, processing_deadline_at=Coalesce("processing_deadline_at", deadline)
    )


@transaction.atomic
def fail_task(task: Task, *, reason: str, detail: str = "") -> bool:
    """End a task that is not on a device as failed."""
    sources = {TaskState.INITIATED, TaskState.WAITING, TaskState.PROCESSING}
    return transition_if(
        task,
        TaskState.FINISHED,
        sources,
        outcome=Outcome.FAILED,
        reason=reason,
        detail=detail[:1000],
    )
