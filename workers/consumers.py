"""The agent's socket: frames become calls of the gateway, its answers become frames."""

from typing import Any

import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from pydantic import BaseModel, ValidationError

from agent.protocol import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    CloseCode,
    Hello,
    decode_agent,
    encode,
)
from webprofile.errors import DomainError
from workers import gateway
from workers.announce import worker_group
from workers.models import Worker
from workers.tokens import token_check

log = structlog.get_logger()

_CLOSE_CODES = {"token_unknown": CloseCode.UNKNOWN_TOKEN, "token_revoked": CloseCode.REVOKED_TOKEN}


class AgentConsumer(AsyncWebsocketConsumer):
    """One connection of one agent. The token is checked again with each frame that changes rows."""

    worker: Worker | None = None
    greeted = False
    token = ""

    async def connect(self) -> None:
        self.token = _bearer(self.scope["headers"])
        # accepted in any case: only an open socket can tell the agent, by close code, what is wrong
        await self.accept()
        if await self._authenticate():
            await self.channel_layer.group_add(self._group, self.channel_name)

    async def disconnect(self, code: int) -> None:
        if self.worker is not None:
            await self.channel_layer.group_discard(self._group, self.channel_name)
            log.info("agent_disconnected", worker=self.worker.name, code=code)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if not await self._authenticate():
            return
        message = _decode(text_data)
        if message is None or (not self.greeted and not isinstance(message, Hello)):
            log.warning("agent_frame_refused", worker=self.worker and self.worker.name)
            await self.close(code=CloseCode.BAD_FRAME)
            return
        if isinstance(message, Hello):
            if message.protocol < PROTOCOL_VERSION:
                await self.close(code=CloseCode.TOO_OLD)
                return
            self.greeted = True
            await self.channel_layer.group_send(
                self._group, {"type": "worker.replaced", "by": self.channel_name}
            )
        # joined again with each frame: the layer forgets members that joined long ago
        await self.channel_layer.group_add(self._group, self.channel_name)
        try:
            replies = await database_sync_to_async(gateway.handle)(self.worker, message)
        except DomainError as error:
            # nothing was changed; the agent repeats what was not acknowledged
            log.warning("agent_message_failed", kind=message.type, code=error.code)
            return
        await self._send_all(replies)

    async def worker_poke(self, event: dict[str, Any]) -> None:
        """A poke carries nothing, since the channel layer may drop it: look at the rows."""
        if self.greeted:
            await self._send_all(await database_sync_to_async(gateway.desired_state)(self.worker))

    async def worker_replaced(self, event: dict[str, Any]) -> None:
        if event["by"] != self.channel_name:
            await self.close(code=CloseCode.REPLACED)

    async def worker_revoked(self, event: dict[str, Any]) -> None:
        await self.close(code=CloseCode.REVOKED_TOKEN)

    @property
    def _group(self) -> str:
        return worker_group(self.worker.pk if self.worker else 0)

    async def _authenticate(self) -> bool:
        """Look the token up: a revoked one ends the connection at its next frame."""
        try:
            self.worker = await database_sync_to_async(token_check)(self.token)
        except DomainError as error:
            await self.close(code=_CLOSE_CODES[error.code])
            return False
        return True

    async def _send_all(self, replies: list[BaseModel]) -> None:
        for reply in replies:
            await self.send(encode(reply))


def _decode(text: str | None) -> Any:
    """A message, or None for a frame that is none."""
    if text is None or len(text.encode()) > MAX_FRAME_BYTES:
        return None
    try:
        return decode_agent(text)
    except ValidationError:
        return None


def _bearer(headers: list[tuple[bytes, bytes]]) -> str:
    value = dict(headers).get(b"authorization", b"").decode("latin-1")
    scheme, _, token = value.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
