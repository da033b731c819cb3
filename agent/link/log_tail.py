"""The log of a run: read from the file the process writes to, cut into chunks to send.

The log is text: what the process printed, decoded as UTF-8 with replacement, the middle left out if
it is long, without a terminal's colours: MegEngine's Python logger prints them into a file, too.
Offsets and sizes count bytes of this text, so that all chunks joined are `log.txt`.
"""

import codecs
import re
from dataclasses import dataclass
from pathlib import Path

from agent.protocol.run_log import ESCAPE

CHUNK_BYTES = 8 * 1024
#: of a log that passes the limit, this much of the end is kept
END_BYTES = 64 * 1024
_BLOCK = 64 * 1024
#: load_and_run prints this before it warms up
QUIET_BEGIN = "going to warmup"
#: heads each pass of several
PASS_HEAD = "==== pass "
#: a line longer than this is not one of load_and_run's
_LINE_CHARACTERS = 1000
#: an escape sequence (`ESCAPE`) that may go on in what is printed next
_BEGUN = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}|\][^\x07\x1b]{0,200}\x1b?)?\Z")


@dataclass(frozen=True)
class Chunk:
    """`seq` counts from 1; `offset` and `size` in bytes of the log."""

    seq: int
    offset: int
    size: int
    text: str


class _Plain:
    """Takes escape sequences out of a text that comes in pieces."""

    def __init__(self) -> None:
        self._begun = ""

    def take(self, piece: str, *, final: bool = False) -> str:
        """The piece without them; what may be the begin of one is kept for the next piece."""
        text = self._begun + piece
        begun = None if final else _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        return ESCAPE.sub("", text.removesuffix(self._begun))


class LogTail:
    """Follow a growing file. `chunks` only grows; nothing here waits.

    `quiet` from the first warm-up on: what follows is released when its process has ended
    (`release`), also the loading of further passes, which is a part of what is measured. Not with
    `is_script`: what a script says of itself means nothing, and nothing is measured that sending
    could disturb.
    """

    def __init__(self, path: Path, limit_bytes: int, *, is_script: bool = False) -> None:
        self.chunks: list[Chunk] = []
        self.quiet = False
        self._path, self._limit = path, limit_bytes
        self._is_script = is_script
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._plain = _Plain()
        self._position = 0
        self._offset = 0
        self._line = ""
        self._held: list[str] = []

    def read(self) -> None:
        """Take what is new in the file; from the first warm-up on, hold it back."""
        try:
            if self._path.stat().st_size <= self._position or self._position >= self._limit:
                return
            with self._path.open("rb") as source:
                source.seek(self._position)
                while block := source.read(min(_BLOCK, self._limit - self._position)):
                    self._position += len(block)
                    self._take(self._plain.take(self._decoder.decode(block)))
        except FileNotFoundError:
            return
        if not self.quiet:
            self._cut()

    def release(self) -> None:
        """A process has ended and the next one was not started: take all that it printed."""
        self.read()
        self._cut()

    def finish(self) -> None:
        """The last process has ended: take the rest, or its end if the log is too long."""
        self.read()
        self._held.append(self._plain.take(self._decoder.decode(b"", final=True), final=True))
        self._held.append(self._end())
        self.quiet = False
        self._cut()

    def text(self) -> str:
        """The whole log as far as it was released."""
        return "".join(chunk.text for chunk in self.chunks)

    def _end(self) -> str:
        size = self._path.stat().st_size if self._path.exists() else 0
        if size <= self._position:
            return ""
        with self._path.open("rb") as source:
            source.seek(max(self._position, size - END_BYTES))
            # a character may be cut at the begin: its further bytes are 10xxxxxx
            raw = source.read(END_BYTES).lstrip(bytes(range(0x80, 0xC0)))
        note = f"\n[log truncated at {self._limit} bytes: {size} were printed, the end follows]\n"
        return note + ESCAPE.sub("", raw.decode("utf-8", errors="replace"))

    def _take(self, text: str) -> None:
        """Hold the text, and see from its lines whether the model warms up."""
        self._held.append(text)
        skip = self.quiet or self._is_script
        for piece in () if skip else text.splitlines(keepends=True):
            self._line = (self._line + piece)[-_LINE_CHARACTERS:]
            if QUIET_BEGIN in self._line:
                self.quiet = True
                return
            if piece.endswith(("\n", "\r")):
                self._line = ""

    def _cut(self) -> None:
        """Cut what is held into chunks."""
        raw = "".join(self._held).encode()
        self._held.clear()
        begin = 0
        while begin < len(raw):
            end = min(begin + CHUNK_BYTES, len(raw))
            while end < len(raw) and raw[end] & 0xC0 == 0x80:
                end -= 1
            self._add(raw[begin:end])
            begin = end

    def _add(self, raw: bytes) -> None:
        self.chunks.append(Chunk(len(self.chunks) + 1, self._offset, len(raw), raw.decode("utf-8")))
        self._offset += len(raw)
