"""What the agent has to say: sent when connected, and what needs an answer until it has one."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from agent.protocol import (
    MAX_FRAME_BYTES,
    AgentMessage,
    AttemptAccepted,
    AttemptFinished,
    AttemptUploads,
    Uploads,
    encode,
)

log = logging.getLogger(__name__)

Asked = AttemptAccepted | AttemptFinished | AttemptUploads
#: an acknowledgement carries nothing
Answer = Uploads | None

#: of an attempt's command lines, and of what it printed last
COMMAND_BYTES = 16 << 10
LOG_END_BYTES = 16 << 10
_DETAIL_BYTES = 4 << 10


class Unanswered(RuntimeError):
    """The server heard the question often enough and did not answer."""


@dataclass
class _Question:
    message: Asked
    answer: asyncio.Future[Answer]
    sent_at: float = field(default_factory=time.monotonic)
    sent: int = 0


class Outbox:
    """Between the attempts, which outlive a connection, and the connection of the moment.

    `generation` counts connections: who sends without acknowledgement (logs, `started`) says it all
    again when the number has changed, since nobody knows what of it arrived.
    """

    def __init__(self, repeat_s: float) -> None:
        self.generation = 0
        self._repeat_s = repeat_s
        self._write: Callable[[str], None] | None = None
        self._questions: dict[tuple[str, UUID], _Question] = {}
        self._echoes: dict[UUID, Callable[[], None]] = {}

    def attach(self, write: Callable[[str], None]) -> None:
        """A connection is up: everything unanswered goes out again."""
        self._write = write
        self.generation += 1
        for say in self._echoes.values():
            say()
        for question in self._questions.values():
            self._send(question)

    def detach(self) -> None:
        """The connection is gone; what is posted from now on is dropped, what is asked is kept."""
        self._write = None

    def post(self, message: AgentMessage) -> None:
        """Send if connected, forget otherwise."""
        if self._write is None:
            return
        frame = encode(message)
        if len(frame.encode()) > MAX_FRAME_BYTES:
            # the server would close the connection, and again after each reconnect
            log.error("frame_too_large type=%s bytes=%d", message.type, len(frame.encode()))
            return
        self._write(frame)

    def echo(self, attempt: UUID, say: Callable[[], None]) -> None:
        """Call `say` over each new connection, before what is asked, until `forget_attempt`."""
        self._echoes[attempt] = say

    def ask(self, message: Asked) -> asyncio.Future[Answer]:
        """Send now and until answered. The same question asked twice has one answer."""
        key = (message.type, message.attempt)
        known = self._questions.get(key)
        if known is not None and not known.answer.done():
            known.message = message
            return known.answer
        question = _Question(message, asyncio.get_running_loop().create_future())
        self._questions[key] = question
        self._send(question)
        return question.answer

    async def deliver(self, message: Asked, *, most_repeats: int | None = None) -> Answer:
        """Wait for the answer, across connections. Raises Unanswered after `most_repeats`."""
        answer = self.ask(message)
        key = (message.type, message.attempt)
        try:
            while True:
                await asyncio.wait({answer}, timeout=self._repeat_s)
                if answer.done():
                    return answer.result()
                question = self._questions[key]
                if most_repeats is not None and question.sent > most_repeats:
                    raise Unanswered(message.type)
        finally:
            self._questions.pop(key, None)

    def answer(self, kind: str, attempt: UUID, answer: Answer = None) -> None:
        """The server answered; a second answer to the same question is dropped."""
        question = self._questions.pop((kind, attempt), None)
        if question is not None and not question.answer.done():
            question.answer.set_result(answer)

    def forget_attempt(self, attempt: UUID) -> None:
        """Its end is acknowledged: nothing about it has a meaning any more."""
        self._questions.pop(("attempt.accepted", attempt), None)
        self._echoes.pop(attempt, None)

    def repeat(self) -> None:
        """Say again what has waited for its answer for too long; call this every now and then."""
        due = time.monotonic() - self._repeat_s
        for question in self._questions.values():
            if question.sent_at <= due:
                self._send(question)

    def _send(self, question: _Question) -> None:
        if self._write is None:
            return
        question.sent_at = time.monotonic()
        question.sent += 1
        self.post(question.message)


def cut_to_bytes(text: str, most: int, *, keep_end: bool = False) -> str:
    """The begin of a text, or its end, that takes at most `most` bytes in a frame.

    Limits of fields count characters, but JSON writes some as six bytes.
    """
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(_part(text, middle, keep_end)) <= most:
            low = middle
        else:
            high = middle - 1
    return _part(text, low, keep_end)


def fit_end(end: AttemptFinished) -> AttemptFinished:
    """Cut its texts so that it fits into a frame; what does not say why it ended is cut first.

    All else together stays below a frame by the limits of its fields.
    """
    bare = end.model_copy(update={"detail": "", "log_end": "", "command": ""})
    room = MAX_FRAME_BYTES - len(encode(bare).encode())
    detail = cut_to_bytes(end.detail, min(_DETAIL_BYTES, room))
    room -= _size(detail)
    log_end = cut_to_bytes(end.log_end, min(LOG_END_BYTES, room), keep_end=True)
    room -= _size(log_end)
    command = cut_to_bytes(end.command, min(COMMAND_BYTES, room))
    return end.model_copy(update={"detail": detail, "log_end": log_end, "command": command})


def _part(text: str, length: int, keep_end: bool) -> str:
    return text[len(text) - length :] if keep_end else text[:length]


def _size(text: str) -> int:
    """Bytes within the quotes. Pydantic writes JSON as the standard library does here."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2
