"""How a task goes on once an attempt of it is over: to an end, or to another attempt."""

import datetime

from django.conf import settings
from django.utils import timezone

from agent.protocol import EndReason
from tasks.models import Attempt, TaskEvent
from tasks.states import Outcome, TaskState
from tasks.transitions import transition_if

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


def about(attempt: Attempt) -> dict[str, str]:
    """What lines about an attempt's task say of the attempt."""
    return {"attempt": str(attempt.pk), "worker": attempt.worker.name}


def attempt_fail(attempt: Attempt, outcome: Outcome, reason: str, detail: str = "") -> None:
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


def attempt_cancelled(attempt: Attempt) -> None:
    """End the task of an attempt that is over, as its owner wished."""
    attempt_fail(attempt, Outcome.CANCELLED, "cancelled_by_user")


def attempt_again(attempt: Attempt, *, reason: str, detail: str = "") -> None:
    """Queue the task once more, a bounded number of times, the next time later."""
    task = attempt.task
    tried = task.attempts.count()
    if tried >= settings.MAX_ATTEMPTS:
        attempt_fail(attempt, Outcome.LOST, reason, detail)
        return
    pause_s = _pause_s(tried) if reason in PAUSED else 0
    not_before = timezone.now() + datetime.timedelta(seconds=pause_s)
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(task, TaskState.WAITING, held, about=about(attempt), not_before_at=not_before):
        TaskEvent.objects.filter(task=task, seq=task.event_seq).update(
            data={"status": task.status.value, "retry_because": reason, "detail": detail[:200]}
        )


def _pause_s(tried: int) -> float:
    # beyond ten attempts the power alone would be a year
    pause_s = settings.RETRY_PAUSE_S * 4 ** min(tried - 1, 10)
    return float(min(pause_s, settings.RETRY_PAUSE_MOST_S))
