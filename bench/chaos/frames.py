"""Frames of a websocket in the bytes of a connection, so that single ones can be lost or repeated.

RFC 6455, section 5.2. Only whole data frames are touched (agent and server send no fragments), so
both ends go on understanding each other. Anything that is no websocket goes through as it is.
"""

import random
from collections.abc import Callable

_HEAD_END = b"\r\n\r\n"
_TEXT, _BINARY = 1, 2

#: how often a frame is to be written: 0 loses it, 2 repeats it
Fate = Callable[[], int]


def always_once() -> int:
    return 1


def drawn_fate(seed: int, *, lost: float, repeated: float) -> Fate:
    """A fate of its own for each frame; `lost` and `repeated` are shares of all."""
    drawing = random.Random(seed)

    def fate() -> int:
        drawn = drawing.random()
        return 0 if drawn < lost else 2 if drawn < lost + repeated else 1

    return fate


class Frames:
    """One direction of one connection: bytes in, bytes out, whole frames at a time."""

    def __init__(self, websocket_head: bytes, fate: Callable[[], Fate]) -> None:
        """`websocket_head`: how the head of a connection that becomes a websocket begins.

        `fate` is asked before each frame: who lets frames get lost changes from time to time.
        """
        self._websocket_head, self._fate = websocket_head, fate
        self._buffer = b""
        self._is_framed: bool | None = None

    def feed(self, piece: bytes) -> bytes:
        """Return what is to be written now."""
        if self._is_framed is False:
            return piece
        self._buffer += piece
        if self._is_framed is None:
            return self._head()
        return self._whole_frames()

    def _head(self) -> bytes:
        start = self._buffer[: len(self._websocket_head)]
        if start != self._websocket_head[: len(start)]:
            self._is_framed = False
            passed, self._buffer = self._buffer, b""
            return passed
        head, separator, rest = self._buffer.partition(_HEAD_END)
        if not separator:
            return b""
        self._is_framed, self._buffer = True, rest
        return head + separator + self._whole_frames()

    def _whole_frames(self) -> bytes:
        out = bytearray()
        while (size := _frame_size(self._buffer)) is not None:
            frame, self._buffer = self._buffer[:size], self._buffer[size:]
            is_data = frame[0] & 0x0F in (_TEXT, _BINARY)
            out += frame * (self._fate()() if is_data else 1)
        return bytes(out)


def _frame_size(buffer: bytes) -> int | None:
    """The length of the frame that the buffer begins with; None while it is not whole."""
    if len(buffer) < 2:
        return None
    length, at = buffer[1] & 0x7F, 2
    if length >= 126:
        wide = 2 if length == 126 else 8
        if len(buffer) < at + wide:
            return None
        length, at = int.from_bytes(buffer[at : at + wide], "big"), at + wide
    size = at + (4 if buffer[1] & 0x80 else 0) + length
    return size if len(buffer) >= size else None
