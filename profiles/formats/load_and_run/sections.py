"""Intermediate form of a profile between decoding and columns, shared by both readers."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import NumberColumn, SideTimes, TextColumn

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Sections:
    """The n operators that have times or a footprint, in the order of `graph_exec.operator`.

    costs: (n,) index of each operator's footprint among k footprints
    in_shapes, out_shapes, in_layouts: k JSON values as in the file, empty if the key is missing
    The other fields are as in `ProfileColumns`.
    """

    names: Sequence[str]
    ids: Sequence[str]
    types: Sequence[str]
    device: SideTimes
    host: SideTimes
    computation: NumberColumn
    memory: NumberColumn
    costs: NDArray[np.intp]
    in_shapes: Sequence[bytes]
    out_shapes: Sequence[bytes]
    in_layouts: Sequence[bytes]
    in_dtypes: TextColumn


def largest(values: NDArray[np.float64], counts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return (n,) the maximum of each group of `counts` consecutive values, nan if it is empty.

    values: (counts.sum(),) float64; a nan in a group makes its maximum nan, as with numpy.max
    counts: (n,) intp
    """
    maxima = np.full(len(counts), np.nan)
    if values.size:
        firsts = np.cumsum(counts) - counts
        present = counts > 0
        maxima[present] = np.maximum.reduceat(values, firsts[present])
    return maxima


def dictionary_encode(values: Sequence[Value]) -> tuple[NDArray[np.intp], list[Value]]:
    """Return (n,) codes of repeating values, and the distinct values in order of appearance."""
    # assigns the next code to each new value
    code: defaultdict[Value, int] = defaultdict(count().__next__)
    return np.fromiter(map(code.__getitem__, values), np.intp, len(values)), list(code)
