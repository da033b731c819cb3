"""What any socket is held to: who may open it, how many, how much it may say, how often."""

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
#: more frames, or more sockets, than anybody needs
TOO_MUCH = 4429
BAD_FRAME = 4400
#: characters of a frame; a page's has fewer than 100
MOST_SAID = 1000
NOT_LOGGED_IN = 4401
NOT_FOUND = 4404
#: the browser comes back, and is asked anew what it may see
OTHER_RIGHTS = 4403


class Pace:
    """So many frames at once, and so many each second after that; a leaky bucket."""

    def __init__(self, burst: float, per_s: float) -> None:
        self._burst, self._per_s = burst, per_s
        self._left, self._at = burst, time.monotonic()

    def has_room(self) -> bool:
        """Count one frame; False if it is one too many."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Places:
    """How many sockets each user has open in this process."""

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
    """Says nothing after its close: frames that were on their way are still handed to it."""

    is_closed = False

    async def close(self, code: int | bool | None = None, reason: str | None = None) -> None:
        if not self.is_closed:
            self.is_closed = True
            await super().close(code=code, reason=reason)

    async def send(
        self, text_data: str | None = None, bytes_data: bytes | None = None, close: bool = False
    ) -> None:
        if not self.is_closed:
            await super().send(text_data=text_data, bytes_data=bytes_data, close=close)


_PLACES = Places()


class BrowserConsumer(ClosesOnce, AsyncJsonWebsocketConsumer):
    """A socket that hears nothing more when its session or its reader's rights have ended.

    A page says little and seldom: what is long, binary or without end closes the socket.
    """

    has_place = False
    group = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Leave place and group, however it ends: an error ends it without `disconnect`."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self.has_place:
                _PLACES.give_back(scope["user"].pk)
            if self.group:
                await self.channel_layer.group_discard(self.group, self.channel_name)

    async def is_let_in(self) -> bool:
        """Accept the socket; close it at once where nobody is logged in, or too many are open."""
        await self.accept()
        user = self.scope["user"]
        if not user.is_authenticated:
            await self.close(code=NOT_LOGGED_IN)
            return False
        self.has_place = _PLACES.take(user.pk)
        if not self.has_place:
            await self.close(code=TOO_MUCH)
            return False
        self.pace = Pace(settings.READER_FRAMES_BURST, settings.READER_FRAMES_PER_S)
        return True

    async def join(self, group: str) -> None:
        self.group = group
        await self.channel_layer.group_add(group, self.channel_name)

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None, **kwargs: Any
    ) -> None:
        """A frame that is no JSON says nothing."""
        if self.is_closed:
            return
        if not self.pace.has_room():
            await self.close(code=TOO_MUCH)
        elif text_data is None or len(text_data) > MOST_SAID:
            await self.close(code=BAD_FRAME)
        else:
            try:
                content = json.loads(text_data)
            except (ValueError, RecursionError):
                return
            # an error of the answer is ours: it ends the socket, and the page comes back
            await self.receive_json(content)

    async def is_over(self) -> bool:
        """Close the socket of who is not logged in any more, or has other rights by now."""
        store = _SESSIONS.SessionStore(self.scope["session"].session_key)
        # asks for the rows anew: a password, a session or a whole user may be gone since
        user = await database_sync_to_async(get_user)(SimpleNamespace(session=store))
        opener = self.scope["user"]
        if (user.pk, user.is_staff) == (opener.pk, opener.is_staff):
            return False
        await self.close(code=OTHER_RIGHTS if user.pk == opener.pk else NOT_LOGGED_IN)
        return True


class NoSuchSocket(AsyncJsonWebsocketConsumer):
    """Answers an address at which there is nothing, instead of an error in the log."""

    async def connect(self) -> None:
        await self.close(code=NOT_FOUND)


class OwnPages:
    """Lets pages of this site alone open a browser's socket: their cookie goes along by itself."""

    def __init__(self, app: App) -> None:
        self.inner = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        origin = header(scope, b"origin")
        if origin and is_own_page(origin, host=header(scope, b"host")):
            return await self.inner(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


class NoPages:
    """Lets no page open an agent's socket: a program sends no Origin, or that of the site."""

    def __init__(self, app: App) -> None:
        self.inner = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        origin = header(scope, b"origin")
        if origin is None or origin == origin_of(settings.SITE_URL):
            return await self.inner(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


def header(scope: Any, name: bytes) -> str | None:
    """A header that stands once; empty if it stands more than once, None without it."""
    found = [value for key, value in scope["headers"] if key.lower() == name]
    if len(found) > 1:
        return ""
    return found[0].decode("latin-1") if found else None


def is_own_page(origin: str, *, host: str | None) -> bool:
    """Whether `origin` is where this site's pages come from.

    It is SITE_URL's, or that of the very host that is asked, if the site answers to it. The second
    origin that draws hostile files is none, although the site answers to its name too.
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
