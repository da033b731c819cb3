"""The one function that moves a task: compare-and-swap in the database, and the move's event."""

from collections.abc import Iterable
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from accounts.webhooks.events import task_ended
from tasks import announce
from tasks.models import Purpose, Task, TaskEvent
from tasks.states import ENTERED_FROM, TaskState
from webprofile.meters import TASK_MOVES

log = structlog.get_logger()


@transaction.atomic(savepoint=False)  # what fails here fails as a whole: nobody goes on after it
def transition_if(
    task: Task,
    to: TaskState,
    sources: Iterable[TaskState],
    *,
    only: Q | None = None,
    **changes: Any,
) -> bool:
    """Move a task if it is in one of `sources`, writing `changes` into its columns with the move.

    `only`: what else must be true of its row at that moment.
    Of two racing callers one wins: the row count of the UPDATE decides. Always refreshes `task`.
    """
    now = timezone.now()
    allowed = set(sources) & ENTERED_FROM[to]
    if to == TaskState.FINISHED:
        changes["finished_at"] = now
    moved = Task.objects.filter(only or Q(), pk=task.pk, state__in=allowed).update(
        state=to, event_seq=F("event_seq") + 1, updated_at=now, **changes
    )
    task.refresh_from_db()
    if not moved:
        return False
    data = {"status": task.status.value}
    data |= {key: changes[key] for key in ("outcome", "reason", "detail") if changes.get(key)}
    TaskEvent.objects.create(task=task, seq=task.event_seq, kind=f"task.{to}", data=data)
    announce.task_changed_on_commit(task)
    if to == TaskState.FINISHED and task.purpose == Purpose.USER:
        task_ended(
            owner_id=task.owner_id, task_id=task.pk, outcome=task.outcome, reason=task.reason
        )
    log.info("task_moved", task=task.pk, state=str(to), outcome=task.outcome, reason=task.reason)
    TASK_MOVES.labels(str(to), task.outcome, task.reason).inc()
    return True
