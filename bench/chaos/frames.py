"""Drop or repeat single WebSocket frames in the byte stream of a connection.

Frames are as in RFC 6455, section 5.2. Only whole data frames are dropped or repeated (agent and
server send no fragments), so the stream stays valid for both ends. A connection that is not
upgraded to a WebSocket passes unchanged.
"""

import random
from collections.abc import Callable

_HEAD_END = b"\r\n\r\n"
_TEXT, _BINARY = 1, 2

#: how many copies of a frame are written: 0 drops it, 2 repeats it
Fate = Callable[[], int]


def always_once() -> int:
    return 1


def drawn_fate(seed: int, *, lost: float, repeated: float) -> Fate:
    """Draw a fate for each frame. `lost` and `repeated` are probabilities."""
    rng = random.Random(seed)

    def fate() -> int:
        draw = rng.random()
        return 0 if draw < lost else 2 if draw < lost + repeated else 1

    return fate


class Frames:
    """Filter for one direction of one connection, which emits whole frames."""

    def __init__(self, websocket_head: bytes, fate: Callable[[], Fate]) -> None:
        """`websocket_head`: the first bytes of the HTTP head of a connection that is upgraded.

        `fate` is called before each frame, because the fate changes during a run.
        """
        self._websocket_head, self._fate = websocket_head, fate
        self._buffer = b""
        self._is_framed: bool | None = None

    def feed(self, piece: bytes) -> bytes:
        """Take received bytes and return those to forward now."""
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
    """Return the length of the first frame in the buffer, or None while it is incomplete."""
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
