"""Base classes of WebSocket consumers: origin checks, access, and limits on sockets and frames."""

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncJsonWebsocketConsumer, AsyncWebsocketConsumer
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth import get_user
from django.http.request import split_domain_port, validate_host

from webprofile.origins import origin_of

_SESSIONS = import_module(settings.SESSION_ENGINE)
App = Callable[[Any, Any, Any], Awaitable[Any]]
#: close code for too many frames or sockets
TOO_MUCH = 4429
BAD_FRAME = 4400
#: longest frame in characters; frames of our pages have fewer than 100
FRAME_LIMIT = 1000
NOT_LOGGED_IN = 4401
NOT_FOUND = 4404
#: close code for changed permissions; the browser reconnects and the permissions are checked again
OTHER_RIGHTS = 4403


class Pace:
    """Token bucket: allow `burst` frames at once, refilled with `per_s` frames per second."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._left, self._at = burst, time.monotonic()

    def has_room(self, frames: float = 1) -> bool:
        """Count one frame, or what takes as long as several; False if the limit is exceeded."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        frames = min(frames, self._burst)
        if self._left < frames:
            return False
        self._left -= frames
        return True


class Paces:
    """A `Pace` for each sender, which survives that the sender connects again.

    At most `limit` senders are remembered, those that were silent for longest are forgotten.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._paces: dict[int, Pace] = {}

    def of(self, sender: int, burst: float, per_s: float) -> Pace:
        pace = self._paces.pop(sender, None) or Pace(burst, per_s)
        self._paces[sender] = pace
        if len(self._paces) > self._limit:
            self._paces.pop(next(iter(self._paces)), None)
        return pace


class SocketCounter:
    """Count the open sockets of each user in this process, at most `SOCKETS_PER_USER`."""

    def __init__(self) -> None:
        self._open: Counter[int] = Counter()

    def take(self, user_id: int) -> bool:
        if self._open[user_id] >= settings.SOCKETS_PER_USER:
            return False
        self._open[user_id] += 1
        return True

    def give_back(self, user_id: int) -> None:
        self._open[user_id] -= 1
        if self._open[user_id] <= 0:
            del self._open[user_id]


class ClosesOnce(AsyncWebsocketConsumer):
    """A consumer that sends nothing after its close, and leaves its group at its end.

    Frames that were already received are still passed to a consumer after it closed its socket.
    """

    is_closed = False
    group = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Run the consumer, then clean up.

        `disconnect` is not called after an error, such as a frame that is sent to a peer that has
        gone.
        """
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.clean_up()

    async def join(self, group: str) -> None:
        self.group = group
        await self.channel_layer.group_add(group, self.channel_name)

    async def clean_up(self) -> None:
        """Leave the group."""
        if self.group:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def close(self, code: int | bool | None = None, reason: str | None = None) -> None:
        if not self.is_closed:
            self.is_closed = True
            await super().close(code=code, reason=reason)

    async def send(
        self, text_data: str | None = None, bytes_data: bytes | None = None, close: bool = False
    ) -> None:
        if not self.is_closed:
            await super().send(text_data=text_data, bytes_data=bytes_data, close=close)


_OPEN_SOCKETS = SocketCounter()
_AGENT_PACES = Paces()


def agent_pace(worker: int) -> Pace:
    """Return the limit of an agent's frames, on its sockets and by HTTP, in this process."""
    return _AGENT_PACES.of(worker, settings.AGENT_FRAMES_BURST, settings.AGENT_FRAMES_PER_S)


class BrowserConsumer(ClosesOnce, AsyncJsonWebsocketConsumer):
    """Base of a browser's consumer, which can check whether session and permissions still hold.

    Pages send few and short frames: a long or binary frame, or too many frames, close the socket.
    """

    is_counted = False

    async def clean_up(self) -> None:
        if self.is_counted:
            _OPEN_SOCKETS.give_back(self.scope["user"].pk)
        await super().clean_up()

    async def is_let_in(self) -> bool:
        """Accept the socket; close it and return False without a login or with too many sockets."""
        await self.accept()
        user = self.scope["user"]
        if not user.is_authenticated:
            await self.close(code=NOT_LOGGED_IN)
            return False
        self.is_counted = _OPEN_SOCKETS.take(user.pk)
        if not self.is_counted:
            await self.close(code=TOO_MUCH)
            return False
        self.pace = Pace(settings.READER_FRAMES_BURST, settings.READER_FRAMES_PER_S)
        return True

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any
    ) -> None:
        """Pass a JSON frame to `receive_json`; ignore other text, close on a violated limit."""
        if self.is_closed:
            return
        if not self.pace.has_room():
            await self.close(code=TOO_MUCH)
        elif text_data is None or len(text_data) > FRAME_LIMIT:
            await self.close(code=BAD_FRAME)
        else:
            try:
                content = json.loads(text_data)
            except (ValueError, RecursionError):
                return
            # an exception here is a bug: it closes the socket, and the page reconnects
            await self.receive_json(content)

    async def is_over(self) -> bool:
        """Close the socket and return True if the login ended or the permissions changed."""
        store = _SESSIONS.SessionStore(self.scope["session"].session_key)
        # reads the rows again: password, session or user may have changed or been deleted
        user = await database_sync_to_async(get_user)(SimpleNamespace(session=store))
        opener = self.scope["user"]
        if (user.pk, user.is_staff) == (opener.pk, opener.is_staff):
            return False
        await self.close(code=OTHER_RIGHTS if user.pk == opener.pk else NOT_LOGGED_IN)
        return True


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Close sockets of unknown paths with 4404, instead of logging an error."""

    async def connect(self) -> None:
        await self.close(code=NOT_FOUND)


class OwnPages:
    """Reject sockets from pages of other sites, since the browser sends the cookie with them."""

    def __init__(self, app: App) -> None:
        self.inner = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        origin = header(scope, b"origin")
        if origin and is_own_page(origin, host=header(scope, b"host")):
            return await self.inner(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


class NoPages:
    """Reject an agent's socket that a page opens: browsers send an Origin, agents do not."""

    def __init__(self, app: App) -> None:
        self.inner = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        if header(scope, b"origin") is None:
            return await self.inner(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


def header(scope: Any, name: bytes) -> str | None:
    """Return the value of a header: empty if it occurs more than once, None if it is missing."""
    values = [value for key, value in scope["headers"] if key.lower() == name]
    if len(values) > 1:
        return ""
    return values[0].decode("latin-1") if values else None


def is_own_page(origin: str, *, host: str | None) -> bool:
    """Return whether `origin` is an origin of this site's pages.

    It is the origin of SITE_URL or that of the requested host, if ALLOWED_HOSTS contains the host.
    NETRON_ORIGIN, which serves the viewers of untrusted files, is not an origin of pages.
    """
    site = origin_of(settings.SITE_URL)
    if origin == site:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if origin == settings.NETRON_ORIGIN or not host or parts.netloc.lower() != host.lower():
        return False
    if site.startswith("https:") and parts.scheme != "https":
        return False
    allowed = settings.ALLOWED_HOSTS or (["localhost", "127.0.0.1"] if settings.DEBUG else [])
    return validate_host(split_domain_port(host)[0], allowed)
