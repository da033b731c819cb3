"""Read `memory_flow.svg` into numpy columns, so that memory usage does not grow with its text.

The format of MegEngine 1.13.0, from its source (imperative/src/impl/profiler/memory_chunk.cpp) and
from files of real runs:

- There is one rectangle per tensor with memory. `x` and `width` are times in units of 100 us,
  truncated; `y` and `height` are addresses in units of 1,000,000 bytes; both start at the first
  tensor. They are not read, since other attributes hold the same values with more precision.
- `fill` encodes the lifetime of a tensor: up to 0 `#DDDDDD`, 100 us `#CCCCCC`, 1 ms `#BBBBBB`,
  10 ms `#AAAAAA`, 100 ms `#999999`, 1 s `#888888`, longer `#555555`.
- `produced` and `erased` are times since the start of the Profiler, by the device's clock;
  `duration` is their difference. An empty text is 0. When the Profiler stops, it releases all
  tensors, so a tensor that outlives it is erased at the very end of the file. A tensor without a
  recorded release has an empty `erased`, which is less than its `produced`.
- `size` spans the lowest to the highest element: a tensor that is broadcast along an axis (stride
  0) is as small as the repeated data.
- `address` is the start of the memory that a tensor shares with all its views, not of the tensor
  itself. The offset of a view within that memory is not in the file, so `a`, `a[5:]` and both
  halves of a split have the same address. With negative strides, MegEngine subtracts the bytes
  below the first element from the address, as if that element were at the start: `a[::-1]` of a
  tensor of 4 MB is nearly 4 MB below `a`. This reader adds them again.
- `group` is the number of the operator that produced the tensor, `__id__` of a trace (`states.h`;
  not confirmed by runs, as none writes both files). Tensors created by Python have none, and those
  from before the start of the Profiler mostly have no name either.
"""

import re
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import InternedTexts
from profiles.formats.errors import ProfileFormatError
from profiles.formats.memory_flow.elements import ADDRESS, TAG, Attributes, RectangleReader
from webprofile.integers import parse_int

#: maximum number of rectangles
TENSORS_LIMIT = 1_000_000
#: maximum number of distinct texts, and of their characters in total; further texts share one code
TEXTS_LIMIT, TEXTS_LENGTH_LIMIT = 500_000, 32 << 20
LONGEST_NAME, LONGEST_LAYOUT = 300, 200
NONE = -1
#: maximum size of a tensor; the sum of TENSORS_LIMIT such sizes still fits int64
_LARGEST_BYTES = 1 << 42
_LAST_ADDRESS = 1 << 62
_LARGEST_GROUP = 10**18 - 1
_COLUMNS = ("low", "size", "begin_ns", "end_ns", "name", "layout", "group")
#: sizes and times as MegEngine writes them (size2str, time2str): the largest unit comes first, and
#: units that are 0 are omitted, so that 0 is an empty text
_SIZE = re.compile(r"(?:(\d{1,9})GB ?)?(?:(\d{1,4})MB ?)?(?:(\d{1,4})KB ?)?(?:(\d{1,4})B ?)?")
_TIME = re.compile(r"(?:(\d{1,9})s ?)?(?:(\d{1,3})ms ?)?(?:(\d{1,3})us ?)?(?:(\d{1,3})ns ?)?")
_BYTES = (1 << 30, 1 << 20, 1 << 10, 1)
_NS = (1_000_000_000, 1_000_000, 1_000, 1)
#: size and stride of each axis, then the type
_LAYOUT = re.compile(r"\{((?:\d{1,18}\(-?\d{1,18}\),?){1,16}) (.+)\}", re.DOTALL)
_AXIS = re.compile(r"(\d{1,18})\((-?\d{1,18})\)")

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Flow:
    """The n tensors of one file, in the order of the file.

    low: (n,) start address of the memory that the tensor shares; size: (n,) bytes that it spans,
        more than 0; its offset within that memory is unknown
    begin_ns, end_ns: (n,) produced and erased, ns since the start of the Profiler; a tensor that
        was never erased ends at the last time in the file
    is_open: (n,) bool, whether it was never erased
    name, layout: (n,) indices into `names` and `layouts`
    group: (n,) number of the producing operator, NONE if there is none
    broken: number of unreadable rectangles; left_out: number of rectangles beyond TENSORS_LIMIT
    others: number of elements that MegEngine does not write
    is_cut: the file ends before the SVG element does
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
        """(n,) end address, assuming that the tensor starts where its memory does."""
        return self.low + self.size


def read_flow(path: Path) -> Flow:
    """Read a whole file.

    Raises ProfileFormatError: `empty`, `not_utf8`, `not_svg`, `svg_refused`, and `no_memory_flow`
    for an SVG of another program. Invalid rectangles and a truncated file do not raise; the result
    counts them.
    """
    builder = _FlowBuilder()
    with path.open("rb") as file:
        reader = RectangleReader(file)
        for rectangles in reader.pieces():
            for attributes in rectangles:
                builder.add(attributes)
    return builder.done(reader)


def _texts(longest: int) -> InternedTexts:
    return InternedTexts(longest=longest, most=TEXTS_LIMIT, most_chars=TEXTS_LENGTH_LIMIT)


class _FlowBuilder:
    def __init__(self) -> None:
        self._names, self._layouts = _texts(LONGEST_NAME), _texts(LONGEST_LAYOUT)
        self._columns = {name: array("q") for name in _COLUMNS}
        self._appends = [self._columns[name].append for name in _COLUMNS]
        self._broken = self._left_out = 0

    def add(self, attributes: Attributes) -> None:
        if len(self._columns["low"]) >= TENSORS_LIMIT:
            self._left_out += 1
            return
        numbers = _numbers(attributes)
        if numbers is None:
            self._broken += 1
            return
        low, size, begin_ns, end_ns, group = numbers
        name = self._names.code(attributes.get(f"{TAG}name", ""))
        layout = self._layouts.code(attributes.get(f"{TAG}layout", ""))
        row = (low, size, begin_ns, end_ns, name, layout, group)
        for append, value in zip(self._appends, row, strict=True):
            append(value)

    def done(self, reader: RectangleReader) -> Flow:
        columns = {name: np.array(column, np.int64) for name, column in self._columns.items()}
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


def _numbers(attributes: Attributes) -> tuple[int, int, int, int, int] | None:
    """(address, size, produced, erased or NONE, group or NONE); None if a value is invalid."""
    begin_ns, end_ns = (
        ns_of(attributes.get(f"{TAG}produced", "")),
        ns_of(attributes.get(f"{TAG}erased", "")),
    )
    low, size = _address(attributes[ADDRESS]), bytes_of(attributes.get(f"{TAG}size", ""))
    if begin_ns is None or end_ns is None or low is None or size is None:
        return None
    if not 0 < size <= _LARGEST_BYTES:
        return None
    group = attributes.get(f"{TAG}group", "")
    number = parse_int(group, maximum=_LARGEST_GROUP)
    number = NONE if number is None else number
    # an empty text is 0; an end before the begin means that the release was not recorded
    is_open = end_ns == 0 < begin_ns
    layout = attributes.get(f"{TAG}layout", "")
    if "(-" in layout:
        low += bytes_below(layout, size)
    return low, size, begin_ns, NONE if is_open else max(begin_ns, end_ns), number


def _address(text: str) -> int | None:
    if not text.startswith("0x") or len(text) > 18:
        return None
    try:
        address = int(text, 16)
    except ValueError:
        return None
    return address if address < _LAST_ADDRESS else None


def bytes_of(text: str) -> int | None:
    """Parse a size: `3KB 768B ` is 3840; None if the text is not a size."""
    return _sum(_SIZE.fullmatch(text), _BYTES)


def ns_of(text: str) -> int | None:
    """Parse a time: `8ms 327us 403ns ` is 8327403; None if the text is not a time."""
    return _sum(_TIME.fullmatch(text), _NS)


def layout_of(text: str) -> tuple[tuple[int, ...] | None, str]:
    """Parse a layout: `{10(96),96(1) Float32}` is ((10, 96), "Float32"); else (None, "")."""
    match = _LAYOUT.fullmatch(text)
    if match is None:
        return None, ""
    return tuple(int(size) for size, _ in _AXIS.findall(match[1])), match[2]


def bytes_below(layout: str, size_bytes: int) -> int:
    """The number of bytes of a tensor below its first element, because of negative strides.

    `{5(-2),2(1) Float32}` has 8 of its 10 elements there. `size_bytes` spans the lowest to the
    highest element, which gives the size of an element. 0 if the layout cannot be parsed.
    """
    match = _LAYOUT.fullmatch(layout)
    if match is None:
        return 0
    steps = [(int(size) - 1) * int(stride) for size, stride in _AXIS.findall(match[1])]
    return -sum(min(step, 0) for step in steps) * size_bytes // (1 + sum(map(abs, steps)))


def _sum(match: re.Match[str] | None, units: tuple[int, ...]) -> int | None:
    if match is None:
        return None
    return sum(int(n) * unit for n, unit in zip(match.groups("0"), units, strict=True))
