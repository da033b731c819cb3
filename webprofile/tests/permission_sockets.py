"""Open WebSockets as each person of the permission table.

`async_to_sync` runs the database queries of the consumers in the thread of the test, so that they
see its uncommitted rows.
"""

from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import override_settings

from agent.protocol.messages import (
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    AttemptUploads,
    EndReason,
    FileOffer,
    Heartbeat,
    Hello,
    encode,
)
from tasks.tests.make import FACTS, MD5, RUNTIMES
from webprofile.asgi import application
from webprofile.tests.permission_site import PermissionSite

AGENTS = "/ws/agent/"
SITE = "http://testserver"
HELLO = encode(Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES))
FOLLOW = '{"after": 0, "log_after": 0}'
PATIENCE_S = 20


def exchange(
    site: PermissionSite,
    person: str,
    address: str,
    *,
    origin: str = SITE,
    texts: Sequence[str] = (),
) -> list[Any]:
    """Open a WebSocket, send frames and return its answers: texts, or the close code at the end.

    texts: each text is sent after the answer to the previous one; its lines are separate frames
        that get one answer together
    """
    credentials = site.credentials[person]
    headers = [(b"host", b"testserver")]
    # agents send no Origin header; with one the socket is refused before the token is checked
    if origin and address != AGENTS:
        headers.append((b"origin", origin.encode()))
    if credentials.session:
        headers.append(
            (b"cookie", f"{settings.SESSION_COOKIE_NAME}={credentials.session}".encode())
        )
    if credentials.token:
        headers.append((b"authorization", f"Bearer {credentials.token}".encode()))
    with override_settings(AGENT_THREADS=0):
        return async_to_sync(_visit)(address, headers, [_opening(address), *texts])


def reports(attempt: Any) -> list[str]:
    """Return all messages of an agent about an attempt, for `texts` of `exchange`."""
    files = (FileOffer(name="profile.json", size_bytes=1, md5=MD5),)
    silent = [
        AttemptStarted(attempt=attempt, at=0, command="anothers"),
        AttemptLog(attempt=attempt, seq=1, offset=0, size=8, text="anothers"),
    ]
    end = AttemptFinished(attempt=attempt, at=0, reason=EndReason.EXITED, exit_code=1)
    answered = [
        AttemptAccepted(attempt=attempt),
        AttemptUploads(attempt=attempt, files=files),
        Heartbeat(sent_at=0, running=frozenset({attempt})),
        end,
    ]
    first, *more = [encode(message) for message in answered]
    return ["\n".join([*(encode(message) for message in silent), first]), *more]


def word_of(answers: list[Any], address: str) -> str:
    """Return the word of the permission table for the first answer."""
    words = {4401: "401" if address == AGENTS else "login", 4404: "404"}
    first = answers[0]
    return words.get(first, f"closed with {first}") if isinstance(first, int) else "ok"


def _opening(address: str) -> str:
    return HELLO if address == AGENTS else FOLLOW


async def _visit(address: str, headers: list[Any], texts: Sequence[str]) -> list[Any]:
    socket = WebsocketCommunicator(application, address, headers=headers)
    is_open, code = await socket.connect(timeout=PATIENCE_S)
    if not is_open:
        return [code]
    answers = list[Any]()
    for text in texts:
        for frame in text.splitlines():
            await socket.send_to(text_data=frame)
        event = await socket.receive_output(timeout=PATIENCE_S)
        if event["type"] == "websocket.close":
            return [*answers, event["code"]]
        answers.append(event["text"])
    await socket.disconnect(timeout=PATIENCE_S)
    return answers
