"""States and outcomes of a task, and the transitions between states that are allowed."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class TaskState(TextChoices):
    INITIATED = "initiated", _("initiated")
    WAITING = "waiting", _("waiting")
    ASSIGNED = "assigned", _("assigned")
    RUNNING = "running", _("running")
    CANCELLING = "cancelling", _("cancelling")
    PROCESSING = "processing", _("processing")
    FINISHED = "finished", _("finished")


class Outcome(TextChoices):
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")
    LOST = "lost", _("lost")


class Status(TextChoices):
    """The simplified state that users see, derived from state and outcome."""

    INITIATED = "initiated", _("initiated")
    WAITING = "waiting", _("waiting")
    RUNNING = "running", _("running")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")


#: state -> states from which it may be entered
ENTERED_FROM: dict[TaskState, frozenset[TaskState]] = {
    TaskState.INITIATED: frozenset(),  # the initial state
    # back to waiting: the attempt failed because of the device or the infrastructure
    TaskState.WAITING: frozenset({TaskState.INITIATED, TaskState.ASSIGNED, TaskState.RUNNING}),
    TaskState.ASSIGNED: frozenset({TaskState.WAITING}),
    TaskState.RUNNING: frozenset({TaskState.ASSIGNED}),
    TaskState.CANCELLING: frozenset({TaskState.ASSIGNED, TaskState.RUNNING}),
    TaskState.PROCESSING: frozenset({TaskState.ASSIGNED, TaskState.RUNNING}),
    TaskState.FINISHED: frozenset(TaskState) - {TaskState.FINISHED},
}

#: states of a task that has not ended
LIVE = frozenset(TaskState) - {TaskState.FINISHED}
#: states in which a worker holds a live attempt of the task
HELD_BY_WORKER = frozenset({TaskState.ASSIGNED, TaskState.RUNNING, TaskState.CANCELLING})


def status_of(state: str, outcome: str) -> Status:
    if state == TaskState.FINISHED:
        return {
            Outcome.SUCCEEDED: Status.SUCCEEDED,
            Outcome.CANCELLED: Status.CANCELLED,
        }.get(Outcome(outcome), Status.FAILED)
    return {
        TaskState.INITIATED: Status.INITIATED,
        TaskState.WAITING: Status.WAITING,
        TaskState.ASSIGNED: Status.WAITING,
    }.get(TaskState(state), Status.RUNNING)
