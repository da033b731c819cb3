"""A profile as numpy columns, with all data that `profile_analyze` needs from the JSON."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import count
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

Side = Literal["device", "host"]
SIDES: tuple[Side, ...] = get_args(Side)

MISSING = -1
#: replaces the end of a text that is too long, and all texts beyond the limits of `InternedTexts`
OTHERS = "…"
Record = TypeVar("Record")


@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column of repeating texts, dictionary-encoded.

    codes: (n,) int32, index into `values`, or MISSING where the file lacks the key
    values: the distinct texts, in order of first appearance
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        """Return the text of one row, None if it is missing."""
        code = self.codes[row]
        return None if code == MISSING else self.values[code]

    @classmethod
    def missing(cls, count: int) -> "TextColumn":
        """Make a column in which every text is missing."""
        return cls(np.full(count, MISSING, np.int32), ())

    def texts(self) -> list[str | None]:
        """Return the n texts, None where one is missing."""
        values = (*self.values, None)
        return [values[code] for code in self.codes.tolist()]

    def where(self, accepts: Callable[[str], object]) -> NDArray[np.bool_]:
        """Return (n,) bool; calls `accepts` once per distinct text. Missing texts give False."""
        # index -1 (MISSING) selects the last element
        accepted = np.array([*(bool(accepts(text)) for text in self.values), False])
        mask: NDArray[np.bool_] = accepted[self.codes]
        return mask

    @classmethod
    def from_texts(cls, texts: Iterable[str | None]) -> "TextColumn":
        """Make a column of n texts; None is a missing text."""
        # assigns the next code to each new text
        code: defaultdict[str | None, int] = defaultdict(count().__next__, {None: MISSING})
        codes = np.fromiter(map(code.__getitem__, texts), dtype=np.int32)
        return cls(codes, tuple(text for text in code if text is not None))


class InternedTexts:
    """Collects the distinct texts of a column in order of first appearance, within limits.

    longest: maximum length of a text in characters; longer texts are cut
    most, most_chars: maximum number of texts and of their characters in total; all further texts
        share one code
    """

    def __init__(self, *, longest: int, most: int, most_chars: int) -> None:
        self._longest, self._most, self._most_chars = longest, most, most_chars
        self._codes: dict[str, int] = {}
        self._chars = 0

    def code(self, text: str) -> int:
        """Return the index of a text in `values`; adds the text if it is new."""
        code = self._codes.get(text)
        return self.new(text) if code is None else code

    def new(self, text: str) -> int:
        """Add a new text and return its code; a subclass may override this to normalise texts."""
        if len(text) > self._longest:
            return self.code(text[: self._longest - 1] + OTHERS)
        if len(self._codes) >= self._most or self._chars >= self._most_chars:
            if (others := self._codes.get(OTHERS)) is not None:
                return others
            text = OTHERS
        self._chars += len(text)
        return self._codes.setdefault(text, len(self._codes))

    def values(self) -> tuple[str, ...]:
        """Return the texts, indexed by their codes."""
        return tuple(self._codes)


@dataclass(frozen=True, eq=False)
class SideTimes:
    """Self times of one side, the device's or the host's.

    A self time is the maximum of `X - start` over the computing nodes (device) or threads (host).
    Values may be negative, inf or nan, since the numbers in the file are not corrected.

    present: (n,) bool, whether the operator was timed on this side; if not, both times are nan
    end_s: (n,) float64, s, with X = `end`
    kern_s: (n,) float64, s, with X = `kern`; nan if the file has none
    """

    present: NDArray[np.bool_]
    end_s: NDArray[np.float64]
    kern_s: NDArray[np.float64]

    def total_s(self) -> float | None:
        """Return the sum of all self times, s, or None if no operator was timed.

        It is a sum of work and not elapsed time, because nodes and threads overlap.
        Uses `end` times and `numpy.sum` (pairwise summation) in the order of the file, as
        `profile_analyze` does; another order would change the last digits.
        """
        if not self.present.any():
            return None
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf
            return float(np.sum(self.end_s[self.present]))


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column of numbers that may be absent (`N/A`), which differs from nan.

    values: (n,) float64, nan where absent
    present: (n,) bool
    """

    values: NDArray[np.float64]
    present: NDArray[np.bool_]

    def optional(self, rows: slice = slice(None)) -> list[float | None]:
        """Return the numbers of some rows, None where a number is absent."""
        pairs = zip(self.values[rows].tolist(), self.present[rows].tolist(), strict=True)
        return [value if present else None for value, present in pairs]


@dataclass(frozen=True, eq=False)
class ProfileColumns:
    """The n operators that have times or a footprint, in the order of `graph_exec.operator`.

    It is the row order before sorting, for both sides, and breaks ties.

    names: n texts as in the file
    ids: n texts as printed; id_numbers: (n,) int64, the same as numbers
    types: operator types
    computation: operations of one execution (a multiply-add counts as 2)
    memory: bytes read and written by one execution
    in_shapes, out_shapes: compact JSON, such as `[[1,3,224,224],[64,3,7,7]]` or `null`
    in_layouts: compact JSON, strides for each input or null; missing if all are contiguous
    in_dtypes: compact JSON list, one dtype for each input, null for a variable without memory
    mentions_opencl: the device total is 0 and the file contains `opencl`, which explains it
    """

    names: tuple[str, ...]
    ids: tuple[str, ...]
    id_numbers: NDArray[np.int64]
    types: TextColumn
    device: SideTimes
    host: SideTimes
    computation: NumberColumn
    memory: NumberColumn
    in_shapes: TextColumn
    out_shapes: TextColumn
    in_layouts: TextColumn
    in_dtypes: TextColumn
    mentions_opencl: bool

    def __len__(self) -> int:
        return len(self.names)

    def times(self, side: Side) -> SideTimes:
        return self.device if side == "device" else self.host


def take_rows(record: Record, rows: NDArray[Any]) -> Record:
    """Return some rows of a record of columns, in the order of `rows`.

    Fields that are not columns are kept unchanged.
    """
    selected: Any = record
    if isinstance(record, np.ndarray):
        selected = record[rows]
    elif isinstance(record, TextColumn):
        selected = TextColumn(record.codes[rows], record.values)
    elif isinstance(record, tuple):
        selected = tuple([record[row] for row in rows.tolist()])
    elif is_dataclass(record) and not isinstance(record, type):
        columns = {f.name: take_rows(getattr(record, f.name), rows) for f in fields(record)}
        selected = replace(record, **columns)
    result: Record = selected
    return result


def empty_columns() -> ProfileColumns:
    nothing, no_text = np.zeros(0), TextColumn.missing(0)
    no_times = SideTimes(np.zeros(0, np.bool_), nothing, nothing)
    no_number = NumberColumn(nothing, np.zeros(0, np.bool_))
    return ProfileColumns(
        names=(),
        ids=(),
        id_numbers=np.zeros(0, np.int64),
        types=no_text,
        device=no_times,
        host=no_times,
        computation=no_number,
        memory=no_number,
        in_shapes=no_text,
        out_shapes=no_text,
        in_layouts=no_text,
        in_dtypes=no_text,
        mentions_opencl=False,
    )
