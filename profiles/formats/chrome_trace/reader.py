"""A Chrome trace as numpy columns, so that memory does not grow with its text."""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.events import Args, Event, EventReader, Piece
from profiles.formats.chrome_trace.pieces import NamingNotes, PieceNotes, Pieces
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.interning import InternedTexts

#: different texts that are told apart; all others count as one
TEXTS_LIMIT = 1_000_000
TEXTS_BYTES_LIMIT = 128 << 20
LONGEST_TEXT = 500
NONE = -1

#: what the phases that are kept become; flow arrows and what no writer of ours uses are dropped
PHASES = {"B": 0, "E": 1, "X": 2, "C": 3}
BEGIN, END, COMPLETE, COUNTER = range(4)

#: names of events that a tensor's number follows
TENSOR_EVENTS = frozenset({"Input", "Output", "Put", "Del"})
LANES_LIMIT = 1_000
#: no clock tells a time beyond it, us
LATEST_US = 1e18
#: a whole number beyond it is none that anything counts; a double ends at 10**308
_LARGEST = 1 << 64
#: of a file; a smaller one tells nothing of what is to come
_LEAST_PART = 1e-4


class _Names(InternedTexts):
    """Names of events; what they say of tensors, `Input 80`, goes without the tensor's number."""

    def new(self, text: str) -> int:
        kind, _, number = text.partition(" ")
        return self.code(kind) if kind in TENSOR_EVENTS and number.isdigit() else super().new(text)


@dataclass(frozen=True, eq=False)
class TraceTexts:
    """The texts of a trace, each once: names of events, tensors, and (dtype, shape) of those."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    layouts: tuple[tuple[str, str], ...]

    def name_code(self, name: str) -> int:
        """The place of a name; NONE if no event is called so."""
        return self.names.index(name) if name in self.names else NONE


@dataclass(frozen=True, eq=False)
class Trace:
    """The n events of a trace that have a place in time, in the order of the file.

    phase: (n,) uint8, BEGIN, END, COMPLETE or COUNTER
    name: (n,) into `texts.names`. `Input 80` and the like are `Input`: the number is that of the
        tensor, which `ident` has too
    lane: (n,) into `lanes`
    ts_us: (n,) float64, as in the file
    value: (v,) float64, of COMPLETE events the duration, us, of COUNTER events what they count;
        nan where the file does not say
    ident: (n,) the number of an operator or a tensor, NONE without one
    label: (n,) into `texts.labels`, what `args` call it: the name of a tensor; NONE without one
    layout: (n,) into `texts.layouts`, those of a tensor as the file writes them; or NONE
    is_operator: (n,) bool, `args` name an operator rather than a tensor
    lane_names: by place in `lanes`; empty where the file gives none
    dropped: how many events had no use (flow arrows, unknown phases)
    broken: how many events were wrong: no time, or a time that none can be
    is_cut: the file ends before its list does
    pieces: where the events stand in the file, which has `size_bytes`
    naming: events that name and order threads and processes, as JSON has them

    Numbers without a type here are of the shortest signed one that holds those of this trace.
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
    is_cut: bool
    pieces: Pieces
    size_bytes: int
    naming: tuple[dict[str, Any], ...]

    def __len__(self) -> int:
        return len(self.phase)

    def values(self, rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """(r,) float64: `value` of some COMPLETE and COUNTER events."""
        places: NDArray[np.integer] = rows
        if len(rows) and len(self.value) < len(self):
            places = np.searchsorted(np.flatnonzero(self.phase >= COMPLETE), rows)
        found: NDArray[np.float64] = self.value[places]
        return found


#: told how many bytes were read, of how many
Told = Callable[[int, int], None]


def read_trace(path: Path, told: Told | None = None) -> Trace:
    """Read a whole trace.

    Raises ProfileFormatError: `empty`, `not_json`, `not_a_profile` where there are no events at
    all, `bad_value` for an event that cannot be one. What is wrong with single times, and an end
    that is missing, is counted in the result instead.
    """
    making = _Making()
    with path.open("rb") as file:
        size_bytes = path.stat().st_size
        reader = EventReader(file, size_bytes)
        for piece in reader.pieces():
            making.add(piece, file.tell() / size_bytes)
            if told is not None:
                told(file.tell(), size_bytes)
    trace = making.done(is_cut=reader.is_cut, size_bytes=size_bytes)
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


def placed(events: list[Event]) -> list[int]:
    """The places of those that are rows of the columns, if their time is within LATEST_US."""
    return [
        place for place, event in enumerate(events) if event.ph in PHASES and event.ts is not None
    ]


class _Growing:
    """One column that grows by pieces, of what is found when it is done.

    In one block: thousands of small arrays would stay with the process, and be held twice once they
    are joined. What is reserved and never used costs nothing.
    """

    def __init__(self, dtype: Any) -> None:
        self._block, self._used = np.empty(0, dtype), 0

    def add(self, piece: NDArray[Any], part: float) -> None:
        """part: how much of the file was read, with this piece"""
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
        """Of whole numbers from NONE on: in the shortest type that holds them."""
        found = self.done()
        highest = found.max(initial=0)
        kinds = (np.int8, np.int16, np.int32, np.int64)
        return found.astype(next(kind for kind in kinds if highest <= np.iinfo(kind).max))


class _Making:
    """Columns in the making."""

    def __init__(self) -> None:
        self._dropped = self._broken = self._rows = 0
        limits = {"longest": LONGEST_TEXT, "most": TEXTS_LIMIT, "most_chars": TEXTS_BYTES_LIMIT}
        self._names, self._labels = _Names(**limits), InternedTexts(**limits)
        self._layouts: dict[tuple[str, str], int] = {}
        self._lanes: dict[tuple[int | str, int | str], int] = {}
        self._lane_names: dict[tuple[int | str, int | str], str] = {}
        self._columns = {name: _Growing(dtype) for name, dtype in _DTYPES.items()}
        self._pieces, self._naming = PieceNotes(), NamingNotes()

    def add(self, piece: Piece, part: float) -> None:
        """part: how much of the file was read, with these"""
        self._pieces.add(piece, self._rows)
        events = piece.events
        kept = [events[place] for place in placed(events)]
        if len(kept) < len(events):
            self._note_others(events)
        code, lane = self._names.code, self._lane
        columns: dict[str, Any] = {
            "phase": [PHASES[event.ph] for event in kept],
            "name": [code(event.name) for event in kept],
            "lane": [lane((event.pid, event.tid)) for event in kept],
            "ts_us": [event.ts for event in kept],
            "value": [_value(event) for event in kept],
            **self._told([event.args for event in kept]),
        }
        arrays = {name: np.array(columns[name], dtype) for name, dtype in _DTYPES.items()}
        fine = np.abs(arrays["ts_us"]) <= LATEST_US
        if not fine.all():
            self._broken += int(len(kept) - fine.sum())
            arrays = {name: array[fine] for name, array in arrays.items()}
        self._rows += len(arrays["ts_us"])
        arrays["value"] = arrays["value"][arrays["phase"] >= COMPLETE]
        for name, array in arrays.items():
            self._columns[name].add(array, part)

    def done(self, *, is_cut: bool, size_bytes: int) -> Trace:
        lanes = sorted(self._lanes, key=self._lanes.__getitem__)
        columns: dict[str, Any] = {
            # one after the other, so that no two are held twice
            name: column.narrowed() if name in _NARROWED else column.done()
            for name, column in ((name, self._columns.pop(name)) for name in _DTYPES)
        }
        return Trace(
            **columns,
            texts=TraceTexts(self._names.values(), self._labels.values(), tuple(self._layouts)),
            lanes=tuple(lanes),
            lane_names=tuple(self._lane_names.get(each, "") for each in lanes),
            dropped=self._dropped,
            broken=self._broken,
            is_cut=is_cut,
            pieces=self._pieces.done(),
            size_bytes=size_bytes,
            naming=self._naming.done(),
        )

    def _note_others(self, events: list[Event]) -> None:
        for event in events:
            if event.ph in PHASES:
                self._broken += event.ts is None
            elif event.ph == "M":
                self._naming.add(event)
                name = event.args.name if event.args is not None else None
                is_wanted = event.name == "thread_name" and len(self._lane_names) < LANES_LIMIT
                if is_wanted and isinstance(name, str):
                    self._lane_names[event.pid, event.tid] = name[:LONGEST_TEXT]
            else:
                self._dropped += 1

    def _lane(self, key: tuple[int | str, int | str]) -> int:
        found = self._lanes.get(key)
        if found is None:
            if len(self._lanes) >= LANES_LIMIT:
                raise ProfileFormatError("bad_value", f"It has more than {LANES_LIMIT} threads.")
            found = self._lanes[key] = len(self._lanes)
        return found

    def _told(self, told: list[Args | None]) -> dict[str, Any]:
        """What `args` tell, one value for each event."""
        size = len(told)
        ident, label, layout = [NONE] * size, [NONE] * size, [NONE] * size
        is_operator = [False] * size
        label_of, layout_of = self._labels.code, self._layout
        for place, args in enumerate(told):
            if args is None:
                continue
            if args.operator is not None:
                ident[place] = _number(args.operator)
                is_operator[place] = True
            elif args.id is not None:
                ident[place] = _number(args.id)
                if args.name:
                    label[place] = label_of(str(args.name))
                layout[place] = layout_of(args.dtype, args.shape)
        return {"ident": ident, "label": label, "layout": layout, "is_operator": is_operator}

    def _layout(self, dtype: Any, shape: Any) -> int:
        if not isinstance(dtype, str) or not isinstance(shape, str):
            return NONE
        key = (dtype, shape)
        found = self._layouts.get(key)
        if found is None:
            if len(self._layouts) >= TEXTS_LIMIT or len(dtype) + len(shape) > LONGEST_TEXT:
                return NONE
            found = self._layouts[key] = len(self._layouts)
        return found


def _number(value: Any) -> int:
    is_number = isinstance(value, int) and 0 <= value < 1 << 63
    return value if is_number else NONE


def _value(event: Event) -> float:
    """The duration of a COMPLETE event, what a COUNTER counts."""
    if event.dur is not None:
        return event.dur
    value = event.args.value if event.args is not None and event.ph == "C" else None
    if isinstance(value, int) and abs(value) >= _LARGEST:
        return nan
    return float(value) if isinstance(value, int | float) else nan
