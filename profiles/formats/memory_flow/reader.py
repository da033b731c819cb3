"""`memory_flow.svg` as numpy columns, so that memory does not grow with its text.

What MegEngine 1.13.0 writes, from its source (imperative/src/impl/profiler/
memory_chunk.cpp) and from files of real runs:

- One rectangle for each tensor that has memory. `x` and `width` are times in units of 100 us, cut
  to whole ones, `y` and `height` addresses in units of 1,000,000 bytes; both begin with the first
  tensor. They say less than the attributes beside them, so they are not read.
- `fill` is how long a tensor lived: up to 0 `#DDDDDD`, 100 us `#CCCCCC`, 1 ms `#BBBBBB`, 10 ms
  `#AAAAAA`, 100 ms `#999999`, 1 s `#888888`, longer `#555555`.
- `produced` and `erased` are times since the Profiler began, as the device's clock has them;
  `duration` is their difference. An empty text is 0. The Profiler ends by releasing all tensors:
  one that outlives it is erased within the last moments of the file. One whose release was never
  heard of has an empty `erased` before its `produced`.
- `size` reaches from the lowest element to the end of the highest: a tensor that is spread over an
  axis (stride 0) is as small as what is repeated.
- `address` is where the memory begins that the tensor shares with all views of it, not where the
  tensor does: how far within that memory a view begins is nowhere in the file, so `a`, `a[5:]` and
  both halves of a split have one address. From it MegEngine takes off the bytes that lie below the
  first element where strides are negative, as if that were at the beginning: `a[::-1]` of a tensor
  of 4 MB stands nearly 4 MB below `a`. They are added again here.
- `group` is the number of the operator that made the tensor, `__id__` of a trace (`states.h`; runs
  cannot confirm it, as none writes both files). What came from Python has none, and what was there
  before the Profiler began mostly has no name either.
"""

from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.interning import InternedTexts
from profiles.formats.memory_flow.amounts import bytes_below, bytes_of, ns_of
from profiles.formats.memory_flow.elements import ADDRESS, TAG, Attributes, RectangleReader
from webprofile.integers import parse_int

#: rectangles that are read
TENSORS_LIMIT = 1_000_000
#: different texts that are told apart, and their length together; all others count as one
TEXTS_LIMIT, TEXTS_LENGTH_LIMIT = 500_000, 32 << 20
LONGEST_NAME, LONGEST_LAYOUT = 300, 200
NONE = -1
#: larger ones are no tensors; so many of them can still be added up
_LARGEST_BYTES = 1 << 42
_LAST_ADDRESS = 1 << 62
_LARGEST_GROUP = 10**18 - 1
_COLUMNS = ("low", "size", "begin_ns", "end_ns", "name", "layout", "group")

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Flow:
    """The n tensors of one file, in its order.

    low: (n,) address at which the memory begins that the tensor looks into; size: (n,) bytes that
        it reaches over there, more than 0; how far within it begins is unknown
    begin_ns, end_ns: (n,) produced and erased, ns since the Profiler began; a tensor that was never
        erased ends with the last moment of the file
    is_open: (n,) bool, it was never erased
    name, layout: (n,) into `names` and `layouts`; group: (n,) number of an operator, NONE without
    broken: rectangles that could not be read; left_out: ones beyond TENSORS_LIMIT
    others: elements that MegEngine does not write
    is_cut: the file ends before its picture does
    """

    low: Ints
    size: Ints
    begin_ns: Ints
    end_ns: Ints
    is_open: NDArray[np.bool_]
    name: Ints
    layout: Ints
    group: Ints
    names: tuple[str, ...]
    layouts: tuple[str, ...]
    broken: int
    left_out: int
    others: int
    is_cut: bool

    def __len__(self) -> int:
        return len(self.low)

    @property
    def high(self) -> Ints:
        """(n,) address behind the last byte, as if it began where its memory does."""
        return self.low + self.size


def read_flow(path: Path) -> Flow:
    """Read a whole file.

    Raises ProfileFormatError: `empty`, `not_utf8`, `not_svg`, `svg_refused`, and
    `no_memory_flow` for a picture of another program. What is wrong with single rectangles, and an
    end that is missing, is counted in the result instead.
    """
    making = _Making()
    with path.open("rb") as file:
        reader = RectangleReader(file)
        for rectangles in reader.pieces():
            for each in rectangles:
                making.add(each)
    return making.done(reader)


def _texts(longest: int) -> InternedTexts:
    return InternedTexts(longest=longest, most=TEXTS_LIMIT, most_chars=TEXTS_LENGTH_LIMIT)


class _Making:
    """Columns in the making."""

    def __init__(self) -> None:
        self._names, self._layouts = _texts(LONGEST_NAME), _texts(LONGEST_LAYOUT)
        self._columns = {name: array("q") for name in _COLUMNS}
        self._appends = [self._columns[name].append for name in _COLUMNS]
        self._broken = self._left_out = 0

    def add(self, told: Attributes) -> None:
        if len(self._columns["low"]) >= TENSORS_LIMIT:
            self._left_out += 1
            return
        found = _numbers(told)
        if found is None:
            self._broken += 1
            return
        low, size, begin_ns, end_ns, group = found
        name = self._names.code(told.get(f"{TAG}name", ""))
        layout = self._layouts.code(told.get(f"{TAG}layout", ""))
        row = (low, size, begin_ns, end_ns, name, layout, group)
        for append, value in zip(self._appends, row, strict=True):
            append(value)

    def done(self, reader: RectangleReader) -> Flow:
        columns = {name: np.array(each, np.int64) for name, each in self._columns.items()}
        if not len(columns["low"]) and (self._broken or reader.others or reader.broken):
            raise ProfileFormatError("no_memory_flow", "None of its rectangles is a tensor.")
        is_open = columns["end_ns"] == NONE
        both = np.concatenate([columns["begin_ns"], columns["end_ns"]])
        columns["end_ns"][is_open] = both.max(initial=0)
        return Flow(
            **columns,
            is_open=is_open,
            names=self._names.values(),
            layouts=self._layouts.values(),
            broken=self._broken + reader.broken,
            left_out=self._left_out,
            others=reader.others,
            is_cut=reader.is_cut,
        )


def _numbers(told: Attributes) -> tuple[int, int, int, int, int] | None:
    """(address, size, produced, erased or NONE, group or NONE); None where one is no number."""
    begin_ns, end_ns = ns_of(told.get(f"{TAG}produced", "")), ns_of(told.get(f"{TAG}erased", ""))
    low, size = _address(told[ADDRESS]), bytes_of(told.get(f"{TAG}size", ""))
    if begin_ns is None or end_ns is None or low is None or size is None:
        return None
    if not 0 < size <= _LARGEST_BYTES:
        return None
    group = told.get(f"{TAG}group", "")
    number = parse_int(group, maximum=_LARGEST_GROUP)
    number = NONE if number is None else number
    # an empty text is 0; an end that lies before the beginning is no life
    is_open = end_ns == 0 < begin_ns
    layout = told.get(f"{TAG}layout", "")
    if "(-" in layout:
        low += bytes_below(layout, size)
    return low, size, begin_ns, NONE if is_open else max(begin_ns, end_ns), number


def _address(text: str) -> int | None:
    if not text.startswith("0x") or len(text) > 18:
        return None
    try:
        found = int(text, 16)
    except ValueError:
        return None
    return found if found < _LAST_ADDRESS else None
