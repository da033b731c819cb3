"""The one function that moves a task: compare-and-swap in the database, and the move's event."""

from collections.abc import Iterable
from typing import Any

import structlog
from django.core.exceptions import EmptyResultSet
from django.db import connections, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.sql import UpdateQuery
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

    `only`: what else must be true of its row at that moment: its own columns, or `Exists`. A join
    would be asked before the row is locked, and a race could then be won twice.
    Of two racing callers one wins: whose UPDATE found the row. `task` then has what was written;
    of who lost it is read anew as a whole.
    """
    now = timezone.now()
    allowed = set(sources) & ENTERED_FROM[to]
    if to == TaskState.FINISHED:
        changes["finished_at"] = now
    rows = Task.objects.filter(only or Q(), pk=task.pk, state__in=allowed)
    changes["updated_at"] = now
    seq = _update(rows, state=str(to), event_seq=F("event_seq") + 1, **changes)
    if seq is None:
        task.refresh_from_db()
        return False
    task.state, task.event_seq = str(to), seq
    for name, value in changes.items():
        setattr(task, name, value)
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


def _update(rows: QuerySet[Task], **changes: Any) -> int | None:
    """UPDATE the row; its new `event_seq`, None if there was none to write.

    In one statement: a task is moved five times, and to read its row each time costs more than to
    write it. `QuerySet.update` returns no columns (Django's ticket 32406 asks for that).
    """
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values(changes)
    try:
        sql, parameters = query.get_compiler(rows.db).as_sql()
    except EmptyResultSet:
        return None  # no state leads there
    connection = connections[rows.db]
    with transaction.mark_for_rollback_on_error(using=rows.db), connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING {connection.ops.quote_name('event_seq')}", parameters)
        found = cursor.fetchone()
    return found[0] if found else None
