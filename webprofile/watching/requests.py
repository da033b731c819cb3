"""The outermost layer of the server: every request and socket gets an id, a log line, a count.

django-structlog does a part of this inside Django; sockets, static files and what the layers around
Django answer would be left out, and its lines hold whole addresses with their queries.
"""

import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import structlog

from webprofile import meters
from webprofile.watching import draining, exposition, loop
from webprofile.watching.routes import QUIET, loggable, route_class, socket_kind

log = structlog.get_logger("access")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]

#: where `webprofile.watching.facts` leaves what it learns inside Django, for the line at the end
FACTS = "mgw.facts"
_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
#: nginx' number for a client that went before its answer
GONE = 499


class Watched:
    """An ASGI application that is counted, timed and logged."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        _begin_process()
        structlog.contextvars.clear_contextvars()
        request_id = _id_of(scope)
        structlog.contextvars.bind_contextvars(request_id=request_id)
        facts: dict[str, Any] = {}
        scope = {**scope, FACTS: facts}
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self._request(scope, receive, send, request_id)

    async def _request(self, scope: Any, receive: Receive, send: Send, request_id: str) -> None:
        status, began = GONE, time.perf_counter()

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self.app(scope, receive, send_noted)
        finally:
            took_s, route = time.perf_counter() - began, route_class(scope["path"])
            meters.HTTP_SECONDS.labels(route).observe(took_s)
            meters.HTTP_RESPONSES.labels(route, str(status)).inc()
            say = log.debug if route in QUIET and status < 400 else log.info
            say(
                "request_answered",
                method=scope["method"],
                path=loggable(scope["path"]),
                status=status,
                ms=round(took_s * 1000, 1),
                **scope[FACTS],
            )

    async def _socket(self, scope: Any, receive: Receive, send: Send) -> None:
        kind, began = socket_kind(scope["path"]), time.perf_counter()

        async def send_noted(message: Message) -> None:
            if message["type"] == "websocket.close":
                code = str(message.get("code", 1000))
                meters.SOCKET_CLOSES.labels(kind, code).inc()
            await send(message)

        meters.SOCKETS_OPEN.labels(kind).inc()
        try:
            await self.app(scope, receive, send_noted)
        finally:
            meters.SOCKETS_OPEN.labels(kind).dec()
            log.info(
                "socket_closed",
                path=loggable(scope["path"]),
                open_s=round(time.perf_counter() - began, 1),
                **scope[FACTS],
            )


def _begin_process() -> None:
    """What a server process does once; a server without a lifespan begins at its first request."""
    if loop.watch():
        exposition.forget_at_exit()
    draining.listen()


async def _live(receive: Receive, send: Send) -> None:
    while (await receive())["type"] == "lifespan.startup":
        _begin_process()
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


def _id_of(scope: Any) -> str:
    """The id that a proxy gave, or one of our own."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _ID.fullmatch(given) else uuid.uuid4().hex
