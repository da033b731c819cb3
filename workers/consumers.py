"""The agent's socket: frames become calls of the gateway, its answers become frames."""

import asyncio
import datetime
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ParamSpec, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import connection
from django.utils import timezone
from pydantic import BaseModel, ValidationError
from structlog.contextvars import clear_contextvars

from agent.protocol import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    AttemptFinished,
    CloseCode,
    Heartbeat,
    Hello,
    decode_agent,
    encode,
)
from webprofile.errors import DomainError
from webprofile.meters import AGENT_FRAMES
from webprofile.sockets import ClosesOnce, Pace
from workers import gateway
from workers.announce import worker_group
from workers.models import Worker
from workers.tokens import digest, token_check, tokens_valid

log = structlog.get_logger()

P = ParamSpec("P")
R = TypeVar("R")

#: a NUL as JSON writes it, and not a backslash before "u0000": no text of PostgreSQL can hold one
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
_CLOSE_CODES = {"token_unknown": CloseCode.UNKNOWN_TOKEN, "token_revoked": CloseCode.REVOKED_TOKEN}


class AgentConsumer(ClosesOnce):
    """One connection of one agent. Its token is looked up again for each of its frames.

    That of heartbeats a moment later, together with others' (`Beats`).
    """

    worker: Worker | None = None
    greeted = False
    token = ""

    async def connect(self) -> None:
        self.token = _bearer(self.scope["headers"])
        self.pace = Pace(settings.AGENT_FRAMES_BURST, settings.AGENT_FRAMES_PER_S)
        # accepted in any case: only an open socket can tell the agent, by close code, what is wrong
        await self.accept()
        if await self.authenticate():
            await self.channel_layer.group_add(self._group, self.channel_name)

    async def disconnect(self, code: int) -> None:
        if self.worker is not None:
            beats().forget(self)
            await self.channel_layer.group_discard(self._group, self.channel_name)
            log.info("agent_disconnected", worker=self.worker.name, code=code)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.is_closed or self.worker is None:
            return
        if not self.pace.has_room():
            log.warning("agent_says_too_much", worker=self.worker.name)
            await self.close(code=CloseCode.TOO_MUCH)
            return
        message = _decode(text_data)
        if message is None or (not self.greeted and not isinstance(message, Hello)):
            log.warning("agent_frame_refused", worker=self.worker.name)
            AGENT_FRAMES.labels("unreadable", "refused").inc()
            await self.close(code=CloseCode.BAD_FRAME)
        elif isinstance(message, Heartbeat):
            beats().add(self, message.running)
            AGENT_FRAMES.labels(message.type, "done").inc()
        elif isinstance(message, Hello) and message.protocol < PROTOCOL_VERSION:
            await self.close(code=CloseCode.TOO_OLD)
        else:
            await self._answer(message)

    async def _answer(self, message: BaseModel) -> None:
        kind: str = getattr(message, "type", "")
        if isinstance(message, Hello):
            # a void token must not end the good agent: who is replaced stops for good
            if not await self.authenticate():
                return
            await self._replace_others()
        elif isinstance(message, AttemptFinished):
            beats().ended(self, message.attempt)
        try:
            replies = await _in_thread(_handle)(self.token, message)
        except DomainError as error:
            if error.code in _CLOSE_CODES:
                await self.close(code=_CLOSE_CODES[error.code])
                return
            # nothing was changed; the agent repeats what was not acknowledged
            name = self.worker and self.worker.name
            log.warning("agent_message_failed", code=error.code, worker=name, kind=kind)
            AGENT_FRAMES.labels(kind, "failed").inc()
            return
        AGENT_FRAMES.labels(kind, "done").inc()
        await self.send_all(replies)

    async def _replace_others(self) -> None:
        """Before any order is given, or two programs with one token would begin it."""
        self.greeted = True
        replaced = {"type": "worker.replaced", "by": self.channel_name}
        await self.channel_layer.group_send(self._group, replaced)

    async def worker_poke(self, event: dict[str, Any]) -> None:
        """A poke carries nothing, since the channel layer may drop it: look at the rows."""
        if self.greeted and self.worker is not None:
            await self.send_all(await _in_thread(gateway.desired_state)(self.worker.pk))

    async def worker_replaced(self, event: dict[str, Any]) -> None:
        if event["by"] != self.channel_name:
            await self.close(code=CloseCode.REPLACED)

    async def worker_revoked(self, event: dict[str, Any]) -> None:
        """Some token of this device is void; that of an agent that enrolled anew is not."""
        await self.authenticate()

    @property
    def _group(self) -> str:
        return worker_group(self.worker.pk if self.worker else 0)

    async def authenticate(self) -> bool:
        """Look the token up; one that is not good ends the connection."""
        try:
            self.worker = await _in_thread(token_check)(self.token)
        except DomainError as error:
            await self.close(code=_CLOSE_CODES[error.code])
            return False
        return True

    async def send_all(self, replies: list[BaseModel]) -> None:
        for reply in replies:
            await self.send(encode(reply))


class Beats:
    """The heartbeats that connections of this process said lately, to be answered together.

    So what a heartbeat costs the database does not grow with the number of devices. Those of a
    process that dies are lost, which is a second of the three heartbeats that a device may miss.
    """

    def __init__(self) -> None:
        self._held: dict[AgentConsumer, frozenset[UUID]] = {}
        self._said_at = timezone.now()
        self._answering: asyncio.Task[None] | None = None

    def add(self, connection: AgentConsumer, running: frozenset[UUID]) -> None:
        if not self._held:
            self._said_at = timezone.now()
        self._held[connection] = running
        if self._answering is None:
            self._answering = asyncio.create_task(self._answer_soon())

    def ended(self, connection: AgentConsumer, attempt: UUID) -> None:
        """What was said before this attempt's end is not held against it."""
        if connection in self._held:
            self._held[connection] -= {attempt}

    def forget(self, connection: AgentConsumer) -> None:
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
    held: dict[AgentConsumer, frozenset[UUID]], said_at: datetime.datetime
) -> None:
    """Look all tokens up, note all heartbeats, send orders to those who need some."""
    digests = {connection: digest(connection.token) for connection in held}
    valid = await _in_thread(tokens_valid)(digests.values())
    alive = {each: each.worker.pk for each in held if digests[each] in valid and each.worker}
    running = {worker: held[each] for each, worker in alive.items()}
    replies = await _in_thread(gateway.on_heartbeats)(running, said_at)
    done = await asyncio.gather(
        *(each.authenticate() for each in held.keys() - alive.keys()),
        *(each.send_all(replies[worker]) for each, worker in alive.items() if worker in replies),
        return_exceptions=True,
    )
    # one that was closed meanwhile keeps no other from its orders
    for error in done:
        if isinstance(error, BaseException):
            log.warning("heartbeat_not_answered", error=repr(error))


def _in_thread(act: Callable[P, R]) -> "database_sync_to_async[P, R]":
    """Several frames at a time, each of another agent: one that waits for a lock or the disk holds
    no other up. On SQLite one after the other: it has one writer.
    """
    if connection.vendor == "sqlite" or not settings.AGENT_THREADS:
        return database_sync_to_async(act)
    return database_sync_to_async(act, thread_sensitive=False, executor=_threads())


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings.AGENT_THREADS, thread_name_prefix="frames")


def _handle(token: str, message: BaseModel) -> gateway.Replies:
    """Look the token up and do what a frame asks for: in one go, on one thread."""
    return gateway.handle(token_check(token), message)


def _decode(text: str | None) -> Any:
    """A message, or None for a frame that is none."""
    if text is None or len(text.encode()) > MAX_FRAME_BYTES:
        return None
    try:
        return decode_agent(_NUL.sub(r"\1\\ufffd", text))
    except ValidationError:
        return None


def _bearer(headers: list[tuple[bytes, bytes]]) -> str:
    value = dict(headers).get(b"authorization", b"").decode("latin-1")
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
