"""What is read of a profile before it becomes columns; two ways of reading lead here."""

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

    costs: (n,) which of k footprints is the operator's
    in_shapes, out_shapes, in_layouts: k JSON values as in the file, empty where the key is missing
    All else is as in `ProfileColumns`.
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
    """Return (n,) the maximum of each run of `counts` values, nan for an empty run.

    values: (counts.sum(),) float64; a nan in a run makes its maximum nan, as numpy.max does
    counts: (n,) intp
    """
    found = np.full(len(counts), np.nan)
    if values.size:
        firsts = np.cumsum(counts) - counts
        present = counts > 0
        found[present] = np.maximum.reduceat(values, firsts[present])
    return found


def coded(values: Sequence[Value]) -> tuple[NDArray[np.intp], list[Value]]:
    """Return (n,) codes of values that repeat, and the different ones in order of appearance."""
    # gives a value that was not there yet the next number
    code: defaultdict[Value, int] = defaultdict(count().__next__)
    return np.fromiter(map(code.__getitem__, values), np.intp, len(values)), list(code)
