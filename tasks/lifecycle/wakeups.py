"""Notifications on commit: channel-layer messages to browsers and agents, actor messages.

Channel-layer messages carry no data because they are delivered at most once: receivers read the
rows. A lost notification of the dispatcher is repeated by the sweep, one of an agent is repaired by
its next heartbeat on the socket; a browser reads what it missed at the next notification or when it
reconnects.
"""

from collections.abc import Collection

from django.db import transaction

from tasks.models import Task
from webprofile.background import enqueue_on_commit
from webprofile.realtime.layer import send_to_groups
from workers.tokens import worker_group


def task_group(task_id: int) -> str:
    return f"task.{task_id}"


def owner_group(user_id: int) -> str:
    return f"tasks.of.{user_id}"


#: the task lists of administrators, which show all users' tasks
ALL_TASKS_GROUP = "tasks.of.all"


def task_changed_on_commit(task: Task) -> None:
    """Tell browsers that show this task, or its owner's task list, to reload it."""
    groups = {ALL_TASKS_GROUP, task_group(task.pk), owner_group(task.owner_id)}
    transaction.on_commit(lambda: _send(groups, "task.changed"), robust=True)


def attempt_progressed_on_commit(task: Task) -> None:
    """Tell browsers that show this task's page that its log grew or a pass ended."""
    task_id = task.pk
    transaction.on_commit(lambda: _send({task_group(task_id)}, "task.changed"), robust=True)


def wake_worker_on_commit(worker_id: int) -> None:
    """Tell the consumer of this worker's agent to send the orders that the rows require."""
    group = worker_group(worker_id)
    transaction.on_commit(lambda: _send({group}, "worker.poke"), robust=True)


def dispatch_on_commit(worker_ids: Collection[int]) -> None:
    """Enqueue the actor that assigns waiting tasks to these workers."""
    if worker_ids:
        enqueue_on_commit("dispatch", sorted(worker_ids), queue="dispatch")


def _send(groups: set[str], kind: str) -> None:
    send_to_groups(groups, {"type": kind})
