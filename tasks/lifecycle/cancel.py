"""Cancel one task, several tasks, or all tasks of a user; end the run of one early."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from accounts.models import User
from agent.protocol.messages import FEATURE_ENOUGH
from tasks.audit import record_change
from tasks.lifecycle import wakeups
from tasks.lifecycle.transitions import add_event, transition_if
from tasks.models import Attempt, Purpose, Task
from tasks.selectors import last_attempt, visible_tasks
from tasks.states import LIVE, Outcome, TaskState
from webprofile.errors import DomainError

#: states in which a task can still be cancelled
CANCELLABLE = LIVE - {TaskState.PROCESSING}


@dataclass
class CancelReport:
    """The ids of a cancellation request, grouped by result, each in the order of the request.

    cancelled: tasks that are or will be cancelled, by this or by an earlier request
    ended: tasks that had ended or were being processed already
    unknown: tasks that do not exist or that the user may not see
    """

    cancelled: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)


def cancel_tasks(ids: Iterable[int], *, by: User) -> CancelReport:
    """Cancel those of the tasks that `by` may see, each in its own transaction. Idempotent."""
    requested = list(dict.fromkeys(ids))
    tasks = {task.pk: task for task in visible_tasks(by).filter(pk__in=requested)}
    report = _cancel((tasks[pk] for pk in requested if pk in tasks), by)
    report.unknown = [pk for pk in requested if pk not in tasks]
    return report


def cancel_own_tasks(*, owner: User) -> CancelReport:
    """Cancel the user's own tasks that have not ended, even if they may cancel others' tasks."""
    own = Task.objects.filter(owner=owner, state__in=CANCELLABLE, purpose=Purpose.USER)
    # from the end of the queue, so that a freed slot does not start a task that is cancelled next
    return _cancel(own.order_by("-pk"), owner)


def _cancel(tasks: Iterable[Task], by: User) -> CancelReport:
    report = CancelReport()
    for task in tasks:
        (report.cancelled if cancel_and_check(task, by=by) else report.ended).append(task.pk)
    return report


def cancel_and_check(task: Task, *, by: User | None = None) -> bool:
    """Cancel a task as `cancel_task`; return whether it is, or will be, cancelled."""
    cancel_task(task, by=by)
    task.refresh_from_db()
    return task.state == TaskState.CANCELLING or task.outcome == "cancelled"


@transaction.atomic
def cancel_task(task: Task, *, by: User | None = None) -> None:
    """Cancel a task: one on a device is stopped by its agent, one in the queue ends immediately.

    A task that has ended, or whose result is being processed, is left unchanged.

    by: the acting user, as of `record_change`
    """
    # lock the task, so that it cannot return from a device to the queue between the transitions
    Task.objects.select_for_update().filter(pk=task.pk).first()
    idle = {TaskState.INITIATED, TaskState.WAITING}
    if not transition_if(
        task, TaskState.FINISHED, idle, outcome=Outcome.CANCELLED, reason="cancelled_by_user"
    ):
        if not transition_if(task, TaskState.CANCELLING, {TaskState.ASSIGNED, TaskState.RUNNING}):
            return
        wakeups.wake_worker_on_commit(task.worker_id)
    record_change("task.cancel", task, by=by)


@transaction.atomic
def end_early(task: Task, *, by: User | None = None) -> None:
    """Let a run end after its current pass or pair; what was measured becomes the task's result.

    A task whose run has ended, is being cancelled or was ended early before is left unchanged.

    by: the acting user, as of `record_change`

    Raises DomainError if the run cannot be ended early.
    """
    # the attempt is locked before the task, as where an attempt ends, so that the two cannot block
    # each other; the task, so that two requests write one event
    Attempt.objects.select_for_update().filter(task=task, ended_at=None).first()
    locked = Task.objects.select_for_update().filter(pk=task.pk).first()
    attempt = last_attempt(task)
    if locked is None or locked.state in (TaskState.CANCELLING, *_OVER):
        return
    if attempt is not None and attempt.enough_at is not None and locked.state == TaskState.RUNNING:
        return
    if refusal := refusal_of_early_end(locked, attempt):
        raise refusal
    Attempt.objects.filter(task=task, ended_at=None).update(enough_at=timezone.now())
    Task.objects.filter(pk=task.pk).update(event_seq=F("event_seq") + 1, updated_at=timezone.now())
    task.refresh_from_db()
    add_event(task, "task.enough", {})
    record_change("task.end_early", task, by=by)
    wakeups.wake_worker_on_commit(task.worker_id)


#: states of tasks that are not measured any more
_OVER = (TaskState.PROCESSING, TaskState.FINISHED)


def refusal_of_early_end(task: Task, attempt: Attempt | None) -> DomainError | None:
    """Return the error if a live run cannot be ended early; None if it can."""
    if task.is_script:
        return DomainError("enough_script", status=409)
    if task.state != TaskState.RUNNING or attempt is None or not attempt.passes_done:
        return DomainError("enough_nothing", status=409)
    if FEATURE_ENOUGH not in task.worker.facts.get("features", ()):
        return DomainError("enough_old_agent", status=409)
    return None
