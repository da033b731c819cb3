"""No request fills the disk: Django reads a body to its end before any view can look at it."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[..., Awaitable[None]]


class BodyLimit:
    """Hands on at most so many bytes of a body; what lies beyond is taken off the wire, not kept.

    limits: bytes by path, other paths have `limit_bytes`. A body that is announced as too long
    comes as an empty one, with its length still in the headers, so that the view can refuse it in
    the reader's words; one that turns out to be too long ends as a lost connection does.
    """

    def __init__(self, app: App, limit_bytes: int, limits: Mapping[str, int]) -> None:
        self.app, self.limit_bytes, self.limits = app, limit_bytes, limits

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            limit = self.limits.get(scope["path"], self.limit_bytes)
            receive = _without_body(receive) if _length(scope) > limit else _cut(receive, limit)
        await self.app(scope, receive, send)


def _length(scope: Any) -> int:
    """What the headers announce; 0 if they do not."""
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
