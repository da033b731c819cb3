"""Outgoing messages: sent while connected, and repeated until acknowledged where required."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from agent.protocol.messages import (
    MAX_FRAME_BYTES,
    AgentMessage,
    AttemptAccepted,
    AttemptFinished,
    AttemptUploads,
    Uploads,
    encode,
)
from agent.protocol.notes import Note

log = logging.getLogger(__name__)

#: messages that the server answers
Request = AttemptAccepted | AttemptFinished | AttemptUploads
#: None is an acknowledgement, which has no content
Answer = Uploads | None

#: most bytes in a frame for the command lines, the end of the log, the notes and the detail
COMMAND_BYTES = 16 << 10
LOG_END_BYTES = 16 << 10
_NOTES_BYTES = 2 << 10
_VALUE_BYTES = 400
_DETAIL_BYTES = 4 << 10


class Unanswered(RuntimeError):
    """The server has not answered a request that was repeated the maximum number of times."""


@dataclass
class _PendingRequest:
    message: Request
    answer: asyncio.Future[Answer]
    sent_at: float = field(default_factory=time.monotonic)
    sent: int = 0


class Outbox:
    """Sends the messages of attempts, which outlive a connection, over the current connection.

    `generation` counts connections. Messages without acknowledgement (logs, `attempt.started`) are
    sent again from the beginning when it changes, because it is unknown which of them arrived.
    """

    def __init__(self, repeat_s: float) -> None:
        self.generation = 0
        self._repeat_s = repeat_s
        self._write: Callable[[str], None] | None = None
        self._requests: dict[tuple[str, UUID], _PendingRequest] = {}
        self._echoes: dict[UUID, Callable[[], None]] = {}

    def attach(self, write: Callable[[str], None]) -> None:
        """Use a new connection, and send all unanswered requests over it."""
        self._write = write
        self.generation += 1
        for send in self._echoes.values():
            send()
        for request in self._requests.values():
            self._send(request)

    def detach(self) -> None:
        """Stop using a closed connection: until the next one, posts are dropped, requests kept."""
        self._write = None

    def post(self, message: AgentMessage) -> None:
        """Send a message if connected, drop it otherwise."""
        if self._write is None:
            return
        frame = encode(message)
        if len(frame.encode()) > MAX_FRAME_BYTES:
            # the server would close the connection, and again after each reconnect
            log.error("frame_too_large type=%s bytes=%d", message.type, len(frame.encode()))
            return
        self._write(frame)

    def echo(self, attempt: UUID, send: Callable[[], None]) -> None:
        """Call `send` on each new connection, before requests are sent, until `forget_attempt`."""
        self._echoes[attempt] = send

    def ask(self, message: Request) -> asyncio.Future[Answer]:
        """Send a request until it is answered. A request that is already pending is not added."""
        key = (message.type, message.attempt)
        pending = self._requests.get(key)
        if pending is not None and not pending.answer.done():
            pending.message = message
            return pending.answer
        request = _PendingRequest(message, asyncio.get_running_loop().create_future())
        self._requests[key] = request
        self._send(request)
        return request.answer

    async def deliver(self, message: Request, *, most_repeats: int | None = None) -> Answer:
        """Send a request and wait for its answer, across connections.

        Raises Unanswered after `most_repeats` repetitions.
        """
        answer = self.ask(message)
        key = (message.type, message.attempt)
        try:
            while True:
                await asyncio.wait({answer}, timeout=self._repeat_s)
                if answer.done():
                    return answer.result()
                request = self._requests[key]
                if most_repeats is not None and request.sent > most_repeats:
                    raise Unanswered(message.type)
        finally:
            self._requests.pop(key, None)

    def answer(self, kind: str, attempt: UUID, answer: Answer = None) -> None:
        """Resolve a request with the server's answer; a second answer is ignored."""
        request = self._requests.pop((kind, attempt), None)
        if request is not None and not request.answer.done():
            request.answer.set_result(answer)

    def forget_attempt(self, attempt: UUID) -> None:
        """Drop what is still to be sent for an attempt whose end the server has acknowledged."""
        self._requests.pop(("attempt.accepted", attempt), None)
        self._echoes.pop(attempt, None)

    def repeat(self) -> None:
        """Send requests again that have been unanswered for `repeat_s`. Call this periodically."""
        due = time.monotonic() - self._repeat_s
        for request in self._requests.values():
            if request.sent_at <= due:
                self._send(request)

    def _send(self, request: _PendingRequest) -> None:
        if self._write is None:
            return
        request.sent_at = time.monotonic()
        request.sent += 1
        self.post(request.message)


def cut_to_bytes(text: str, most: int, *, keep_end: bool = False) -> str:
    """Return the beginning or the end of a text so that it takes at most `most` bytes in a frame.

    The length limits of fields count characters, but JSON encodes some characters as six bytes.
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
    """Shorten the texts of the message so that it fits into a frame.

    What explains the end of the attempt (`notes` and `detail`) is cut last. All other fields
    together fit into a frame because of their own limits.
    """
    end = end.model_copy(update={"notes": _fitting(end.notes)})
    bare = end.model_copy(update={"detail": "", "log_end": "", "command": ""})
    room = MAX_FRAME_BYTES - len(encode(bare).encode())
    detail = cut_to_bytes(end.detail, min(_DETAIL_BYTES, room))
    room -= _size(detail)
    log_end = cut_to_bytes(end.log_end, min(LOG_END_BYTES, room), keep_end=True)
    room -= _size(log_end)
    command = cut_to_bytes(end.command, min(COMMAND_BYTES, room))
    return end.model_copy(update={"detail": detail, "log_end": log_end, "command": command})


def _fitting(notes: tuple[Note, ...]) -> tuple[Note, ...]:
    """Return the first notes that have at most `_NOTES_BYTES` in total; at least one."""
    room, fitting = _NOTES_BYTES, list[Note]()
    for note in notes:
        if len(encode(note).encode()) > _NOTES_BYTES:
            values = {
                name: cut_to_bytes(value, _VALUE_BYTES) if isinstance(value, str) else value
                for name, value in note.values.items()
            }
            note = note.model_copy(update={"values": values})
        room -= len(encode(note).encode())
        if fitting and room < 0:
            break
        fitting.append(note)
    return tuple(fitting)


def _part(text: str, length: int, keep_end: bool) -> str:
    return text[len(text) - length :] if keep_end else text[:length]


def _size(text: str) -> int:
    """Return the size as a JSON string without the quotes; pydantic escapes as `json` does."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2
