"""Channels consumers of browsers: live updates of a task's page and of the task list.

A wake-up carries no data: the consumer reads the rows after the last sequence number that the
browser has, so that a lost wake-up or connection loses no update.
"""

from typing import Any

from channels.db import database_sync_to_async
from structlog.contextvars import bind_contextvars

from tasks.lifecycle.wakeups import ALL_TASKS_GROUP, owner_group, task_group
from tasks.models import Task, TaskEvent
from tasks.selectors import (
    events_after,
    last_attempt,
    log_after,
    visible_tasks,
)
from webprofile.realtime.consumers import NOT_FOUND, BrowserConsumer


class TaskConsumer(BrowserConsumer):
    """Send the events and the log of one task, and continue as they grow.

    The browser starts with {"after": sequence number of an event, "log_after": id of a log chunk}.
    """

    task: Task
    event_seq = 0
    log_id = 0
    following = False
    #: passes of the last attempt, and how many have ended
    progress = (0, 0)

    async def connect(self) -> None:
        if not await self.is_let_in():
            return
        user = self.scope["user"]
        task_id = self.scope["url_route"]["kwargs"]["task_id"]
        task = await database_sync_to_async(
            lambda: visible_tasks(user).filter(pk=task_id).first()
        )()
        if task is None:
            await self.close(code=NOT_FOUND)
            return
        self.task = task
        bind_contextvars(task=task.pk, user=user.pk)
        await self.join(task_group(task.pk))

    async def receive_json(self, content: Any, **kwargs: Any) -> None:
        if not isinstance(content, dict) or not hasattr(self, "task") or await self.is_over():
            return
        self.event_seq = _number(content.get("after"))
        self.log_id = _number(content.get("log_after"))
        self.following = True
        await self._catch_up()

    async def task_changed(self, event: dict[str, Any]) -> None:
        if self.following and not await self.is_over():
            await self._catch_up()

    async def _catch_up(self) -> None:
        messages = await database_sync_to_async(self._new_messages)()
        for message in messages:
            await self.send_json(message)

    def _new_messages(self) -> list[dict[str, Any]]:
        """Return messages about events and log chunks not sent yet, and advance the positions."""
        events = [_event(event) for event in events_after(self.task, self.event_seq)]
        self.event_seq = events[-1]["seq"] if events else self.event_seq
        log: list[dict[str, Any]] = [
            {
                "type": "log",
                "id": chunk.pk,
                "attempt": chunk.attempt.number,
                "offset": chunk.offset,
                "text": chunk.text,
            }
            for chunk in log_after(self.task, self.log_id)
        ]
        self.log_id = log[-1]["id"] if log else self.log_id
        attempt = last_attempt(self.task)
        progress = (attempt.passes, attempt.passes_done) if attempt else (0, 0)
        if progress != self.progress:
            self.progress = progress
            log.append({"type": "progress"})
        return log + events


class TaskListConsumer(BrowserConsumer):
    """Tell a user's task list that one of its tasks changed; the page then fetches the rows."""

    async def connect(self) -> None:
        if not await self.is_let_in():
            return
        user = self.scope["user"]
        bind_contextvars(user=user.pk)
        await self.join(ALL_TASKS_GROUP if user.is_staff else owner_group(user.pk))
        # covers changes before the connection was open
        await self.send_json({"type": "changed"})

    async def task_changed(self, event: dict[str, Any]) -> None:
        if not await self.is_over():
            await self.send_json({"type": "changed"})


def _event(event: TaskEvent) -> dict[str, Any]:
    return {
        "type": "event",
        "task": event.task_id,
        "seq": event.seq,
        "state": event.kind.removeprefix("task."),
        "outcome": event.data.get("outcome", ""),
    }


def _number(value: Any) -> int:
    is_one = isinstance(value, int) and not isinstance(value, bool)
    return value if is_one and 0 < value < 2**63 else 0
