"""Follow the log of a run in the file that the process writes to, and split it into chunks.

The log is the output of the process, decoded as UTF-8 with replacement characters. Terminal escape
sequences are removed, since MegEngine's Python logger prints colours into files, too. The middle of
a long log is left out. Offsets and sizes count bytes of the resulting text, so that the
concatenation of all chunks is `log.txt`.
"""

import codecs
import re
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path

from agent.protocol.run_log import ESCAPE

CHUNK_BYTES = 8 * 1024
#: size of the end that is kept of a log over the limit
END_BYTES = 64 * 1024
_BLOCK = 64 * 1024
#: load_and_run prints this before the warm-up
QUIET_BEGIN = "going to warmup"
#: begin of the heading of each process, if there are several: the page shows the log by them
STEP_HEAD = "==== "
#: load_and_run prints no longer lines
_LINE_CHARACTERS = 1000
#: JSON escapes them with two characters, other controls with six
_SHORT = b'"\\\b\f\n\r\t'
#: an incomplete escape sequence (`ESCAPE`) at the end of a block
_INCOMPLETE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}|\][^\x07\x1b]{0,200}\x1b?)?\Z")


@dataclass(frozen=True)
class Chunk:
    """A chunk of the log. `seq` counts from 1; `offset` and `size` are in bytes of the log."""

    seq: int
    offset: int
    size: int
    text: str


class LogTail:
    """Reads a growing log file and appends to `chunks`. No method blocks for new output.

    `quiet` is set at the first warm-up. From then on, output is held back until the process has
    ended (`release`), so that sending it does not disturb the measurement; this includes the
    loading phase of further passes, which is measured, too. Logs of scripts (`is_script`) are never
    held back: their output is not trusted to announce a warm-up, and no iterations are timed.
    """

    def __init__(self, path: Path, limit_bytes: int, *, is_script: bool = False) -> None:
        self.chunks: list[Chunk] = []
        self.quiet = False
        self._path, self._limit = path, limit_bytes
        self._is_script = is_script
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._incomplete = ""
        self._position = 0
        self._offset = 0
        self._line = ""
        self._held: list[str] = []

    def read(self) -> None:
        """Read new output from the file; from the first warm-up on, hold it back."""
        try:
            if self._path.stat().st_size <= self._position or self._position >= self._limit:
                return
            with self._path.open("rb") as source:
                source.seek(self._position)
                while block := source.read(min(_BLOCK, self._limit - self._position)):
                    self._position += len(block)
                    self._take(self._decode(block))
        except FileNotFoundError:
            return
        if not self.quiet:
            self._cut()

    def release(self, limit_bytes: int) -> None:
        """Add output to the chunks, of which JSON needs at most `limit_bytes`.

        Call it between two processes.
        """
        self.read()
        self._cut(limit_bytes)

    def finish(self) -> None:
        """Add the rest of the output, or its end if the log is too long. Call it after the run."""
        self.read()
        self._held.append(self._decode(b"", final=True))
        self._held.append(self._end())
        self.quiet = False
        self._cut()

    def text(self) -> str:
        """Return the text of all chunks so far."""
        return "".join(chunk.text for chunk in self.chunks)

    def _decode(self, block: bytes, *, final: bool = False) -> str:
        """Decode a block and remove escape sequences; keep an incomplete one for the next block."""
        text = self._incomplete + self._decoder.decode(block, final)
        match = None if final else _INCOMPLETE.search(text)
        self._incomplete = match[0] if match else ""
        return ESCAPE.sub("", text.removesuffix(self._incomplete))

    def _end(self) -> str:
        size = self._path.stat().st_size if self._path.exists() else 0
        if size <= self._position:
            return ""
        with self._path.open("rb") as source:
            source.seek(max(self._position, size - END_BYTES))
            # drop the rest of a character that was cut: continuation bytes are 10xxxxxx
            raw = source.read(END_BYTES).lstrip(bytes(range(0x80, 0xC0)))
        note = f"\n[log truncated at {self._limit} bytes: {size} were printed, the end follows]\n"
        return note + ESCAPE.sub("", raw.decode("utf-8", errors="replace"))

    def _take(self, text: str) -> None:
        """Hold the text back, and set `quiet` if one of its lines announces the warm-up."""
        self._held.append(text)
        skip = self.quiet or self._is_script
        for piece in () if skip else text.splitlines(keepends=True):
            self._line = (self._line + piece)[-_LINE_CHARACTERS:]
            if QUIET_BEGIN in self._line:
                self.quiet = True
                return
            if piece.endswith(("\n", "\r")):
                self._line = ""

    def _cut(self, limit_bytes: int | None = None) -> None:
        """Split the held text into chunks, or only its begin if there is a limit (`release`)."""
        # PostgreSQL's text cannot contain NUL; replaced here, so that offsets count the stored text
        raw = "".join(self._held).replace("\0", "\ufffd").encode()
        self._held.clear()
        if limit_bytes is not None:
            end = _boundary(raw, _fitting(raw, limit_bytes))
            self._held.append(raw[end:].decode())
            raw = raw[:end]
        begin = 0
        while begin < len(raw):
            end = _boundary(raw, min(begin + CHUNK_BYTES, len(raw)))
            self._add(raw[begin:end])
            begin = end

    def _add(self, raw: bytes) -> None:
        self.chunks.append(Chunk(len(self.chunks) + 1, self._offset, len(raw), raw.decode("utf-8")))
        self._offset += len(raw)


def _boundary(raw: bytes, end: int) -> int:
    """Return the position of the character that contains the byte at `end`."""
    while end < len(raw) and raw[end] & 0xC0 == 0x80:
        end -= 1
    return end


def _fitting(raw: bytes, limit_bytes: int) -> int:
    """Return how many bytes need at most `limit_bytes` in JSON, which escapes some of them."""
    sizes = accumulate(2 if byte in _SHORT else 6 if byte < 0x20 else 1 for byte in raw)
    return sum(1 for _ in takewhile(lambda size: size <= limit_bytes, sizes))
