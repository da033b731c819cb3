"""One connection of an agent: who it is, what it says, what it is told."""

import asyncio
import re
import time
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import OperationalError
from pydantic import BaseModel, ValidationError

from agent.protocol import (
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
from tasks.dispatch.batching import beats, in_thread
from webprofile.errors import DomainError
from webprofile.observability.counters import AGENT_FRAMES
from webprofile.realtime.consumers import ClosesOnce, Pace
from workers.models import Worker
from workers.tokens import bearer_of, check_token
from workers.wakeups import worker_group

log = structlog.get_logger()

#: RFC 6455, 7.4.1: the server met an unexpected condition
INTERNAL_ERROR = 1011
#: PostgreSQL's code of a row that another transaction has locked
LOCK_NOT_AVAILABLE = "55P03"
#: how long a message waits for such a row before the connection ends, s; heartbeats stand behind it
LOCKED_S = 5.0
AGAIN_S = 0.05
#: a NUL as JSON writes it, and not a backslash before "u0000": no text of PostgreSQL can hold one
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
#: shorter than what a heartbeat waits, which counts from the row (`gateway.ORDER_PATIENCE`)
_PATIENCE_S = 1.0
_CLOSE_CODES = {"token_unknown": CloseCode.UNKNOWN_TOKEN, "token_revoked": CloseCode.REVOKED_TOKEN}


class AgentConsumer(ClosesOnce):
    """One connection of one agent. Its token is looked up again for each of its frames.

    That of heartbeats a moment later, together with others' (`Beats`).
    """

    worker: Worker | None = None
    greeted = False
    token = ""

    async def connect(self) -> None:
        header = dict(self.scope["headers"]).get(b"authorization", b"")
        self.token = bearer_of(header.decode("latin-1"))
        self.pace = Pace(settings.AGENT_FRAMES_BURST, settings.AGENT_FRAMES_PER_S)
        self._speaking = asyncio.Lock()
        #: when its latest orders were sent
        self._ordered: dict[UUID, float] = {}
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
            if isinstance(message, AttemptFinished):
                beats().ended(self, message.attempt)
            await self._answer(message)

    async def _answer(self, message: BaseModel) -> None:
        kind: str = getattr(message, "type", "")
        if isinstance(message, Hello):
            # a void token must not end the good agent: who is replaced stops for good
            if not await self.authenticate():
                return
            await self._replace_others()
        assert self.worker is not None
        about = {"worker": self.worker.name, "kind": kind}
        try:
            replies = await self._handle(message)
        except DomainError as error:
            if error.code in _CLOSE_CODES:
                await self.close(code=_CLOSE_CODES[error.code])
                return
            # nothing was changed; the agent repeats what was not acknowledged
            log.warning("agent_message_failed", code=error.code, **about)
            AGENT_FRAMES.labels(kind, "failed").inc()
            return
        except Exception:
            log.exception("agent_message_failed", **about)
            AGENT_FRAMES.labels(kind, "failed").inc()
            # not all of it is said again over this connection, but over a new one
            await self.close(code=INTERNAL_ERROR)
            return
        AGENT_FRAMES.labels(kind, "done").inc()
        await self.send_all(replies)

    async def _handle(self, message: BaseModel) -> list[BaseModel]:
        """Do what a message asks for; while its rows are locked try again, and hold no thread."""
        deadline = time.monotonic() + LOCKED_S
        while True:
            try:
                replies: list[BaseModel] = await in_thread(gateway.handle)(
                    self.worker, message, self.token
                )
            except OperationalError as error:
                is_locked = getattr(error.__cause__, "sqlstate", "") == LOCK_NOT_AVAILABLE
                if not is_locked or self.is_closed or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(AGAIN_S)
            else:
                return replies

    async def _replace_others(self) -> None:
        """Before any order is given, or two programs with one token would begin it."""
        self.greeted = True
        replaced = {"type": "worker.replaced", "by": self.channel_name}
        await self.channel_layer.group_send(self._group, replaced)

    async def worker_poke(self, event: dict[str, Any]) -> None:
        """A poke carries nothing, since the channel layer may drop it: look at the rows."""
        if self.greeted and self.worker is not None:
            try:
                orders = await in_thread(gateway.desired_state)(self.worker.pk)
            except Exception:
                # the next heartbeat is answered with the same orders
                log.exception("orders_not_found", worker=self.worker.pk)
                return
            await self.send_all(orders)

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
            self.worker = await in_thread(check_token)(self.token)
        except DomainError as error:
            await self.close(code=_CLOSE_CODES[error.code])
            return False
        return True

    async def send_all(self, replies: list[BaseModel]) -> None:
        # a device may be slow to listen, and what is said to it keeps its order
        async with self._speaking:
            for reply in replies:
                if not isinstance(reply, Start) or self._is_news(reply):
                    await self.send(encode(reply))

    def _is_news(self, order: Start) -> bool:
        """Whether it was not sent here just now: whoever is woken again may not have accepted it
        yet.
        """
        now = time.monotonic()
        lately = {key: at for key, at in self._ordered.items() if now - at < _PATIENCE_S}
        self._ordered = {order.attempt: now} | lately
        return order.attempt not in lately


def _decode(text: str | None) -> Any:
    """A message, or None for a frame that is none."""
    if text is None or len(text.encode()) > MAX_FRAME_BYTES:
        return None
    try:
        return decode_agent(_NUL.sub(r"\1\\ufffd", text))
    except ValidationError:
        return None
