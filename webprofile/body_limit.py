"""ASGI middleware that limits request bodies, which Django would store on disk as a whole."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]


class BodyLimit:
    """Pass on at most `limit_bytes` bytes of a body; discard the rest.

    limits: limits in bytes by path; other paths have `limit_bytes`

    If Content-Length is above the limit, the body is replaced by an empty one and the header stays,
    so that the view can return a translated error. A body without that header that exceeds the
    limit ends like a lost connection.
    """

    def __init__(self, app: App, limit_bytes: int, limits: Mapping[str, int]) -> None:
        self.app, self.limit_bytes, self.limits = app, limit_bytes, limits

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            limit = self.limits.get(scope["path"], self.limit_bytes)
            receive = _without_body(receive) if _length(scope) > limit else _cut(receive, limit)
        await self.app(scope, receive, send)


def _length(scope: Any) -> int:
    """Return the Content-Length of a request, 0 if it has none."""
    for name, value in scope["headers"]:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _without_body(receive: Receive) -> Receive:
    is_first = True

    async def receive_none() -> Message:
        nonlocal is_first
        if is_first:
            is_first = False
            return {"type": "http.request", "body": b"", "more_body": False}
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return message

    return receive_none


def _cut(receive: Receive, limit_bytes: int) -> Receive:
    left = limit_bytes

    async def receive_some() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return receive_some
