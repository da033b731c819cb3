"""Cancel one task, several tasks, or all tasks of a user."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction

from accounts.models import User
from tasks.lifecycle import wakeups
from tasks.lifecycle.transitions import transition_if
from tasks.models import Purpose, Task
from tasks.selectors import visible_tasks
from tasks.states import LIVE, Outcome, TaskState
from webprofile.errors import DomainError

MOST_IDS = 1000
#: states in which a task can still be cancelled
CANCELLABLE = LIVE - {TaskState.PROCESSING}


@dataclass(frozen=True)
class CancelReport:
    """The ids of a cancellation request, grouped by result, each in the order of the request.

    cancelled: tasks that are or will be cancelled, by this or by an earlier request
    ended: tasks that had ended or were being processed already
    unknown: tasks that do not exist or that the user may not see
    """

    cancelled: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()


def cancel_tasks(ids: Iterable[int], *, by: User) -> CancelReport:
    """Cancel those of the tasks that `by` may see, each in its own transaction. Idempotent.

    Raises DomainError no_ids, too_many_ids.
    """
    requested = list(dict.fromkeys(ids))
    if not requested:
        raise DomainError("no_ids")
    if len(requested) > MOST_IDS:
        raise DomainError("too_many_ids", limit=MOST_IDS)
    tasks = {task.pk: task for task in visible_tasks(by).filter(pk__in=requested)}
    cancelled, ended = list[int](), list[int]()
    for pk in requested:
        if pk in tasks:
            (cancelled if cancel_and_check(tasks[pk]) else ended).append(pk)
    return CancelReport(
        tuple(cancelled), tuple(ended), tuple(pk for pk in requested if pk not in tasks)
    )


def cancel_own_tasks(*, owner: User) -> CancelReport:
    """Cancel the user's own tasks that have not ended, even if they may cancel others' tasks."""
    own = Task.objects.filter(owner=owner, state__in=CANCELLABLE, purpose=Purpose.USER)
    # from the end of the queue, so that a freed slot does not start a task that is cancelled next
    results = [(task.pk, cancel_and_check(task)) for task in own.order_by("-pk")]
    return CancelReport(
        cancelled=tuple(pk for pk, is_cancelled in results if is_cancelled),
        ended=tuple(pk for pk, is_cancelled in results if not is_cancelled),
    )


def cancel_and_check(task: Task) -> bool:
    """Cancel a task; return whether it is, or will be, cancelled."""
    cancel_task(task)
    task.refresh_from_db()
    return task.state == TaskState.CANCELLING or task.outcome == "cancelled"


@transaction.atomic
def cancel_task(task: Task) -> None:
    """Cancel a task: one on a device is stopped by its agent, one in the queue ends immediately.

    A task that has ended, or whose result is being processed, is left unchanged.
    """
    # lock the task, so that it cannot return from a device to the queue between the transitions
    Task.objects.select_for_update().filter(pk=task.pk).first()
    idle = {TaskState.INITIATED, TaskState.WAITING}
    if transition_if(
        task, TaskState.FINISHED, idle, outcome=Outcome.CANCELLED, reason="cancelled_by_user"
    ):
        return
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(task, TaskState.CANCELLING, held):
        wakeups.wake_worker_on_commit(task.worker_id)
