"""The only function that changes a task's state: a compare-and-swap that also writes the event."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import structlog
from django.db import connections, router, transaction
from django.utils import timezone

from accounts.webhooks.events import add_task_deliveries
from tasks.lifecycle import wakeups
from tasks.models import Purpose, Task, TaskEvent
from tasks.states import ENTERED_FROM, TaskState
from webprofile.observability.counters import TASK_MOVES
from workers.models import Worker

log = structlog.get_logger()


# no savepoint: no caller continues its transaction after an error in here
@transaction.atomic(savepoint=False)
def transition_if(
    task: Task,
    to: TaskState,
    sources: Iterable[TaskState],
    *,
    only: Mapping[str, Any] | None = None,
    may_wait: bool = True,
    about: Mapping[str, Any] | None = None,
    **changes: Any,
) -> bool:
    """Move a task to state `to` if it is in one of `sources`; return whether it was moved.

    changes: columns written in the same UPDATE
    only: columns that must have these values for the UPDATE to match
    may_wait: whether to wait for locks that other transactions hold on the task or its worker;
        if False, a locked task is not moved
    about: further fields of the log record

    Of two concurrent callers, the one whose UPDATE matches the row wins, and its `task` has the
    written values. The other caller's `task` is refreshed from the database.
    """
    now = timezone.now()
    if to == TaskState.FINISHED:
        changes["finished_at"] = now
    changes["updated_at"] = now
    allowed = set(sources) & ENTERED_FROM[to]
    seq = _update(task.pk, allowed, only or {}, may_wait=may_wait, state=str(to), **changes)
    if seq is None:
        with suppress(Task.DoesNotExist):  # deleted meanwhile
            task.refresh_from_db()
        return False
    task.state, task.event_seq = str(to), seq
    for name, value in changes.items():
        setattr(task, name, value)
    _publish(task, to, changes, about or {})
    return True


def add_event(task: Task, kind: str, data: Mapping[str, Any]) -> None:
    """Record a change that counted `event_seq` up, and tell browsers about it."""
    data = {"status": task.status.value, **data}
    TaskEvent.objects.create(task=task, seq=task.event_seq, kind=kind, data=data)
    wakeups.task_changed_on_commit(task)


def _publish(
    task: Task, to: TaskState, changes: Mapping[str, Any], about: Mapping[str, Any]
) -> None:
    """Record a transition as a task event and in log and metrics; notify browsers and webhooks."""
    details = {
        key: changes[key] for key in ("outcome", "reason", "notes", "detail") if changes.get(key)
    }
    add_event(task, f"task.{to}", details)
    if to == TaskState.FINISHED and task.purpose == Purpose.USER:
        add_task_deliveries(task.pk, task.owner_id, task.outcome, task.reason)
    facts = {"state": str(to), "outcome": task.outcome, "reason": task.reason}
    log.info("task_state_changed", **about, task=task.pk, **facts)
    TASK_MOVES.labels(str(to), task.outcome, task.reason).inc()


def _update(
    pk: int,
    states: Collection[TaskState],
    only: Mapping[str, Any],
    *,
    may_wait: bool,
    **changes: Any,
) -> int | None:
    """UPDATE the row if its state is in `states` and its columns match `only`.

    Returns the new `event_seq`, or None if no row matched. This is raw SQL because
    `QuerySet.update` has no RETURNING clause (Django ticket 32406) and reading the row after each
    of a task's five transitions costs more than writing it. Column names come from the model's
    fields; every value is a parameter.
    """
    if not states:
        return None
    connection = connections[router.db_for_write(Task)]
    quote = connection.ops.quote_name
    table = quote(Task._meta.db_table)

    def assignments(columns: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
        fields: list[Any] = [Task._meta.get_field(name) for name in columns]
        values = zip(fields, columns.values(), strict=True)
        return (
            [f"{quote(field.column)} = %s" for field in fields],
            [field.get_db_prep_save(value, connection) for field, value in values],
        )

    set_, set_to = assignments(changes)
    where, equal_to = assignments(only)
    row = "%s"
    if not may_wait and connection.features.has_select_for_update_skip_locked:
        workers = quote(Worker._meta.db_table)
        row = (
            f"(SELECT task.id FROM {table} task JOIN {workers} worker ON worker.id = task.worker_id"
            " WHERE task.id = %s FOR NO KEY UPDATE OF task SKIP LOCKED"
            " FOR KEY SHARE OF worker SKIP LOCKED)"
        )
    marks = ", ".join(["%s"] * len(states))
    sql = (
        f"UPDATE {table} SET {', '.join(set_)}, event_seq = event_seq + 1"
        f" WHERE {' AND '.join([f'id = {row}', f'state IN ({marks})', *where])}"
        " RETURNING event_seq"
    )
    with (
        transaction.mark_for_rollback_on_error(using=connection.alias),
        connection.cursor() as cursor,
    ):
        cursor.execute(sql, [*set_to, pk, *map(str, states), *equal_to])
        updated = cursor.fetchone()
    return None if updated is None else int(updated[0])
