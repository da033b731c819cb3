"""Batching of heartbeats, and the thread pool that handles agents' frames."""

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

#: name of the asyncio tasks that answer heartbeats
TASK_NAME = "heartbeats"


def in_thread(function: Callable[P, R]) -> "database_sync_to_async[P, R]":
    """Wrap a function to run in the thread pool for agents' frames.

    Frames of several agents are handled concurrently, so that one that waits for a lock or the disk
    does not delay the others. SQLite has a single writer, so there they run one after the other.
    """
    if connection.vendor == "sqlite" or not settings.AGENT_THREADS:
        return database_sync_to_async(function)
    return database_sync_to_async(function, thread_sensitive=False, executor=_threads())


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.AGENT_THREADS, thread_name_prefix="frames")


class Connection(Protocol):
    """The connection of one agent.

    worker: the worker to which the token belonged when it was last looked up
    """

    token: str
    worker: Worker | None

    async def authenticate(self) -> bool:
        """Look the token up; close the connection if it is no longer valid."""

    async def send_all(self, replies: gateway.Replies) -> None:
        """Send frames in this order, after those that are already being sent."""


class HeartbeatBatch:
    """Collects heartbeats of the connections of this process, and answers them together.

    This way the number of queries does not grow with the number of devices. If the process dies,
    the heartbeats of the last second are lost; a device may miss three heartbeats.
    """

    def __init__(self) -> None:
        self._running: dict[Connection, frozenset[UUID]] = {}
        self._first_at = timezone.now()
        self._answering: asyncio.Task[None] | None = None

    def add(self, connection: Connection, running: frozenset[UUID]) -> None:
        """Add a heartbeat; `running` are the attempts that the agent holds."""
        if not self._running:
            self._first_at = timezone.now()
        self._running[connection] = running
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer_later(), name=TASK_NAME)

    def remove_attempt(self, connection: Connection, attempt: UUID) -> None:
        """Forget that an agent holds an attempt, which ended after the heartbeat was sent."""
        if connection in self._running:
            self._running[connection] -= {attempt}

    def discard(self, connection: Connection) -> None:
        """Drop the heartbeat of a connection that is closed."""
        self._running.pop(connection, None)

    async def _answer_later(self) -> None:
        # this task inherits the log context of the connection that started it
        clear_contextvars()
        await asyncio.sleep(settings.HEARTBEAT_BATCH_S)
        running, self._running, self._answering = self._running, {}, None
        first_at = self._first_at
        try:
            await _answer_heartbeats(running, first_at)
        except Exception:
            # every agent sends another heartbeat soon
            log.exception("heartbeats_failed", agents=len(running))


_batches: "WeakKeyDictionary[asyncio.AbstractEventLoop, HeartbeatBatch]" = WeakKeyDictionary()


def heartbeat_batch() -> HeartbeatBatch:
    """Return the batch of the running event loop."""
    return _batches.setdefault(asyncio.get_running_loop(), HeartbeatBatch())


async def _answer_heartbeats(
    running: dict[Connection, frozenset[UUID]], first_at: datetime.datetime
) -> None:
    """Check all tokens, store all heartbeats, and send orders to the agents that need some."""
    digests = {connection: digest(connection.token) for connection in running}
    valid = await in_thread(valid_tokens)(digests.values())
    alive = {c: c.worker.pk for c in running if digests[c] in valid and c.worker}
    by_worker = {worker: running[connection] for connection, worker in alive.items()}
    replies = await in_thread(gateway.on_heartbeats)(by_worker, first_at)
    results = await asyncio.gather(
        *(connection.authenticate() for connection in running.keys() - alive.keys()),
        *(c.send_all(replies[worker]) for c, worker in alive.items() if worker in replies),
        return_exceptions=True,
    )
    # an error, such as a connection that was closed meanwhile, does not affect the others
    for error in results:
        if isinstance(error, BaseException):
            log.warning("heartbeat_not_answered", error=repr(error))
