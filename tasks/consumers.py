"""Browsers' sockets.

A wake-up says only that something changed; what changed is read from the rows, from the number on
that the browser saw last. So a lost wake-up or a lost connection loses nothing.
"""

import json
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from structlog.contextvars import bind_contextvars

from tasks.announce import ALL_TASKS_GROUP, owner_group, task_group
from tasks.models import Task, TaskEvent
from tasks.selectors import (
    events_after,
    last_attempt,
    log_after,
    tasks_visible_to,
)
from webprofile.sockets import BAD_FRAME, TOO_MUCH, ClosesOnce, Pace, Places

_SESSIONS = import_module(settings.SESSION_ENGINE)
_PLACES = Places()
#: characters of a frame; a page's has fewer than 100
MOST_SAID = 1000
NOT_LOGGED_IN = 4401
NOT_FOUND = 4404
#: the browser comes back, and is asked anew what it may see
OTHER_RIGHTS = 4403


class ReadersConsumer(ClosesOnce, AsyncJsonWebsocketConsumer):
    """A socket that hears nothing more when its session or its reader's rights have ended.

    A page says little and seldom: what is long, binary or without end closes the socket.
    """

    has_place = False
    group = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Leave place and group, however it ends: an error ends it without `disconnect`."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self.has_place:
                _PLACES.give_back(scope["user"].pk)
            if self.group:
                await self.channel_layer.group_discard(self.group, self.channel_name)

    async def is_let_in(self) -> bool:
        """Accept the socket; close it at once where nobody is logged in, or too many are open."""
        await self.accept()
        user = self.scope["user"]
        if not user.is_authenticated:
            await self.close(code=NOT_LOGGED_IN)
            return False
        self.has_place = _PLACES.take(user.pk)
        if not self.has_place:
            await self.close(code=TOO_MUCH)
            return False
        self.pace = Pace(settings.READER_FRAMES_BURST, settings.READER_FRAMES_PER_S)
        return True

    async def join(self, group: str) -> None:
        self.group = group
        await self.channel_layer.group_add(group, self.channel_name)

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any
    ) -> None:
        """A frame that is no JSON says nothing."""
        if self.is_closed:
            return
        if not self.pace.has_room():
            await self.close(code=TOO_MUCH)
        elif text_data is None or len(text_data) > MOST_SAID:
            await self.close(code=BAD_FRAME)
        else:
            try:
                content = json.loads(text_data)
            except (ValueError, RecursionError):
                return
            # an error of the answer is ours: it ends the socket, and the page comes back
            await self.receive_json(content)

    async def is_over(self) -> bool:
        """Close the socket of who is not logged in any more, or has other rights by now."""
        store = _SESSIONS.SessionStore(self.scope["session"].session_key)
        # asks for the rows anew: a password, a session or a whole user may be gone since
        user = await database_sync_to_async(get_user)(SimpleNamespace(session=store))
        opener = self.scope["user"]
        if (user.pk, user.is_staff) == (opener.pk, opener.is_staff):
            return False
        await self.close(code=OTHER_RIGHTS if user.pk == opener.pk else NOT_LOGGED_IN)
        return True


class TaskConsumer(ReadersConsumer):
    """Events and log of one task, each after the number that the browser names:
    {"after": event number, "log_after": log piece's id}. The page fetches what it shows of them.
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
            lambda: tasks_visible_to(user).filter(pk=task_id).first()
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
        messages = await database_sync_to_async(self._news)()
        for message in messages:
            await self.send_json(message)

    def _news(self) -> list[dict[str, Any]]:
        """What came after the numbers seen last; moves them on."""
        news = [_event(event) for event in events_after(self.task, self.event_seq)]
        self.event_seq = news[-1]["seq"] if news else self.event_seq
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
        return log + news


class TaskListConsumer(ReadersConsumer):
    """Tells a user's list that one of its tasks changed; the page then fetches its rows."""

    async def connect(self) -> None:
        if not await self.is_let_in():
            return
        user = self.scope["user"]
        bind_contextvars(user=user.pk)
        await self.join(ALL_TASKS_GROUP if user.is_staff else owner_group(user.pk))
        # whatever changed while there was no connection is in the rows that the page fetches now
        await self.send_json({"type": "changed"})

    async def task_changed(self, event: dict[str, Any]) -> None:
        if not await self.is_over():
            await self.send_json({"type": "changed"})


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Answers an address at which there is nothing, instead of an error in the log."""

    async def connect(self) -> None:
        await self.close(code=NOT_FOUND)


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
