"""Request ids, access log, metrics and draining: the outermost ASGI layer.

django-structlog does a part of this inside Django. It would miss sockets, static files and
responses of the layers around Django, and it logs whole URLs with their queries.
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
from django.http import HttpRequest, HttpResponse

from webprofile.observability import counters, exposition

log = structlog.get_logger("access")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]

#: key of the ASGI scope with further fields of the access line (`note`)
_FACTS = "mgw.facts"
#: URL parameters and their log fields
_URL_FIELDS = {"task_id": "task", "profile_id": "profile", "upload_id": "upload"}
_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
#: nginx's status for a client that closed the connection before the response
GONE = 499
#: route class by the first segment of a path; all others are "other"
_CLASSES = {
    "": "pages", "tasks": "tasks", "workers": "workers", "profiles": "profiles",
    "netron": "viewer", "perfetto": "viewer", "docs": "pages", "agent": "agent_files",
    "s": "shares", "accounts": "accounts", "i18n": "pages", "admin": "admin", "static": "static",
    "favicon.ico": "static", "healthz": "probes", "readyz": "probes", "metrics": "probes",
}  # fmt: skip
_SOCKETS = {"agent": "agent", "tasks": "browser"}
#: route classes that machines request every few seconds: logged at DEBUG unless they fail
QUIET = frozenset({"probes", "static", "heartbeats"})
#: the token of a share link, which follows `/s/`
_TOKEN = re.compile(r"(?<=^/s/)[^/]+")
#: login keys of e-mails in the paths of account pages
_KEY = re.compile(r"(?<=/)[^/]{20,}")
#: interval of the event loop measurement; it costs 0.1 % of a core
LOOP_EVERY_S = 0.5
_loop_watches: set[asyncio.Task[None]] = set()
_draining = threading.Event()
_heard_term: list[bool] = []


class RequestMiddleware:
    """ASGI middleware that counts, times and logs requests and sockets."""

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
        scope = {**scope, _FACTS: facts}
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
                **scope[_FACTS],
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
                **scope[_FACTS],
            )


def _begin_process() -> None:
    """Set up metrics and the TERM handler once; without lifespan events at the first request."""
    if _watch_loop():
        exposition.forget_at_exit()
    listen_for_term()


async def _live(receive: Receive, send: Send) -> None:
    while (await receive())["type"] == "lifespan.startup":
        _begin_process()
        await send({"type": "lifespan.startup.complete"})
    await send({"type": "lifespan.shutdown.complete"})


def _id_of(scope: Any) -> str:
    """Return the request id from a proxy, or a new one."""
    request_id = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return request_id if _ID.fullmatch(request_id) else uuid.uuid4().hex


def _watch_loop() -> bool:
    """Start measuring the lag of the running event loop; return False if it is measured already.

    A blocked event loop delays all requests and sockets.
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
    """Wrap the server's handler of TERM, once; call it in the event loop.

    After TERM the process reports that it is not ready and serves for DRAIN_S more seconds, until
    proxies have noticed. uvicorn itself closes its listening socket at once, so the requests that
    proxies send until then would fail. A second TERM skips the delay.
    """
    if _heard_term or threading.current_thread() is not threading.main_thread():
        return
    server_handler = signal.getsignal(signal.SIGTERM)
    if not callable(server_handler):
        return  # not a server, but a test or a command
    _heard_term.append(True)
    loop = asyncio.get_running_loop()

    def on_term(number: int, frame: FrameType | None) -> None:
        is_first, pause_s = not _draining.is_set(), settings.DRAIN_S
        _draining.set()
        if is_first and pause_s > 0:
            loop.call_soon_threadsafe(
                lambda: loop.call_later(pause_s, server_handler, number, None)
            )
        else:
            server_handler(number, frame)

    signal.signal(signal.SIGTERM, on_term)


class FactsMiddleware:
    """Bind the user's id and the object's id to all log lines of a request and to its access line.

    E-mail addresses are never logged.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        finally:
            structlog.contextvars.unbind_contextvars("user", *_URL_FIELDS.values())

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        fields = {_URL_FIELDS[name]: value for name, value in kwargs.items() if name in _URL_FIELDS}
        # requests of agents, probes and API clients have no session to load
        if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.pk is not None:
            fields["user"] = request.user.pk
        note(request, **fields)


def note(request: HttpRequest, **facts: Any) -> None:
    """Bind log fields of a request, also for the access line that `RequestMiddleware` writes."""
    structlog.contextvars.bind_contextvars(**facts)
    getattr(request, "scope", {}).get(_FACTS, {}).update(facts)


# -- route classes for metrics, and paths for the log ----


def route_class(path: str) -> str:
    """Return the route class of a path, one of about twenty."""
    if path.startswith("/api/"):
        if path == "/api/agent/heartbeat/":
            return "heartbeats"
        return "api_agent" if path.startswith("/api/agent/") else "api"
    return _CLASSES.get(path.split("/", 2)[1], "other") if path.startswith("/") else "other"


def socket_kind(path: str) -> str:
    """Return `agent`, `browser` or `other`."""
    parts = path.split("/", 3)
    return _SOCKETS.get(parts[2], "other") if parts[1:2] == ["ws"] and len(parts) > 2 else "other"


def loggable(path: str) -> str:
    """Return a path without login keys and tokens of links, at most 200 characters.

    Queries are never logged.
    """
    if path.startswith("/s/"):
        path = _TOKEN.sub("*", path)
    if path.startswith("/accounts/"):
        path = _KEY.sub("*", path)
    return path[:200]
