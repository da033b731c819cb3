"""The outermost layer of the server: every request and socket gets an id, a log line, a count.

django-structlog does a part of this inside Django; sockets, static files and what the layers around
Django answer would be left out, and its lines hold whole addresses with their queries.
"""

import asyncio
import re
import signal
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from types import FrameType
from typing import Any

import structlog
from django.conf import settings

from webprofile.observability import counters, exposition

log = structlog.get_logger("access")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]

#: where `webprofile.observability.facts` leaves what it learns inside Django, for the log line
FACTS = "mgw.facts"
_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
#: nginx' number for a client that went before its answer
GONE = 499
#: the first part of a path; all others are "other"
_CLASSES = {
    "": "pages", "tasks": "tasks", "workers": "workers", "profiles": "profiles",
    "netron": "viewer", "perfetto": "viewer", "docs": "pages", "agent": "agent_files",
    "accounts": "accounts", "i18n": "pages", "admin": "admin", "static": "static",
    "favicon.ico": "static", "healthz": "probes", "readyz": "probes", "metrics": "probes",
}  # fmt: skip
_SOCKETS = {"agent": "agent", "tasks": "browser"}
#: asked every few seconds by machines: their answers say nothing new to who reads a log
QUIET = frozenset({"probes", "static", "heartbeats"})
#: keys of mails that let somebody in stand in the paths of these pages
_KEY = re.compile(r"(?<=/)[^/]{20,}")
#: s between two looks at the loop; a thousandth of a core on the machine that it was measured on
LOOP_EVERY_S = 0.5
_loop_watches: set[asyncio.Task[None]] = set()
_draining = threading.Event()
_heard_term: list[bool] = []


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
            counters.HTTP_SECONDS.labels(route).observe(took_s)
            counters.HTTP_RESPONSES.labels(route, str(status)).inc()
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
                counters.SOCKET_CLOSES.labels(kind, code).inc()
            await send(message)

        counters.SOCKETS_OPEN.labels(kind).inc()
        try:
            await self.app(scope, receive, send_noted)
        finally:
            counters.SOCKETS_OPEN.labels(kind).dec()
            log.info(
                "socket_closed",
                path=loggable(scope["path"]),
                open_s=round(time.perf_counter() - began, 1),
                **scope[FACTS],
            )


def _begin_process() -> None:
    """What a server process does once; a server without a lifespan begins at its first request."""
    if _watch_loop():
        exposition.forget_at_exit()
    listen_for_term()


async def _live(receive: Receive, send: Send) -> None:
    while (await receive())["type"] == "lifespan.startup":
        _begin_process()
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


def _id_of(scope: Any) -> str:
    """The id that a proxy gave, or one of our own."""
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _ID.fullmatch(given) else uuid.uuid4().hex


def _watch_loop() -> bool:
    """Measure how late the running loop comes from now on; whether nobody did before.

    What blocks it holds up every request and socket.
    """
    if any(task.get_loop() is asyncio.get_running_loop() for task in _loop_watches):
        return False
    task = asyncio.create_task(_measure_loop())
    _loop_watches.add(task)
    task.add_done_callback(_loop_watches.discard)
    return True


async def _measure_loop() -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LOOP_EVERY_S
        await asyncio.sleep(LOOP_EVERY_S)
        counters.LOOP_LAG_SECONDS.observe(max(0.0, loop.time() - due))


def is_draining() -> bool:
    return _draining.is_set()


def listen_for_term() -> None:
    """Stand before the server's own handler of TERM, once; called in the event loop.

    After TERM a process says that it is not ready, and serves on until proxies have heard it:
    uvicorn itself closes its listening socket at once, and a proxy that has not looked meanwhile
    sends requests into nothing.
    """
    if _heard_term or threading.current_thread() is not threading.main_thread():
        return
    theirs = signal.getsignal(signal.SIGTERM)
    if not callable(theirs):
        return  # no server: a test, or a command
    _heard_term.append(True)
    loop = asyncio.get_running_loop()

    def on_term(number: int, frame: FrameType | None) -> None:
        # asked twice, nobody waits
        is_first, pause_s = not _draining.is_set(), settings.DRAIN_S
        _draining.set()
        if is_first and pause_s > 0:
            loop.call_soon_threadsafe(lambda: loop.call_later(pause_s, theirs, number, None))
        else:
            theirs(number, frame)

    signal.signal(signal.SIGTERM, on_term)


# -- addresses in few classes: what metrics are told by, and what of a path may stand in a log ----


def route_class(path: str) -> str:
    """One of some twenty words for the address of a request."""
    if path.startswith("/api/"):
        if path == "/api/agent/heartbeat/":
            return "heartbeats"
        return "api_agent" if path.startswith("/api/agent/") else "api"
    return _CLASSES.get(path.split("/", 2)[1], "other") if path.startswith("/") else "other"


def socket_kind(path: str) -> str:
    """`agent`, `browser` or `other`."""
    parts = path.split("/", 3)
    return _SOCKETS.get(parts[2], "other") if parts[1:2] == ["ws"] and len(parts) > 2 else "other"


def loggable(path: str) -> str:
    """A path without keys, and of bounded length; the query never belongs into a log."""
    if path.startswith("/accounts/"):
        path = _KEY.sub("*", path)
    return path[:200]
