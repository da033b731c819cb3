"""Cancelling several tasks at once."""

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
    """Ids by what became of them, each in the order asked for.

    cancelled: ended, or told to stop, now or by an earlier request; ended: it was too late;
    unknown: there is no such task that the user may see
    """

    cancelled: tuple[int, ...] = ()
    ended: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()


def cancel_tasks(ids: Iterable[int], *, by: User) -> CancelReport:
    """Cancel those of the tasks that `by` may see, each in a transaction of its own.

    Repeating it changes nothing. Raises DomainError no_ids, too_many_ids.
    """
    asked = list(dict.fromkeys(ids))
    if not asked:
        raise DomainError("no_ids")
    if len(asked) > MOST_IDS:
        raise DomainError("too_many_ids", limit=MOST_IDS)
    found = {task.pk: task for task in visible_tasks(by).filter(pk__in=asked)}
    cancelled, ended = list[int](), list[int]()
    for pk in asked:
        if pk in found:
            (cancelled if cancel_and_check(found[pk]) else ended).append(pk)
    return CancelReport(
        tuple(cancelled), tuple(ended), tuple(pk for pk in asked if pk not in found)
    )


def cancel_own_tasks(*, owner: User) -> CancelReport:
    """Cancel all of a user's own tasks that have not ended; an administrator's too are only own."""
    own = Task.objects.filter(owner=owner, state__in=CANCELLABLE, purpose=Purpose.USER)
    # from the end of the queue: what is cancelled first should not start meanwhile
    found = [(task.pk, cancel_and_check(task)) for task in own.order_by("-pk")]
    return CancelReport(
        cancelled=tuple(pk for pk, is_over in found if is_over),
        ended=tuple(pk for pk, is_over in found if not is_over),
    )


def cancel_and_check(task: Task) -> bool:
    """Cancel it; returns whether the task is, or will be, cancelled."""
    cancel_task(task)
    task.refresh_from_db()
    return task.state == TaskState.CANCELLING or task.outcome == "cancelled"


@transaction.atomic
def cancel_task(task: Task) -> None:
    """Ask for an end. A task that no device holds ends at once; an ended one stays as it is."""
    # between the two moves below it must not go back from a device to the queue
    Task.objects.select_for_update().filter(pk=task.pk).first()
    idle = {TaskState.INITIATED, TaskState.WAITING}
    if transition_if(
        task, TaskState.FINISHED, idle, outcome=Outcome.CANCELLED, reason="cancelled_by_user"
    ):
        return
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(task, TaskState.CANCELLING, held):
        wakeups.poke_worker_on_commit(task.worker_id)
