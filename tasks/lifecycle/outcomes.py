"""What the end of an attempt means, and how its task goes on: to an end, or to another attempt."""

import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agent.protocol import EndReason
from tasks.lifecycle.reasons import Reason
from tasks.lifecycle.transitions import transition_if
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Attempt, Task, TaskEvent
from tasks.states import Outcome, TaskState

#: ends that no agent reports: its worker was silent for longer than a lease, or came back without
#: the attempt, or was forbidden to run scripts before this one began
LEASE_EXPIRED = "lease_expired"
AGENT_FORGOT = "agent_forgot"
SCRIPTS_WITHDRAWN = "scripts_withdrawn"


class End(NamedTuple):
    """reason: of its task, if that fails by this; None where exit code and log tell
    is_retried: neither model nor user is to blame; the task gets another attempt
    may_last: so may the cause (a storage that is away, a full disk): the next attempt waits
    is_device_at_fault: it says something of the device, its agent or its network
    outcome: what it is counted as
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
    EndReason.UPLOAD_FAILED: _retried(Reason.UPLOAD_FAILED, may_last=True),
    EndReason.AGENT_RESTARTED: _retried(Reason.AGENT_RESTARTED),
    EndReason.AGENT_ERROR: _retried(Reason.AGENT_ERROR, may_last=True),
    EndReason.KILLED: _retried(Reason.KILLED),
    # nobody here asked for it, a cancelled task is in state cancelling; but users cancel theirs
    EndReason.CANCELLED: End(Reason.CANCELLED, is_retried=True, outcome=Outcome.CANCELLED),
    LEASE_EXPIRED: _retried(Reason.LEASE_EXPIRED, outcome=Outcome.LOST),
    AGENT_FORGOT: _retried(Reason.AGENT_FORGOT, outcome=Outcome.LOST),
    SCRIPTS_WITHDRAWN: End(Reason.SCRIPTS_WITHDRAWN, is_retried=True),
}


def about(attempt: Attempt) -> dict[str, str]:
    """What lines about an attempt's task say of the attempt."""
    return {"attempt": str(attempt.pk), "worker": attempt.worker.name}


def continue_task(attempt: Attempt, *, reason: str, detail: str = "") -> bool:
    """End the task of an attempt that is over if it was cancelled; queue it again if that may help.

    False if neither: what the run left tells how the task ends. attempt: locked with its task
    """
    # first in line on commit: the device should not wait for what browsers are told
    dispatch_on_commit({attempt.worker_id})
    if attempt.task.state == TaskState.CANCELLING:
        end_task(attempt, Outcome.CANCELLED, Reason.CANCELLED_BY_USER.value)
    elif ENDS[reason].is_retried:
        _queue_again(attempt, reason, detail)
    else:
        return False
    return True


def end_task(attempt: Attempt, outcome: Outcome, reason: str, detail: str = "") -> None:
    """End the task of an attempt that is over."""
    transition_if(
        attempt.task,
        TaskState.FINISHED,
        {TaskState.ASSIGNED, TaskState.RUNNING, TaskState.CANCELLING},
        about=about(attempt),
        outcome=outcome,
        reason=reason,
        detail=detail[:1000],
    )


def _queue_again(attempt: Attempt, reason: str, detail: str) -> None:
    """A bounded number of times, the next time later."""
    task = attempt.task
    tried = task.attempts.count()
    if tried >= settings.MAX_ATTEMPTS:
        end_task(attempt, Outcome.LOST, reason, detail)
        return
    # beyond ten attempts the power alone would be a year
    pause_s = settings.RETRY_PAUSE_S * 4 ** min(tried - 1, 10) if ENDS[reason].may_last else 0
    pause = datetime.timedelta(seconds=min(pause_s, settings.RETRY_PAUSE_MOST_S))
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    next_at = timezone.now() + pause
    if transition_if(task, TaskState.WAITING, held, about=about(attempt), not_before_at=next_at):
        TaskEvent.objects.filter(task=task, seq=task.event_seq).update(
            data={"status": task.status.value, "retry_because": reason, "detail": detail[:200]}
        )


@transaction.atomic(savepoint=False)
def complete_task(task: Task) -> bool:
    """End a task whose profile is stored. Returns whether it was this call that ended it."""
    return transition_if(
        task, TaskState.FINISHED, {TaskState.PROCESSING}, outcome=Outcome.SUCCEEDED
    )


@transaction.atomic
def abandon_task(task: Task) -> bool:
    """End a task whose upload was never completed."""
    return transition_if(
        task,
        TaskState.FINISHED,
        {TaskState.INITIATED},
        outcome=Outcome.CANCELLED,
        reason="upload_abandoned",
    )


@transaction.atomic
def mark_being_read(task: Task) -> None:
    """Note that its result is being read, so that the sweep does not send the message again."""
    processing = Task.objects.filter(pk=task.pk, state=TaskState.PROCESSING)
    processing.update(hinted_at=timezone.now())


@transaction.atomic
def fail_task(task: Task, *, reason: str, detail: str = "") -> bool:
    """End a task that no device holds as failed."""
    sources = {TaskState.INITIATED, TaskState.WAITING, TaskState.PROCESSING}
    return transition_if(
        task,
        TaskState.FINISHED,
        sources,
        outcome=Outcome.FAILED,
        reason=reason,
        detail=detail[:1000],
    )
