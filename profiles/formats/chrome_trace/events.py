"""Decode the events of a Chrome trace piece by piece.

The file is `{"traceEvents": [...], ...}` or the bare list. It is cut after complete events: a cut
is correct if the text before it is valid JSON, which it never is inside a string or a nested value.
So only msgspec interprets JSON.
"""

import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from profiles.formats.errors import ProfileFormatError

#: bytes per read; decoding takes ten times as much memory
PIECE_BYTES = 1 << 16
#: small files are read in up to this number of smaller pieces, with this minimum size
_PIECES, _LEAST_PIECE_BYTES = 256, 1 << 13
#: maximum size of an event
LONGEST_EVENT_BYTES = 16 << 20

_START = re.compile(rb'"traceEvents"\s*:\s*\[')
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_START_WITHIN_BYTES = 1 << 20
#: maximum number of cut positions that are tried, since a string may contain what looks like one
_TRIES = 64
_SPACE = b" \t\r\n"


class Args(Struct, gc=False):
    """The `args` of an event; values of any type, since each program writes its own."""

    name: Any = None
    shape: Any = None
    dtype: Any = None
    id: Any = None
    value: Any = None
    labels: Any = None
    sort_index: Any = None
    operator: Any = msgspec.field(default=None, name="__id__")


class TraceEvent(Struct, gc=False):
    """One event; times in us."""

    ph: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float | None = None
    dur: float | None = None
    args: Args | None = None


class Piece(NamedTuple):
    """Consecutive events; `begin` to `end` is their byte range in the file, without brackets."""

    events: list[TraceEvent]
    begin: int
    end: int


_DECODER = msgspec.json.Decoder(list[TraceEvent])


class EventReader:
    """Reads the events of one file; `is_cut` is set if the file ends before its list does."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file = file
        self._at_once = min(PIECE_BYTES, max(_LEAST_PIECE_BYTES, size_bytes // _PIECES))
        self.is_cut = False

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the file. Raises ProfileFormatError as `read_trace`."""
        left, at = _after_start(self._file, self._at_once)
        while more := self._file.read(self._at_once):
            left += more
            events, rest = _whole(left)
            if events is not None:
                read = len(left) - len(rest)
                yield Piece(events, at, at + read - 1)
                left, at = rest, at + read
                continue
            # the list may have ended, followed by other long content
            if (ended := _ended(left, at)) is not None:
                yield ended
                return
            if len(left) > LONGEST_EVENT_BYTES:
                raise _not_json(left)
        yield self._last(left, at)

    def _last(self, text: bytes, at: int) -> Piece:
        """The events before the closing bracket of the list, or all complete ones without it."""
        if (ended := _ended(text, at)) is not None:
            return ended
        self.is_cut = True
        whole, left = _whole(text)
        # the last event may be complete although nothing follows it
        last = left.rstrip(_SPACE + b",")
        alone = _decode(last)
        if not whole and alone is None and b"{" not in left and left.strip(_SPACE + b"]"):
            raise _not_json(left)
        end = len(text) - len(left) + (-1 if alone is None else len(last))
        return Piece([*(whole or []), *(alone or [])], at, at + max(end, 0))


def _after_start(file: BinaryIO, at_once: int) -> tuple[bytes, int]:
    """The text after the opening bracket of the list, as far as it was read, and its offset."""
    head, match = b"", None
    while match is None and len(head) < _START_WITHIN_BYTES and (more := file.read(at_once)):
        head += more
        match = _LIST.match(head) or _START.search(head)
    if not head.strip():
        raise ProfileFormatError("empty", "The file is empty.")
    if match is None:
        raise ProfileFormatError("not_a_profile", "It has no list `traceEvents`.")
    return head[match.end() :], match.end()


def _whole(text: bytes) -> tuple[list[TraceEvent] | None, bytes]:
    """(events of `text` up to the last correct cut, rest of the text); None if there is no cut."""
    end = len(text)
    for _ in range(_TRIES):
        # the last `}` , `,` and `{` with only whitespace between them
        end = text.rfind(b"{", 0, end)
        if end <= 0:
            return None, text
        before = text[max(0, end - 64) : end].rstrip(_SPACE)
        if not before.endswith(b",") or not before[:-1].rstrip(_SPACE).endswith(b"}"):
            continue
        cut = text.rfind(b",", 0, end)
        if (events := _decode(text[:cut])) is not None:
            return events, text[cut + 1 :]
    return None, text


def _ended(text: bytes, at: int) -> Piece | None:
    end = len(text)
    for _ in range(_TRIES):
        end = text.rfind(b"]", 0, end)
        if end < 0:
            return None
        if (events := _decode(text[:end])) is not None:
            return Piece(events, at, at + end)
    return None


def _decode(text: bytes) -> list[TraceEvent] | None:
    """Decode a list of events; None if it is not JSON. Raises ProfileFormatError for other JSON."""
    try:
        return _DECODER.decode(b"[" + text + b"]")
    except msgspec.ValidationError as error:
        # msgspec validates while it reads, so that invalid JSON may follow: a wrong cut
        try:
            msgspec.json.decode(b"[" + text + b"]", type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return None
        raise ProfileFormatError("bad_value", f"Wrong data in an event: {error}.") from error
    except RecursionError as error:
        raise ProfileFormatError("too_deep", "Its brackets are nested too deeply.") from error
    except UnicodeDecodeError as error:
        raise ProfileFormatError("not_utf8", f"It is no UTF-8: {error}.") from error
    except msgspec.DecodeError:
        return None


def _not_json(text: bytes) -> ProfileFormatError:
    start = text[:80].decode("utf-8", "replace")
    return ProfileFormatError("not_json", f"No list of events goes on with {start!r}.")
