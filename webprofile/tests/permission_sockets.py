"""Sockets as the seven people open them.

The coroutines run beside the test's thread, and what they ask of the database runs in it: so they
see rows that no other connection may see yet.
"""

from collections.abc import Sequence
from typing import Any

from asgiref.sync import async_to_sync
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.test import override_settings

from agent.protocol import (
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
from webprofile.tests.permission_world import World

AGENTS = "/ws/agent/"
SITE = "http://testserver"
HELLO = encode(Hello(agent_version="1", facts=FACTS, runtimes=RUNTIMES))
FOLLOW = '{"after": 0, "log_after": 0}'
PATIENCE_S = 20


def heard(
    world: World, person: str, address: str, *, origin: str = SITE, says: Sequence[str] = ()
) -> list[Any]:
    """What a socket answers to its opening and to what is said then: texts, or the code with which
    it closed. Frames on lines of one text get one answer.
    """
    credentials = world.credentials[person]
    headers = [(b"host", b"testserver")]
    # who asks for an agent's socket is a program: pages are refused before anything is looked at
    if origin and address != AGENTS:
        headers.append((b"origin", origin.encode()))
    if credentials.session:
        headers.append(
            (b"cookie", f"{settings.SESSION_COOKIE_NAME}={credentials.session}".encode())
        )
    if credentials.token:
        headers.append((b"authorization", f"Bearer {credentials.token}".encode()))
    with override_settings(AGENT_THREADS=0):
        return async_to_sync(_visit)(address, headers, [_opening(address), *says])


def reports(attempt: Any) -> list[str]:
    """All that an agent can say of an attempt, for `heard`."""
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
    """The word of the table for what was heard first."""
    known = {4401: "401" if address == AGENTS else "login", 4404: "404"}
    first = answers[0]
    return known.get(first, f"closed with {first}") if isinstance(first, int) else "ok"


def _opening(address: str) -> str:
    return HELLO if address == AGENTS else FOLLOW


async def _visit(address: str, headers: list[Any], says: Sequence[str]) -> list[Any]:
    socket = WebsocketCommunicator(application, address, headers=headers)
    is_open, code = await socket.connect(timeout=PATIENCE_S)
    if not is_open:
        return [code]
    answers = list[Any]()
    for text in says:
        for frame in text.splitlines():
            await socket.send_to(text_data=frame)
        event = await socket.receive_output(timeout=PATIENCE_S)
        if event["type"] == "websocket.close":
            return [*answers, event["code"]]
        answers.append(event["text"])
    await socket.disconnect(timeout=PATIENCE_S)
    return answers
