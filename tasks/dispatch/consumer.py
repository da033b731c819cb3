"""Channels consumer of the agents' socket: decode frames, batch heartbeats, send orders.

Heartbeats of all sockets of a process are answered together, other frames one by one.
"""

import asyncio
import datetime
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone
from pydantic import BaseModel, ValidationError
from structlog.contextvars import clear_contextvars

from agent.protocol.messages import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    AttemptFinished,
    CloseCode,
    Heartbeat,
    Hello,
    Start,
    decode_agent,
    encode,
)
from tasks.dispatch import gateway
from webprofile.errors import DomainError
from webprofile.observability.counters import AGENT_FRAMES
from webprofile.realtime.consumers import ClosesOnce, agent_pace
from workers.models import Worker
from workers.tokens import bearer_of, check_token, digest, valid_tokens, worker_group

P = ParamSpec("P")
R = TypeVar("R")

log = structlog.get_logger()

#: name of the asyncio tasks that answer heartbeats
TASK_NAME = "heartbeats"
#: RFC 6455, 7.4.1: the server met an unexpected condition
INTERNAL_ERROR = 1011
#: PostgreSQL's error code for a row that another transaction has locked (with NOWAIT)
LOCK_NOT_AVAILABLE = "55P03"
#: how long a message retries for a locked row before the connection is closed, s; the agent's
#: heartbeats wait behind the message
LOCKED_S = 5.0
AGAIN_S = 0.05
#: the JSON escape of NUL, which PostgreSQL's text cannot hold, but not an escaped backslash before
#: "u0000"
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
#: how long a start order is not sent again over this connection; shorter than
#: `gateway.ORDER_PATIENCE`, which counts from the creation of the attempt
_PATIENCE_S = 1.0
_CLOSE_CODES = {"token_unknown": CloseCode.UNKNOWN_TOKEN, "token_revoked": CloseCode.REVOKED_TOKEN}


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


class AgentConsumer(ClosesOnce):
    """The connection of one agent. Its token is checked again with each frame.

    Heartbeats are collected, and their tokens are checked together (`HeartbeatBatch`).
    """

    worker: Worker | None = None
    greeted = False
    token = ""
    #: close code of the peer; None if it is not known
    code: int | None = None
    _hello_due: "asyncio.Task[None] | None" = None

    async def connect(self) -> None:
        header = dict(self.scope["headers"]).get(b"authorization", b"")
        self.token = bearer_of(header.decode("latin-1"))
        self._opened_at = time.time()
        self._sending = asyncio.Lock()
        #: attempt -> when its start order was last sent (monotonic)
        self._started: dict[UUID, float] = {}
        # accepted even with an invalid token: only an open socket can carry a close code
        await self.accept()
        if await self.authenticate():
            self._hello_due = asyncio.create_task(self._await_hello())
            assert self.worker is not None
            await self.join(worker_group(self.worker.pk))
            await self.channel_layer.group_send(self.group, self._event("worker.connected"))

    def _event(self, kind: str) -> dict[str, Any]:
        return {"type": kind, "by": self.channel_name, "at": self._opened_at}

    async def _await_hello(self) -> None:
        """Close the connection if no valid Hello arrives in time."""
        await asyncio.sleep(settings.AGENT_HELLO_S)
        if not self.greeted:
            log.warning("agent_without_hello", worker=self.worker and self.worker.name)
            await self.close(code=CloseCode.BAD_FRAME)

    async def disconnect(self, code: int) -> None:
        self.code = code

    async def clean_up(self) -> None:
        if self._hello_due is not None:
            self._hello_due.cancel()
        if self.worker is not None:
            heartbeat_batch().discard(self)
            log.info("agent_disconnected", worker=self.worker.name, code=self.code)
        await super().clean_up()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.is_closed or self.worker is None:
            return
        if not agent_pace(self.worker.pk).has_room():
            log.warning("agent_says_too_much", worker=self.worker.name)
            await self.close(code=CloseCode.TOO_MUCH)
            return
        message = _decode(text_data)
        if message is None or (not self.greeted and not isinstance(message, Hello)):
            log.warning("agent_frame_refused", worker=self.worker.name)
            AGENT_FRAMES.labels("unreadable", "refused").inc()
            await self.close(code=CloseCode.BAD_FRAME)
        elif isinstance(message, Heartbeat):
            heartbeat_batch().add(self, message.running)
            AGENT_FRAMES.labels(message.type, "done").inc()
        elif isinstance(message, Hello) and message.protocol < PROTOCOL_VERSION:
            await self.close(code=CloseCode.TOO_OLD)
        else:
            if isinstance(message, AttemptFinished):
                heartbeat_batch().remove_attempt(self, message.attempt)
            await self._answer(message)

    async def _answer(self, message: BaseModel) -> None:
        kind: str = getattr(message, "type", "")
        if isinstance(message, Hello):
            # check the token first: a revoked one must not replace the connection of the valid
            # agent, since a replaced agent stops for good
            if not await self.authenticate():
                return
            # before any order is sent: two agents with one token would start the same attempt
            self.greeted = True
            await self.channel_layer.group_send(self.group, self._event("worker.replaced"))
        assert self.worker is not None
        about = {"worker": self.worker.name, "kind": kind}
        try:
            replies = await self._handle(message)
        except DomainError as error:
            if error.code in _CLOSE_CODES:
                await self.close(code=_CLOSE_CODES[error.code])
                return
            # nothing was changed; the agent repeats messages that were not acknowledged
            log.warning("agent_message_failed", code=error.code, **about)
            AGENT_FRAMES.labels(kind, "failed").inc()
            return
        except Exception:
            log.exception("agent_message_failed", **about)
            AGENT_FRAMES.labels(kind, "failed").inc()
            # the agent repeats some messages only after it reconnects
            await self.close(code=INTERNAL_ERROR)
            return
        AGENT_FRAMES.labels(kind, "done").inc()
        await self.send_all(replies)

    async def _handle(self, message: BaseModel) -> list[BaseModel]:
        """Handle a message; while its rows are locked, retry without occupying a thread."""
        deadline = time.monotonic() + LOCKED_S
        opened_at = datetime.datetime.fromtimestamp(self._opened_at, datetime.UTC)
        while True:
            try:
                replies: list[BaseModel] = await in_thread(gateway.handle)(
                    self.worker, message, self.token, opened_at
                )
            except OperationalError as error:
                is_locked = getattr(error.__cause__, "sqlstate", "") == LOCK_NOT_AVAILABLE
                if not is_locked or self.is_closed or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(AGAIN_S)
            else:
                return replies

    async def worker_poke(self, event: dict[str, Any]) -> None:
        """Handle a wake-up, which carries no data: send the orders that the rows require."""
        if self.greeted and self.worker is not None:
            try:
                orders = await in_thread(gateway.desired_state)(self.worker.pk)
            except Exception:
                # the next heartbeat on this socket is answered with the same orders
                log.exception("orders_not_found", worker=self.worker.pk)
                return
            await self.send_all(orders)

    async def worker_replaced(self, event: dict[str, Any]) -> None:
        """Close this connection if a newer one said Hello.

        The Hello of an older one may be answered late, when its agent has given it up and connected
        again: the agent would stop for good if the new connection was closed.
        """
        if self._precedes(event):
            await self.close(code=CloseCode.REPLACED)

    async def worker_connected(self, event: dict[str, Any]) -> None:
        """Close this connection if it has not said Hello and the device opened a newer one.

        A connection that said Hello stays until the newer one does, too: a newer connection that
        never does must not end one that works.
        """
        if self.greeted or self.is_closed:
            return
        if self._precedes(event):
            await self.close(code=CloseCode.BAD_FRAME)
        elif event["by"] != self.channel_name:
            # the older one joined the group after this one had announced itself
            await self.channel_layer.group_send(self.group, self._event("worker.connected"))

    def _precedes(self, event: dict[str, Any]) -> bool:
        """Whether this connection was opened before the one that an event is about."""
        return (self._opened_at, self.channel_name) < (event["at"], event["by"])

    async def worker_revoked(self, event: dict[str, Any]) -> None:
        """Handle the revocation of a token of this worker, which may be another than this one."""
        await self.authenticate()

    async def authenticate(self) -> bool:
        """Look the token up; close the connection if it is unknown or revoked."""
        try:
            self.worker = await in_thread(check_token)(self.token)
        except DomainError as error:
            await self.close(code=_CLOSE_CODES[error.code])
            return False
        return True

    async def send_all(self, replies: list[BaseModel]) -> None:
        # the lock keeps frames in order while a slow device receives earlier ones
        async with self._sending:
            for reply in replies:
                if not isinstance(reply, Start) or self._is_new(reply):
                    await self.send(encode(reply))

    def _is_new(self, order: Start) -> bool:
        """Whether a start order was not sent within the last `_PATIENCE_S`.

        The agent may not have accepted an earlier one yet.
        """
        now = time.monotonic()
        recent = {key: at for key, at in self._started.items() if now - at < _PATIENCE_S}
        self._started = {order.attempt: now} | recent
        return order.attempt not in recent


def _decode(text: str | None) -> Any:
    """Decode a frame; None if it is not a valid message."""
    if text is None or len(text.encode()) > MAX_FRAME_BYTES:
        return None
    try:
        return decode_agent(_NUL.sub(r"\1\\ufffd", text))
    except ValidationError:
        return None


class HeartbeatBatch:
    """Collects heartbeats of the connections of this process, and answers them together.

    This way the number of queries does not grow with the number of devices. If the process dies,
    the heartbeats of the last second are lost; a device may miss three heartbeats.
    """

    def __init__(self) -> None:
        self._running: dict[AgentConsumer, frozenset[UUID]] = {}
        self._first_at = timezone.now()
        self._answering: asyncio.Task[None] | None = None

    def add(self, connection: AgentConsumer, running: frozenset[UUID]) -> None:
        """Add a heartbeat; `running` are the attempts that the agent holds."""
        if not self._running:
            self._first_at = timezone.now()
        self._running[connection] = running
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer_later(), name=TASK_NAME)

    def remove_attempt(self, connection: AgentConsumer, attempt: UUID) -> None:
        """Forget that an agent holds an attempt, which ended after the heartbeat was sent."""
        if connection in self._running:
            self._running[connection] -= {attempt}

    def discard(self, connection: AgentConsumer) -> None:
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
    running: dict[AgentConsumer, frozenset[UUID]], first_at: datetime.datetime
) -> None:
    """Check all tokens, store all heartbeats, and send orders to the agents that need some."""
    digests = {connection: digest(connection.token) for connection in running}
    rows = valid_tokens(digests.values()).values_list("sha256", flat=True)
    valid = await in_thread(lambda: set(rows))()
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
