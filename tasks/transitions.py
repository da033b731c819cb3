"""The one function that moves tasks: compare-and-swap in the database, and the move's event."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
from django.core.exceptions import EmptyResultSet
from django.db import connections, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.sql import UpdateQuery
from django.utils import timezone

from accounts.webhooks.events import TaskEnd, tasks_ended
from tasks import announce
from tasks.models import Purpose, Task, TaskEvent
from tasks.states import ENTERED_FROM, TaskState
from webprofile.meters import TASK_MOVES

log = structlog.get_logger()


def tasks_lock(keys: Collection[int], *, may_wait: bool) -> list[int]:
    """Lock these tasks until the transaction ends; returns those that exist.

    Without `may_wait` those that somebody else has locked are left out.
    """
    # in one order for all who lock several
    rows = Task.objects.filter(pk__in=keys).order_by("pk").values_list("pk", flat=True)
    return list(rows.select_for_update(no_key=True, skip_locked=not may_wait))


def transition_if(
    task: Task,
    to: TaskState,
    sources: Iterable[TaskState],
    *,
    only: Q | None = None,
    about: Mapping[int, Mapping[str, Any]] | None = None,
    **changes: Any,
) -> bool:
    """Move a task if it is in one of `sources`, writing `changes` into its columns with the move.

    `only`: what else must be true of its row at that moment: its own columns, or `Exists`. A join
    would be asked before the row is locked, and a race could then be won twice.
    Of two racing callers one wins: whose UPDATE found the row. `task` then has what was written;
    of who lost it is read anew as a whole.
    """
    return bool(transitions_if([task], to, sources, only=only, about=about, **changes))


@transaction.atomic(savepoint=False)  # what fails here fails as a whole: nobody goes on after it
def transitions_if(
    tasks: Sequence[Task],
    to: TaskState,
    sources: Iterable[TaskState],
    *,
    only: Q | None = None,
    about: Mapping[int, Mapping[str, Any]] | None = None,
    **changes: Any,
) -> list[Task]:
    """As `transition_if` for several tasks, in as many statements as for one.

    about: what the lines of the log about each task say besides, by the task's number
    Returns those that were moved; the others stay as they are.
    """
    if not tasks:
        return []
    now = timezone.now()
    allowed = set(sources) & ENTERED_FROM[to]
    if to == TaskState.FINISHED:
        changes["finished_at"] = now
    rows = Task.objects.filter(only or Q(), pk__in=[task.pk for task in tasks], state__in=allowed)
    changes["updated_at"] = now
    seqs = _update(rows, state=str(to), event_seq=F("event_seq") + 1, **changes)
    moved = list[Task]()
    for task in tasks:
        if task.pk not in seqs:
            with suppress(Task.DoesNotExist):  # deleted meanwhile, which keeps no other here
                task.refresh_from_db()
            continue
        moved.append(task)
        task.state, task.event_seq = str(to), seqs[task.pk]
        for name, value in changes.items():
            setattr(task, name, value)
    if moved:
        _tell(moved, to, changes, about or {})
    return moved


def _tell(
    moved: Sequence[Task],
    to: TaskState,
    changes: Mapping[str, Any],
    about: Mapping[int, Mapping[str, Any]],
) -> None:
    """Everybody who wants to know: the history, browsers, webhooks, the log and the meters."""
    data = {"status": moved[0].status.value}
    data |= {key: changes[key] for key in ("outcome", "reason", "detail") if changes.get(key)}
    events = [
        TaskEvent(task=task, seq=task.event_seq, kind=f"task.{to}", data=data) for task in moved
    ]
    TaskEvent.objects.bulk_create(events)
    announce.tasks_changed_on_commit(moved)
    if to == TaskState.FINISHED:
        own = [task for task in moved if task.purpose == Purpose.USER]
        tasks_ended([TaskEnd(t.pk, t.owner_id, t.outcome, t.reason) for t in own])
    for task in moved:
        facts = {"state": str(to), "outcome": task.outcome, "reason": task.reason}
        log.info("task_moved", **about.get(task.pk, {}), task=task.pk, **facts)
        TASK_MOVES.labels(str(to), task.outcome, task.reason).inc()


def _update(rows: QuerySet[Task], **changes: Any) -> dict[int, int]:
    """UPDATE rows; the new `event_seq` of each by its id.

    In one statement: a task is moved five times, and to read its row each time costs more than to
    write it. `QuerySet.update` returns no columns (Django's ticket 32406 asks for that).
    """
    query: Any = rows.query.chain(UpdateQuery)
    query.add_update_values(changes)
    try:
        sql, parameters = query.get_compiler(rows.db).as_sql()
    except EmptyResultSet:
        return {}  # no state leads there
    connection = connections[rows.db]
    wanted = ", ".join(map(connection.ops.quote_name, ("id", "event_seq")))
    with transaction.mark_for_rollback_on_error(using=rows.db), connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING {wanted}", parameters)
        return dict(cursor.fetchall())
