"""Read a Chrome trace into numpy columns, so that memory usage does not grow with its text."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.events import (
    Args,
    EventReader,
    Piece,
    SkippedEvent,
    TraceEvent,
    exact_stamps,
)
from profiles.formats.columns import InternedTexts
from profiles.formats.errors import ProfileFormatError

#: maximum number of distinct texts; all further texts share one code
TEXTS_LIMIT = 1_000_000
TEXTS_BYTES_LIMIT = 128 << 20
LONGEST_TEXT = 500
NONE = -1

#: codes of the phases that are read; flow events and phases that MegEngine does not use are dropped
PHASES = {"B": 0, "E": 1, "X": 2, "C": 3}
BEGIN, END, COMPLETE, COUNTER = range(4)

#: names of events that are followed by the number of a tensor
TENSOR_EVENTS = frozenset({"Input", "Output", "Put", "Del"})
LANES_LIMIT = 1_000
#: latest plausible time, us
LATEST_US = 1e18
#: up to this time (19 hours), us, float64 represents times to 0.02 ns
EXACT_US = 2.0**36
#: larger integers are invalid values of a counter; a double ends at 10**308
_LARGEST = 1 << 64
#: the number of an operator as MegEngine 1.1 wrote it
_LISTED = re.compile(r"\[([0-9]{1,18})\]")
#: minimum fraction of a file from which the size of the columns is extrapolated
_LEAST_PART = 1e-4
#: metadata events that name and sort threads and processes, each with the key in its `args`
NAMING = {
    "process_name": "name",
    "process_labels": "labels",
    "process_sort_index": "sort_index",
    "thread_name": "name",
    "thread_sort_index": "sort_index",
}
NAMING_LIMIT = 5_000


class _EventNames(InternedTexts):
    """Interned names of events, without the tensor's number in names such as `Input 80`."""

    def new(self, text: str) -> int:
        kind, _, number = text.partition(" ")
        return self.code(kind) if kind in TENSOR_EVENTS and number.isdigit() else super().new(text)


@dataclass(frozen=True, eq=False)
class Pieces:
    """The p pieces of a file, in the order of the file.

    begin, end: (p,) int64, byte range of the piece's text, without the enclosing brackets
    first_row: (p,) int64, row of the trace's columns with the first event of the piece
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    first_row: NDArray[np.int64]

    def of_rows(self, rows: NDArray[Any]) -> NDArray[np.intp]:
        """(r,) the piece that contains each row."""
        # of several pieces with the same first row, only the last has rows
        return np.searchsorted(self.first_row, rows, side="right") - 1


@dataclass(frozen=True, eq=False)
class TraceTexts:
    """The distinct texts of a trace: names of events, names and (dtype, shape) of tensors."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    layouts: tuple[tuple[str, str], ...]

    def name_code(self, name: str) -> int:
        """The code of a name; NONE if no event has it."""
        return self.names.index(name) if name in self.names else NONE


@dataclass(frozen=True, eq=False)
class Trace:
    """The n events of a trace with a timestamp, in the order of the file.

    phase: (n,) uint8, BEGIN, END, COMPLETE or COUNTER
    name: (n,) index into `texts.names`. `Input 80` and similar names are stored as `Input`; the
        number is that of the tensor, which is also in `ident`
    lane: (n,) index into `lanes`
    ts_us: (n,) float64, as in the file, minus `zero_us`
    zero_us: what the clock of the trace showed at 0 of all times; 0 unless timestamps are so large
        that float64 would round them
    value: (v,) float64, the duration, us, of COMPLETE events and the value of COUNTER events; nan
        if missing
    ident: (n,) number of the operator or tensor, NONE without one
    label: (n,) index into `texts.labels`, the name of the tensor in `args`; NONE without one
    layout: (n,) index into `texts.layouts`, dtype and shape of the tensor as in the file; or NONE
    is_operator: (n,) bool, whether `args` refer to an operator rather than a tensor
    lane_names: by index in `lanes`; empty if the file has no name
    dropped: number of ignored events (flow events, unknown phases)
    broken: number of events without a valid time
    skipped_count: number of events that could not be read; skipped: the first of them
    is_cut: the file ends before its list does
    pieces: offsets of the events in the file, which has `size_bytes`
    naming: metadata events that name and sort threads and processes, as JSON

    Integer columns without a dtype here have the smallest signed one that holds their values.
    """

    phase: NDArray[np.uint8]
    name: NDArray[np.signedinteger]
    lane: NDArray[np.signedinteger]
    ts_us: NDArray[np.float64]
    value: NDArray[np.float64]
    ident: NDArray[np.signedinteger]
    label: NDArray[np.signedinteger]
    layout: NDArray[np.signedinteger]
    is_operator: NDArray[np.bool_]
    texts: TraceTexts
    lanes: tuple[tuple[int | str, int | str], ...]
    lane_names: tuple[str, ...]
    dropped: int
    broken: int
    zero_us: int
    skipped_count: int
    skipped: tuple[SkippedEvent, ...]
    is_cut: bool
    pieces: Pieces
    size_bytes: int
    naming: tuple[dict[str, Any], ...]

    def __len__(self) -> int:
        return len(self.phase)

    def values(self, rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """(r,) float64: `value` of the COMPLETE and COUNTER events in `rows`."""
        indices: NDArray[np.integer] = rows
        if len(rows) and len(self.value) < len(self):
            indices = np.searchsorted(np.flatnonzero(self.phase >= COMPLETE), rows)
        values: NDArray[np.float64] = self.value[indices]
        return values


#: progress callback: called with the bytes read and the size of the file
OnBytesRead = Callable[[int, int], None]


def read_trace(path: Path, on_progress: OnBytesRead | None = None) -> Trace:
    """Read a whole trace.

    Raises ProfileFormatError: `empty`, `utf16`, `not_json` if the list does not go on,
    `not_a_profile` if there are no events at all, and the reason of the first skipped event if no
    event can be read. Events that cannot be read, invalid times and a truncated file do not raise;
    the result counts them.
    """
    builder = _TraceBuilder()
    with path.open("rb") as file:
        size_bytes = path.stat().st_size
        reader = EventReader(file, size_bytes)
        for piece in reader.pieces():
            builder.add(piece, file.tell() / size_bytes)
            if on_progress is not None:
                on_progress(file.tell(), size_bytes)
    trace = builder.done(reader, size_bytes)
    if not len(trace) and trace.skipped:
        code, at_byte, reason = trace.skipped[0]
        raise ProfileFormatError(code, f"Wrong data in an event, at byte {at_byte}: {reason}.")
    if not len(trace):
        raise ProfileFormatError("not_a_profile", "The trace has no event that takes time.")
    return trace


_DTYPES: dict[str, Any] = {
    "phase": np.uint8,
    "name": np.int32,
    "lane": np.int16,
    "ts_us": np.float64,
    "value": np.float64,
    "ident": np.int64,
    "label": np.int32,
    "layout": np.int32,
    "is_operator": np.bool_,
}

_NARROWED = ("name", "lane", "ident", "label", "layout")


def placed_events(events: list[TraceEvent]) -> list[int]:
    """The indices of events that become rows of the columns if their time is within LATEST_US."""
    return [
        index for index, event in enumerate(events) if event.ph in PHASES and event.ts is not None
    ]


class _GrowingColumn:
    """A column that grows piece by piece, in one over-allocated block.

    Joining thousands of small arrays would need twice the memory and fragment the heap. Reserved
    memory that is never touched costs nothing.
    """

    def __init__(self, dtype: Any) -> None:
        self._block, self._used = np.empty(0, dtype), 0

    def add(self, piece: NDArray[Any], part: float) -> None:
        """Append a piece; `part` is the fraction of the file that was read, including it."""
        end = self._used + len(piece)
        if end > len(self._block):
            expected = int(end / max(part, _LEAST_PART) * 1.1)
            larger = np.empty(max(end * 5 // 4, expected), self._block.dtype)
            larger[: self._used] = self._block[: self._used]
            self._block = larger
        self._block[self._used : end] = piece
        self._used = end

    def done(self) -> NDArray[Any]:
        return self._block[: self._used]

    def narrowed(self) -> NDArray[np.signedinteger]:
        """The integers, all at least NONE, in the smallest dtype that holds them."""
        column = self.done()
        highest = column.max(initial=0)
        kinds = (np.int8, np.int16, np.int32, np.int64)
        return column.astype(next(kind for kind in kinds if highest <= np.iinfo(kind).max))


class _TraceBuilder:
    def __init__(self) -> None:
        self._dropped = self._broken = self._rows = self._zero_us = 0
        limits = {"longest": LONGEST_TEXT, "most": TEXTS_LIMIT, "most_chars": TEXTS_BYTES_LIMIT}
        self._names, self._labels = _EventNames(**limits), InternedTexts(**limits)
        self._layouts: dict[tuple[str, str], int] = {}
        self._lanes: dict[tuple[int | str, int | str], int] = {}
        self._lane_names: dict[tuple[int | str, int | str], str] = {}
        self._columns = {name: _GrowingColumn(dtype) for name, dtype in _DTYPES.items()}
        #: begin, end and first row of each piece, as in `Pieces`
        self._pieces: list[tuple[int, int, int]] = []
        #: events that name threads and processes, by name, process and thread: the last one wins
        self._naming: dict[tuple[str, int | str, int | str], dict[str, Any]] = {}

    def add(self, piece: Piece, part: float) -> None:
        """Add a piece; `part` is the fraction of the file that was read, including it."""
        self._pieces.append((piece.begin, piece.end, self._rows))
        events = piece.events
        placed = placed_events(events)
        kept = [events[index] for index in placed]
        if len(kept) < len(events):
            self._note_others(events)
        code, lane = self._names.code, self._lane
        columns: dict[str, Any] = {
            "phase": [PHASES[event.ph] for event in kept],
            "name": [code(event.name) for event in kept],
            "lane": [lane((event.pid, event.tid)) for event in kept],
            "ts_us": [event.ts for event in kept],
            "value": [_value(event) for event in kept],
            **self._args_columns([event.args for event in kept]),
        }
        arrays = {name: np.array(columns[name], dtype) for name, dtype in _DTYPES.items()}
        fine = np.abs(arrays["ts_us"]) <= LATEST_US
        if self._zero_us or (np.abs(arrays["ts_us"][fine]) > EXACT_US).any():
            arrays["ts_us"] = self._relative_us(piece, placed, fine)
        if not fine.all():
            self._broken += int(len(kept) - fine.sum())
            arrays = {name: array[fine] for name, array in arrays.items()}
        self._rows += len(arrays["ts_us"])
        arrays["value"] = arrays["value"][arrays["phase"] >= COMPLETE]
        for name, array in arrays.items():
            self._columns[name].add(array, part)

    def _relative_us(
        self, piece: Piece, placed: list[int], fine: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return the exact timestamps of events of a piece minus `zero_us`, us.

        placed, fine: indices of the events, and which of them have a plausible time
        """
        stamps = exact_stamps(piece)
        exact = [stamps[index] or Decimal(0) for index in compress(placed, fine.tolist())]
        if not self._zero_us:
            self._zero_us = next(int(stamp) for stamp in exact if abs(stamp) > EXACT_US)
            before = self._columns["ts_us"].done()
            before -= self._zero_us
        relative_us = np.full(len(placed), np.nan)
        relative_us[fine] = [float(stamp - self._zero_us) for stamp in exact]
        return relative_us

    def done(self, reader: EventReader, size_bytes: int) -> Trace:
        if self._zero_us:
            # an event of another thread may be earlier than the first one of the file
            ts_us = self._columns["ts_us"].done()
            earlier_us = max(0, -math.floor(ts_us.min()))
            if earlier_us <= EXACT_US:
                ts_us += earlier_us
                self._zero_us -= earlier_us
        lanes = sorted(self._lanes, key=self._lanes.__getitem__)
        columns: dict[str, Any] = {
            # converted one by one, so that only one column is held twice
            name: column.narrowed() if name in _NARROWED else column.done()
            for name, column in ((name, self._columns.pop(name)) for name in _DTYPES)
        }
        return Trace(
            **columns,
            texts=TraceTexts(self._names.values(), self._labels.values(), tuple(self._layouts)),
            lanes=tuple(lanes),
            lane_names=tuple(self._lane_names.get(lane, "") for lane in lanes),
            dropped=self._dropped,
            broken=self._broken,
            zero_us=self._zero_us,
            skipped_count=reader.skipped_count,
            skipped=tuple(reader.skipped),
            is_cut=reader.is_cut,
            pieces=Pieces(*np.array(self._pieces, np.int64).reshape(-1, 3).T.copy()),
            size_bytes=size_bytes,
            naming=tuple(self._naming.values()),
        )

    def _note_others(self, events: list[TraceEvent]) -> None:
        for event in events:
            if event.ph in PHASES:
                self._broken += event.ts is None
            elif event.ph == "M":
                self._note_naming(event)
                name = event.args.name if event.args is not None else None
                is_lane = event.name == "thread_name" and len(self._lane_names) < LANES_LIMIT
                if is_lane and isinstance(name, str):
                    self._lane_names[event.pid, event.tid] = name[:LONGEST_TEXT]
            else:
                self._dropped += 1

    def _note_naming(self, event: TraceEvent) -> None:
        key_in_args = NAMING.get(event.name)
        value = getattr(event.args or Args(), key_in_args) if key_in_args else None
        key = (event.name, event.pid, event.tid)
        is_full = len(self._naming) >= NAMING_LIMIT and key not in self._naming
        if not isinstance(value, str | int) or is_full or not all(map(_is_plain, (*key, value))):
            return
        where = {"ph": "M", "name": event.name, "pid": event.pid, "tid": event.tid}
        self._naming[key] = where | {"args": {key_in_args: value}}

    def _lane(self, key: tuple[int | str, int | str]) -> int:
        number = self._lanes.get(key)
        if number is None:
            if len(self._lanes) >= LANES_LIMIT:
                raise ProfileFormatError("bad_value", f"It has more than {LANES_LIMIT} threads.")
            number = self._lanes[key] = len(self._lanes)
        return number

    def _args_columns(self, args_of_events: list[Args | None]) -> dict[str, Any]:
        """The columns that come from `args`, with one value for each event."""
        size = len(args_of_events)
        ident, label, layout = [NONE] * size, [NONE] * size, [NONE] * size
        is_operator = [False] * size
        label_of, layout_of = self._labels.code, self._layout
        for index, args in enumerate(args_of_events):
            if args is None:
                continue
            if args.operator is not None or args.inputs is not None:
                ident[index] = _operator_number(args)
                is_operator[index] = True
            elif args.id is not None:
                ident[index] = _number(args.id)
                if args.name:
                    label[index] = label_of(str(args.name))
                layout[index] = layout_of(args.dtype, args.shape)
        return {"ident": ident, "label": label, "layout": layout, "is_operator": is_operator}

    def _layout(self, dtype: Any, shape: Any) -> int:
        if not isinstance(dtype, str) or not isinstance(shape, str):
            return NONE
        key = (dtype, shape)
        code = self._layouts.get(key)
        if code is None:
            if len(self._layouts) >= TEXTS_LIMIT or len(dtype) + len(shape) > LONGEST_TEXT:
                return NONE
            code = self._layouts[key] = len(self._layouts)
        return code


def _is_plain(value: str | int) -> bool:
    """Whether a value is short enough to copy; an untrusted file may hold any length."""
    return len(value) <= LONGEST_TEXT if isinstance(value, str) else abs(value) < 2**63


def _operator_number(args: Args) -> int:
    """The number of an operator; see `Args`."""
    number = args.id if args.operator is None else args.operator
    if isinstance(number, str) and (match := _LISTED.fullmatch(number)):
        number = int(match[1])
    return _number(number)


def _number(value: Any) -> int:
    is_number = isinstance(value, int) and 0 <= value < 1 << 63
    return value if is_number else NONE


def _value(event: TraceEvent) -> float:
    """The duration of a COMPLETE event, the value of a COUNTER event."""
    if event.dur is not None:
        return event.dur
    value = event.args.value if event.args is not None and event.ph == "C" else None
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return nan
    return float(value) if isinstance(value, int | float) else nan
