"""Tests of the size limit of request bodies in the ASGI application."""

import pytest

from webprofile.body_limit import BodyLimit


class Wire:
    """A client that sends pieces, then leaves; and an application that reads them all."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.read = b""
        self.ended = ""

    async def receive(self):
        if not self.pieces:
            return {"type": "http.disconnect"}
        body = self.pieces.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.pieces)}

    async def app(self, scope, receive, send):
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.ended = "disconnect"
                return
            self.read += message["body"]
            more = message.get("more_body", False)
        self.ended = (await receive())["type"].removeprefix("http.")


async def send_through(wire: Wire, *, path: str = "/", length: int | None = None) -> None:
    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "path": path, "headers": headers}
    await BodyLimit(wire.app, 10, {"/large/": 20})(scope, wire.receive, None)


@pytest.mark.parametrize(("path", "size"), [("/", 10), ("/large/", 20)])
async def test_a_body_within_the_limit_comes_whole(path, size):
    wire = Wire(b"a" * 5, b"b" * (size - 5))
    await send_through(wire, path=path, length=size)
    assert (len(wire.read), wire.ended) == (size, "disconnect")


async def test_a_body_that_is_announced_as_too_long_comes_empty_and_is_not_kept():
    wire = Wire(b"a" * 6, b"b" * 6)
    await send_through(wire, length=12)
    assert (wire.read, wire.ended, wire.pieces) == (b"", "disconnect", [])


async def test_a_body_that_turns_out_to_be_too_long_ends_as_a_lost_connection():
    wire = Wire(b"a" * 6, b"b" * 6, b"c" * 6)
    await send_through(wire)
    assert (wire.read, wire.ended) == (b"a" * 6, "disconnect")


async def test_what_is_no_request_passes():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    await BodyLimit(app, 10, {})({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]
