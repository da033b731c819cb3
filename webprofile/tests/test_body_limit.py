"""Tests of the size limit of request bodies in the ASGI application."""

import re
from pathlib import Path

import pytest

from webprofile.asgi import limits
from webprofile.body_limit import BodyLimit

ROOT = Path(__file__).parents[2]


class FakeConnection:
    """A client that sends chunks and disconnects, and an application that reads them."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.read = b""
        self.ended = ""

    async def receive(self):
        if not self.chunks:
            return {"type": "http.disconnect"}
        body = self.chunks.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(self.chunks)}

    async def app(self, scope, receive, send):
        has_more = True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.ended = "disconnect"
                return
            self.read += message["body"]
            has_more = message.get("more_body", False)
        self.ended = (await receive())["type"].removeprefix("http.")


async def send_through(
    connection: FakeConnection, *, path: str = "/", length: int | None = None
) -> None:
    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "path": path, "headers": headers}
    await BodyLimit(connection.app, 10, {"/large/": 20})(scope, connection.receive, None)


@pytest.mark.parametrize(("path", "size"), [("/", 10), ("/large/", 20)])
async def test_body_within_the_limit_is_passed_on(path, size):
    connection = FakeConnection(b"a" * 5, b"b" * (size - 5))
    await send_through(connection, path=path, length=size)
    assert (len(connection.read), connection.ended) == (size, "disconnect")


async def test_body_with_too_large_content_length_is_dropped():
    connection = FakeConnection(b"a" * 6, b"b" * 6)
    await send_through(connection, length=12)
    assert (connection.read, connection.ended, connection.chunks) == (b"", "disconnect", [])


async def test_body_beyond_the_limit_ends_as_a_disconnect():
    connection = FakeConnection(b"a" * 6, b"b" * 6, b"c" * 6)
    await send_through(connection)
    assert (connection.read, connection.ended) == (b"a" * 6, "disconnect")


async def test_other_scopes_are_passed_on():
    scopes = []

    async def app(scope, receive, send):
        scopes.append(scope["type"])

    await BodyLimit(app, 10, {})({"type": "lifespan"}, None, None)
    assert scopes == ["lifespan"]


def test_site_and_proxy_pass_on_the_same_large_forms():
    caddyfile = (ROOT / "docker" / "proxy" / "Caddyfile").read_text("utf-8")
    for matcher in ("@form path", "@small not path"):
        paths = re.findall(rf"{matcher} (.*)", caddyfile)
        assert [set(line.split()) for line in paths] == [set(limits)], matcher


def test_forms_with_files_have_the_large_limit():
    """The forms of pages that send files to the site."""
    pages = {"tasks/new.html": "/tasks/new/", "profiles/_open_form.html": "/profiles/opened/"}
    templates = ROOT / "templates"
    found = {
        str(path.relative_to(templates))
        for path in templates.rglob("*.html")
        if "multipart/form-data" in path.read_text("utf-8")
    }
    assert found == set(pages)
    assert set(pages.values()) == set(limits)
