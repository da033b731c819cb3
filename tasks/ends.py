"""How a task goes on once an attempt of it is over: to an end, or to another attempt."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils import timezone

from agent.protocol import EndReason
from tasks.models import Attempt, TaskEvent
from tasks.states import Outcome, TaskState
from tasks.transitions import transition_if, transitions_if

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


def about(attempts: Iterable[Attempt]) -> dict[int, Mapping[str, str]]:
    """What lines about the tasks of these attempts say of them, by task."""
    return {
        each.task_id: {"attempt": str(each.pk), "worker": each.worker.name} for each in attempts
    }


def attempts_fail(
    attempts: Sequence[Attempt], outcome: Outcome, reason: str, detail: str = ""
) -> None:
    """End the tasks of attempts that are over, for one and the same reason."""
    sources = {TaskState.ASSIGNED, TaskState.RUNNING, TaskState.CANCELLING}
    transitions_if(
        [attempt.task for attempt in attempts],
        TaskState.FINISHED,
        sources,
        about=about(attempts),
        outcome=outcome,
        reason=reason,
        detail=detail[:1000],
    )


def attempts_cancelled(attempts: Sequence[Attempt]) -> None:
    """End the tasks of attempts that are over, as their owners wished."""
    attempts_fail(attempts, Outcome.CANCELLED, "cancelled_by_user")


def attempt_again(attempt: Attempt, *, reason: str, detail: str = "") -> None:
    """Queue the task once more, a bounded number of times, the next time later."""
    task = attempt.task
    tried = task.attempts.count()
    if tried >= settings.MAX_ATTEMPTS:
        attempts_fail([attempt], Outcome.LOST, reason, detail)
        return
    pause_s = _pause_s(tried) if reason in PAUSED else 0
    not_before = timezone.now() + datetime.timedelta(seconds=pause_s)
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    changes: dict[str, Any] = {"about": about([attempt]), "not_before_at": not_before}
    if transition_if(task, TaskState.WAITING, held, **changes):
        TaskEvent.objects.filter(task=task, seq=task.event_seq).update(
            data={"status": task.status.value, "retry_because": reason, "detail": detail[:200]}
        )


def _pause_s(tried: int) -> float:
    # beyond ten attempts the power alone would be a year
    pause_s = settings.RETRY_PAUSE_S * 4 ** min(tried - 1, 10)
    return float(min(pause_s, settings.RETRY_PAUSE_MOST_S))
