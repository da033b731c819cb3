"""Decode the events of a Chrome trace piece by piece.

The file is `{"traceEvents": [...], ...}` or the bare list. It is cut after complete events: a cut
is correct if the text before it is valid JSON, which it never is inside a string or a nested value.
So only msgspec interprets JSON.

Text that is no valid list of events is read event by event (`_Salvage`), and events that cannot be
read are skipped.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Raw, Struct

from profiles.formats.detection import refuse_utf16
from profiles.formats.errors import FormatCode, ProfileFormatError
from profiles.formats.load_and_run.profile_json import null_special_numbers

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
_TRIES = 8
_SPACE = b" \t\r\n"
#: maximum number of skipped events that are described; further ones are counted
SKIPPED_DESCRIBED = 20

#: between two events: MegEngine writes one comma
_BETWEEN = re.compile(rb"\}[\s,]*+(?=\{)")
_LIST_END = re.compile(rb"[\s,]*+\]")
#: the end of the last event and of the list
_LAST_END = re.compile(rb"\}[\s,]*+\]")
#: a string up to its end or the end of the text, or a bracket
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[][{}]', re.DOTALL)
#: a part of each number that JSON or float64 lacks
_SPECIAL = re.compile(rb"NaN|Infinity|[eE]\+?[0-9]{3}")
#: how often each byte of a damaged text may be searched for the end of an event
_SEARCHES = 16
_BYTE = re.compile(r" \(byte (\d+)\)")


class Args(Struct, gc=False):
    """The `args` of an event; values of any type, since each program writes its own.

    operator: number of the operator. MegEngine 1.1 wrote a text such as `[12]`; 1.2 wrote the
        number as `id` of an event that has `inputs`, too
    """

    name: Any = None
    shape: Any = None
    dtype: Any = None
    id: Any = None
    inputs: Any = None
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
    """Consecutive events; `begin` to `end` is their byte range in the file, without brackets.

    text: that part of the file as `events_text` returns it
    """

    events: list[TraceEvent]
    begin: int
    end: int
    text: bytes


class SkippedEvent(NamedTuple):
    """A part of the list that could not be read.

    at_byte: its position in the file, of the fault itself if it is known
    """

    code: FormatCode
    at_byte: int
    reason: str


class _Stamp(Struct, gc=False):
    """The timestamp of an event without rounding, us."""

    ts: Decimal | None = None


_DECODER = msgspec.json.Decoder(list[TraceEvent])
_EVENT = msgspec.json.Decoder(TraceEvent)
_TEXTS = msgspec.json.Decoder(list[Raw])
_STAMPS = msgspec.json.Decoder(list[_Stamp])


def decode_events(text: bytes) -> tuple[list[TraceEvent], list[Raw]]:
    """Decode the text of a piece as it is in the file; returns events and their texts.

    In the texts, NaN and infinity are null. Raises ValueError for other text.
    """
    if (decoded := _decode(text)) is None:
        raise ValueError("the file is another than the index was made of")
    events, plain = decoded
    return events, _TEXTS.decode(b"[" + plain + b"]")


def exact_stamps(piece: Piece) -> list[Decimal | None]:
    """Return the timestamps of a piece without rounding, us."""
    return [stamp.ts for stamp in _STAMPS.decode(b"[" + piece.text + b"]")]


class EventReader:
    """Reads the events of one file.

    is_cut: the file ends before its list does
    skipped_count: number of skipped events; skipped: the first of them
    """

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file = file
        self._at_once = min(PIECE_BYTES, max(_LEAST_PIECE_BYTES, size_bytes // _PIECES))
        self.is_cut = False
        self.skipped_count = 0
        self.skipped: list[SkippedEvent] = []

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the file. Raises ProfileFormatError as `read_trace`."""
        left, at = _after_start(self._file, self._at_once)
        # what no event was found in is searched again when it has doubled
        wait_bytes = 0
        while more := self._file.read(self._at_once):
            left += more
            if len(left) < wait_bytes:
                continue
            cut = _whole(left)
            if cut is not None:
                events, text, read = cut
                yield Piece(events, at, at + read - 1, text)
                left, at, wait_bytes = left[read:], at + read, 0
                continue
            # the list may have ended, followed by other long content
            if (ended := _ended(left, at)) is not None:
                yield ended
                return
            salvage = _Salvage(left, at, is_last=False)
            yield from self._salvaged(salvage)
            if salvage.is_ended:
                return
            if not salvage.read and len(left) > LONGEST_EVENT_BYTES:
                raise _no_event(left, at)
            wait_bytes = 0 if salvage.read else 2 * len(left)
            left, at = left[salvage.read :], at + salvage.read
        yield from self._last(left, at)

    def _last(self, text: bytes, at: int) -> Iterator[Piece]:
        """The events before the closing bracket of the list, or all complete ones without it."""
        if (ended := _ended(text, at)) is not None:
            yield ended
            return
        salvage = _Salvage(text, at, is_last=True)
        yield from self._salvaged(salvage)
        self.is_cut = not salvage.is_ended

    def _salvaged(self, salvage: "_Salvage") -> Iterator[Piece]:
        yield from salvage.pieces()
        self.skipped_count += salvage.skipped_count
        self.skipped += salvage.skipped[: SKIPPED_DESCRIBED - len(self.skipped)]


def _after_start(file: BinaryIO, at_once: int) -> tuple[bytes, int]:
    """The text after the opening bracket of the list, as far as it was read, and its offset."""
    head, match = b"", None
    while match is None and len(head) < _START_WITHIN_BYTES and (more := file.read(at_once)):
        head += more
        match = _LIST.match(head) or _START.search(head)
    if not head.strip():
        raise ProfileFormatError("empty", "The file is empty.")
    refuse_utf16(head)
    if match is None:
        raise ProfileFormatError("not_a_profile", "It has no list `traceEvents`.")
    return head[match.end() :], match.end()


def _whole(text: bytes) -> tuple[list[TraceEvent], bytes, int] | None:
    """(events of `text` up to the last correct cut, their text, bytes read with the comma)."""
    end = len(text)
    for _ in range(_TRIES):
        # the last `}` , `,` and `{` with only whitespace between them
        end = text.rfind(b"{", 0, end)
        if end <= 0:
            return None
        before = text[max(0, end - 64) : end].rstrip(_SPACE)
        if not before.endswith(b",") or not before[:-1].rstrip(_SPACE).endswith(b"}"):
            continue
        cut = text.rfind(b",", 0, end)
        if (decoded := _decode(text[:cut])) is not None:
            return *decoded, cut + 1
    return None


def _ended(text: bytes, at: int) -> Piece | None:
    end = len(text)
    for _ in range(_TRIES):
        end = text.rfind(b"]", 0, end)
        if end < 0:
            return None
        if (decoded := _decode(text[:end])) is not None:
            return Piece(decoded[0], at, at + end, decoded[1])
    return None


def _decode(text: bytes) -> tuple[list[TraceEvent], bytes] | None:
    """Decode a list of events; returns them with their text as valid JSON, None if it has damage.

    As viewers do, it accepts NaN and infinity; here they are null.
    """
    try:
        return _DECODER.decode(b"[" + text + b"]"), text
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not _SPECIAL.search(text):
            return None
    text = null_special_numbers(text)
    try:
        return _DECODER.decode(b"[" + text + b"]"), text
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Salvage:
    """Reads the events of a text with damage one by one.

    An event is what lies between `}` and `{`, even if a string before it has no end. If that is no
    JSON, it may be the begin of an event with nested objects, which ends at the bracket that closes
    its first one.

    is_last: no more text follows; otherwise an incomplete event at the end is left for later
    read: number of bytes that need not be read again; is_ended: the list ends in this text
    """

    def __init__(self, text: bytes, at: int, *, is_last: bool) -> None:
        self._text, self._at = text, at
        # an event that is too long is damaged
        self._is_last = is_last or len(text) > LONGEST_EVENT_BYTES
        self._searchable = _SEARCHES * len(text)
        # pieces of one event each, in runs that are valid JSON
        self._runs: list[list[Piece]] = []
        self._run_end = 0
        self.read = 0
        self.is_ended = False
        self.skipped_count = 0
        self.skipped: list[SkippedEvent] = []
        after: int | None = 0
        while after is not None and (start := self._start(after)) is not None:
            after = self._after_event(start)
            self.read = start if after is None else after

    def _start(self, begin: int) -> int | None:
        """The begin of the next event; None at the end of the list or of the text."""
        if list_end := _LIST_END.match(self._text, begin):
            self.is_ended, self.read = True, list_end.end()
            return None
        start = self._text.find(b"{", begin)
        junk = self._text[begin : start if start >= 0 else None].strip(_SPACE + b",")
        if junk and (start >= 0 or self._is_last):
            place = self._at + self._text.index(junk, begin)
            self._skip(SkippedEvent("not_json", place, f"{_excerpt(junk)} is no event"))
        return start if start >= 0 else None

    def _after_event(self, start: int) -> int | None:
        """Read or skip the event at `start`; returns where the next one may begin.

        None if more text may complete this one.
        """
        boundary = _BETWEEN.search(self._text, start)
        begun = self._add(start, boundary.start() + 1) if boundary else None
        if boundary and begun is None:
            return boundary.end()
        end = self._closed_at(start)
        if end is not None:
            whole = self._add(start, end)
            if whole is None:
                return end
            # in JSON with a wrong value, brackets can be trusted
            if boundary is None or whole.code == "bad_value":
                self._skip(whole)
                return end
        if boundary and begun:
            if end is None and self._may_go_on(boundary.end()):
                return None
            self._skip(begun)
            return boundary.end()
        if self._is_last and (list_end := _LAST_END.search(self._text, start)):
            if problem := self._add(start, list_end.start() + 1):
                self._skip(problem)
            return list_end.start() + 1
        return None

    def _closed_at(self, start: int) -> int | None:
        """The end of the object that begins at `start`; None if it is not closed in this text."""
        last = min(len(self._text), start + self._searchable)
        depth, end = 0, last
        for token in _STRUCTURE.finditer(self._text, start, last):
            if token[0] in b"[{":
                depth += 1
            elif token[0] in b"]}":
                depth -= 1
                if depth == 0:
                    end = token.end()
                    break
        self._searchable -= end - start
        return end if depth == 0 else None

    def _may_go_on(self, start: int) -> bool:
        """Whether text to come may close an event that is open before `start`: no event follows."""
        if self._is_last or self._searchable <= 0:
            return False
        boundary = _BETWEEN.search(self._text, start)
        if boundary is None:
            return True
        decoded = _decode(self._text[start : boundary.start() + 1])
        return decoded is None or not any(event.ph for event in decoded[0])

    def _add(self, start: int, end: int) -> SkippedEvent | None:
        """Add the event between two positions; returns why it cannot be read."""
        decoded = _decode(self._text[start:end])
        if decoded is None:
            return _problem(self._text[start:end], self._at + start)
        events, text = decoded
        begin, end = self._at + start, self._at + end
        between = self._text[self._run_end : start].strip(_SPACE)
        if self._runs and between == b"," and end - self._runs[-1][0].begin <= PIECE_BYTES:
            self._runs[-1].append(Piece(events, begin, end, text))
        else:
            self._runs.append([Piece(events, begin, end, text)])
        self._run_end = end - self._at
        return None

    def pieces(self) -> Iterator[Piece]:
        """Yield the events that can be read; the text of each piece is valid JSON."""
        for run in self._runs:
            events = [event for piece in run for event in piece.events]
            text = b",".join(piece.text for piece in run)
            yield Piece(events, run[0].begin, run[-1].end, text)

    def _skip(self, skipped: SkippedEvent) -> None:
        self.skipped_count += 1
        if len(self.skipped) < SKIPPED_DESCRIBED:
            self.skipped.append(skipped)


def _no_event(text: bytes, at: int) -> ProfileFormatError:
    return ProfileFormatError(
        "not_json", f"No list of events goes on at byte {at} with {_excerpt(text)}."
    )


def _excerpt(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))


def _problem(text: bytes, at: int) -> SkippedEvent:
    """Why the text of an event at byte `at` of the file cannot be read."""
    plain = null_special_numbers(text)
    try:
        text.decode()
        _EVENT.decode(plain)
    except UnicodeDecodeError as error:
        return SkippedEvent("not_utf8", at + error.start, error.reason)
    except RecursionError:
        return SkippedEvent("too_deep", at, "brackets are nested too deeply")
    except msgspec.DecodeError as error:
        place = _BYTE.search(str(error)) if plain == text else None
        reason = _BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
        code: FormatCode = "bad_value"
        if not isinstance(error, msgspec.ValidationError) or not _is_json(text):
            code = "not_json"
        return SkippedEvent(code, at + (int(place[1]) if place else 0), reason)
    return SkippedEvent("not_json", at, "more than one value")


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
