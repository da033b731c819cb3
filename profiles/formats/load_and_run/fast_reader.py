"""Fast reader for profiles exactly as MegEngine writes them.

It takes less than half the time of the lenient reader.
The schema is strict and ids are numbers, so that numpy joins the sections instead of dictionaries.
Files that do not match (damaged files, unusual ids, `NaN`) are left to the lenient reader
(`load_and_run.reader`), which reports precise errors.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from mmap import mmap
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from profiles.formats.columns import NumberColumn, SideTimes, TextColumn
from profiles.formats.load_and_run.profile_schema import (
    StrictFile,
    StrictFootprint,
    StrictGraph,
    StrictTimes,
    StrictWiredGraph,
)
from profiles.formats.load_and_run.sections import Sections, dictionary_encode, largest

Ids = NDArray[np.int64]
Index = NDArray[np.intp]

_NAN = float("nan")
_WIRED_FILE = msgspec.json.Decoder(StrictFile[StrictWiredGraph])
_FILE = msgspec.json.Decoder(StrictFile[StrictGraph])
_FOOTPRINTS = msgspec.json.Decoder(list[StrictFootprint])
_NO_FOOTPRINT = Raw(b"{}")

#: lists of ids as MegEngine writes them
_QUOTE, _OPEN, _CLOSE = b'"[]'
_ALLOWED = b'0123456789",[] \t\r\n'
_MOST_DIGITS = 18
#: a lookup table up to the largest id is used while it has at most this many entries per id
_DENSE = 16


class IdIndex:
    """Maps n distinct ids to their positions."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._table: Index | None = None
        self._order: Index | None = None
        if not len(ids):
            return
        if ids.min() >= 0 and ids.max() < _DENSE * len(ids) + 1000:
            self._table = np.full(ids.max() + 1, -1, dtype=np.intp)
            self._table[ids] = np.arange(len(ids))
        else:
            self._order = np.argsort(ids)

    def find(self, ids: Ids) -> Index:
        """Return the (m,) position of each id, -1 for an unknown id."""
        if self._table is not None:
            inside = (ids >= 0) & (ids < len(self._table))
            return np.where(inside, self._table[np.where(inside, ids, 0)], -1)
        if self._order is None:
            return np.full(len(ids), -1, dtype=np.intp)
        at = np.searchsorted(self._ids, ids, sorter=self._order)
        positions = self._order[np.minimum(at, len(self._ids) - 1)]
        return np.where(self._ids[positions] == ids, positions, -1)


def id_array(ids: Collection[int]) -> Ids:
    """Return (n,) ids. Raises OverflowError for an id beyond 64 bits."""
    return np.fromiter(ids, dtype=np.int64, count=len(ids))


def id_lists(raws: Sequence[Raw]) -> tuple[Index, Ids] | None:
    """Read n JSON lists of quoted ids, such as `["12", "7"]`.

    Returns the (n,) lengths and all ids concatenated, or None if the lists contain anything but ids
    as MegEngine writes them: digits without leading zeros.
    """
    joined = b"".join(raws)
    if joined.translate(None, _ALLOWED):
        return None
    text = np.frombuffer(joined, dtype=np.uint8)
    digits = text - np.uint8(ord("0"))
    is_digit = digits < 10
    # lists begin and end with brackets, so the edges of numbers come in pairs
    edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    opening, closing = np.flatnonzero(text == _OPEN), np.flatnonzero(text == _CLOSE)
    quotes = text == _QUOTE
    lengths = ends - starts if len(starts) == len(ends) else np.full(1, _MOST_DIGITS + 1)
    if (
        lengths.max(initial=0) > _MOST_DIGITS
        or ((digits[starts] == 0) & (lengths > 1)).any()
        # every string consists of digits
        or np.count_nonzero(quotes) != 2 * len(starts)
        or not (quotes[starts - 1] & quotes[ends]).all()
        # each text is one list
        or not (len(opening) == len(closing) == len(raws))
        or not (opening < closing).all()
        or not (opening[1:] > closing[:-1]).all()
    ):
        return None
    counts = np.searchsorted(starts, closing) - np.searchsorted(starts, opening)
    if counts.sum() != len(starts):
        return None
    return counts, _values(digits, starts, lengths)


def _values(digits: NDArray[np.uint8], starts: Index, lengths: Index) -> Ids:
    values = np.zeros(len(starts), dtype=np.int64)
    for place in range(lengths.max(initial=0)):
        longer = lengths > place
        values[longer] = values[longer] * 10 + digits[starts[longer] + place]
    return values


def quick(data: bytes | mmap, *, dtypes: bool = True) -> Sections | None:
    """Read a profile; None if it needs the lenient reader.

    dtypes: whether to read `in_dtypes`; if not, it is missing in all rows and the variables, which
        are two thirds of a file, are skipped
    """
    try:
        if not dtypes:
            return _sections(_FILE.decode(data), None)
        file = _WIRED_FILE.decode(data)
        inputs = _inputs(file.graph_exec)
        return None if inputs is None else _sections(file, inputs)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return None


def _sections(
    file: StrictFile[StrictGraph] | StrictFile[StrictWiredGraph], inputs: "_Inputs | None"
) -> Sections:
    """Join the sections; each is cleared after reading, so that its memory is reused."""
    profiler, entries = file.profiler, list(file.graph_exec.operator.values())
    operators = IdIndex(id_array(file.graph_exec.operator))
    count = len(entries)
    device = _Side(profiler.device, operators, count)
    host = _Side(profiler.host, operators, count)
    footprints = _at(profiler.opr_footprint, operators, count)
    rows = np.flatnonzero(device.named | host.named | (footprints >= 0))
    kept = [entries[row] for row in rows.tolist()]
    costs, different = _costs(profiler.opr_footprint, footprints[rows])
    return Sections(
        names=[operator.name for operator in kept],
        ids=[operator.id for operator in kept],
        types=[operator.type for operator in kept],
        device=device.times(rows),
        host=host.times(rows),
        computation=_numbers([footprint.computation or _NAN for footprint in different], costs),
        memory=_numbers([footprint.memory for footprint in different], costs),
        costs=costs,
        in_shapes=[bytes(footprint.in_shapes) for footprint in different],
        out_shapes=[bytes(footprint.out_shapes) for footprint in different],
        in_layouts=[bytes(footprint.in_layouts) for footprint in different],
        in_dtypes=inputs.dtypes(rows) if inputs else TextColumn.missing(len(rows)),
    )


def _at(section: dict[int, Any], operators: IdIndex, count: int) -> Index:
    """Return (count,) the position of each operator in a section, -1 if it is absent."""
    places = operators.find(id_array(section))
    at = np.full(count, -1, dtype=np.intp)
    known = np.flatnonzero(places >= 0)
    at[places[known]] = known
    return at


class _Side:
    """Times of one side, by operator.

    named: (count,) bool, whether the section contains the operator, even if without times
    """

    def __init__(
        self, section: dict[int, dict[str, StrictTimes]], operators: IdIndex, count: int
    ) -> None:
        nodes = list(section.values())
        at = _at(section, operators, count)
        self.named = at >= 0
        self._at = at
        self._counts = np.fromiter(map(len, nodes), dtype=np.intp, count=len(nodes))
        times = list(chain.from_iterable(map(dict.values, nodes)))
        start, end, kern = (
            np.fromiter(map(attrgetter(field), times), np.float64, len(times))
            for field in ("start", "end", "kern")
        )
        with np.errstate(invalid="ignore", over="ignore"):
            self._end_s = largest(end - start, self._counts)
            self._kern_s = largest(kern - start, self._counts)
        section.clear()

    def times(self, rows: Index) -> SideTimes:
        at = self._at[rows]
        present = at >= 0
        present[present] = self._counts[at[present]] > 0
        end_s, kern_s = np.full((2, len(rows)), np.nan)
        end_s[present] = self._end_s[at[present]]
        kern_s[present] = self._kern_s[at[present]]
        return SideTimes(present=present, end_s=end_s, kern_s=kern_s)


def _costs(section: dict[int, Raw], at: Index) -> tuple[Index, list[StrictFootprint]]:
    """Decode each distinct footprint once, since networks repeat their layers."""
    # index -1 selects the last entry, which stands for operators without a footprint
    every = [*section.values(), _NO_FOOTPRINT]
    section.clear()
    codes, different = dictionary_encode([bytes(every[place]) for place in at.tolist()])
    return codes, _FOOTPRINTS.decode(b"[" + b",".join(different) + b"]")


def _numbers(values: list[float], costs: Index) -> NumberColumn:
    """Make a column in which nan means absent; this reader rejects files that contain nan."""
    column = np.array(values, dtype=np.float64)[costs]
    return NumberColumn(column, ~np.isnan(column))


@dataclass(frozen=True, eq=False)
class _Inputs:
    """The variables of all n operators.

    codes: (v,) codes of the variables' dtypes; names: the distinct dtypes
    lengths: (2 n,) lengths of the lists of inputs and outputs, alternating
    places: positions of all their variables, concatenated
    """

    codes: Index
    names: list[str | None]
    lengths: Index
    places: Index

    def dtypes(self, rows: Index) -> TextColumn:
        """Return the dtypes of the inputs of some operators, a JSON list for each operator."""
        ends = np.cumsum(self.lengths)[::2][rows]
        starts = ends - self.lengths[::2][rows]
        # equal lists have equal bytes
        data, size = self.codes[self.places].tobytes(), self.codes.itemsize
        lists = [
            data[start:end]
            for start, end in zip((starts * size).tolist(), (ends * size).tolist(), strict=True)
        ]
        which, different = dictionary_encode(lists)
        texts = [self._text(np.frombuffer(data, self.codes.dtype)) for data in different]
        return TextColumn(which.astype(np.int32), tuple(texts))

    def _text(self, codes: Index) -> str:
        return msgspec.json.encode([self.names[code] for code in codes]).decode()


def _inputs(graph: StrictWiredGraph) -> _Inputs | None:
    """Read the lists of inputs and outputs; None if they hold anything but known plain ids."""
    entries = graph.operator.values()
    read = id_lists(list(chain.from_iterable(map(attrgetter("input", "output"), entries))))
    if read is None:
        return None
    lengths, ids = read
    places = IdIndex(id_array(graph.var)).find(ids)
    if (places < 0).any():
        return None
    codes, names = dictionary_encode([variable.dtype for variable in graph.var.values()])
    graph.var.clear()
    return _Inputs(codes, names, lengths, places)
