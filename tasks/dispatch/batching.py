"""Heartbeats, answered together; and the threads in which frames of agents are worked on."""

import asyncio
import datetime
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, Protocol, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import connection
from django.utils import timezone
from structlog.contextvars import clear_contextvars

from tasks.dispatch import gateway
from workers.models import Worker
from workers.tokens import digest, valid_tokens

P = ParamSpec("P")
R = TypeVar("R")

log = structlog.get_logger()

#: what the tasks that answer heartbeats are called
BEATS = "heartbeats"


def in_thread(act: Callable[P, R]) -> "database_sync_to_async[P, R]":
    """Several frames at a time, each of another agent: one that waits for a lock or the disk holds
    no other up. On SQLite one after the other: it has one writer.
    """
    if connection.vendor == "sqlite" or not settings.AGENT_THREADS:
        return database_sync_to_async(act)
    return database_sync_to_async(act, thread_sensitive=False, executor=_threads())


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.AGENT_THREADS, thread_name_prefix="frames")


class Connection(Protocol):
    """One device's: its token, and who it was when that was looked up last."""

    token: str
    worker: Worker | None

    async def authenticate(self) -> bool:
        """Look the token up; one that is not good ends the connection."""

    async def send_all(self, replies: gateway.Replies) -> None:
        """Say these, in this order, and after what is being said."""


class Beats:
    """The heartbeats that connections of this process said lately, to be answered together.

    So what a heartbeat costs the database does not grow with the number of devices. Those of a
    process that dies are lost, which is a second of the three heartbeats that a device may miss.
    """

    def __init__(self) -> None:
        self._held: dict[Connection, frozenset[UUID]] = {}
        self._said_at = timezone.now()
        self._answering: asyncio.Task[None] | None = None

    def add(self, connection: Connection, running: frozenset[UUID]) -> None:
        if not self._held:
            self._said_at = timezone.now()
        self._held[connection] = running
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer_soon(), name=BEATS)

    def ended(self, connection: Connection, attempt: UUID) -> None:
        """What was said before this attempt's end is not held against it."""
        if connection in self._held:
            self._held[connection] -= {attempt}

    def forget(self, connection: Connection) -> None:
        self._held.pop(connection, None)

    async def _answer_soon(self) -> None:
        # begun by one connection for all of them: its facts are not about what follows
        clear_contextvars()
        await asyncio.sleep(settings.BEATS_TOGETHER_S)
        held, self._held, self._answering = self._held, {}, None
        said_at = self._said_at
        try:
            await _answer_beats(held, said_at)
        except Exception:
            # each agent says the same again soon
            log.exception("heartbeats_failed", agents=len(held))


_beats: "WeakKeyDictionary[asyncio.AbstractEventLoop, Beats]" = WeakKeyDictionary()


def beats() -> Beats:
    """Those of the running event loop."""
    return _beats.setdefault(asyncio.get_running_loop(), Beats())


async def _answer_beats(
    held: dict[Connection, frozenset[UUID]], said_at: datetime.datetime
) -> None:
    """Look all tokens up, note all heartbeats, send orders to those who need some."""
    digests = {connection: digest(connection.token) for connection in held}
    valid = await in_thread(valid_tokens)(digests.values())
    alive = {each: each.worker.pk for each in held if digests[each] in valid and each.worker}
    running = {worker: held[each] for each, worker in alive.items()}
    replies = await in_thread(gateway.on_heartbeats)(running, said_at)
    done = await asyncio.gather(
        *(each.authenticate() for each in held.keys() - alive.keys()),
        *(each.send_all(replies[worker]) for each, worker in alive.items() if worker in replies),
        return_exceptions=True,
    )
    # one that was closed meanwhile keeps no other from its orders
    for error in done:
        if isinstance(error, BaseException):
            log.warning("heartbeat_not_answered", error=repr(error))
