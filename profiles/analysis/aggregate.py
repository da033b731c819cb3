"""Aggregate operators: over all of them, or over the operators of each type."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.query import Aggregate
from profiles.formats.columns import MISSING, NumberColumn, TextColumn

Floats = NDArray[np.float64]

_FUNCTIONS: dict[str, Callable[[Floats], np.float64]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
}


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """The measurements of m operators, or of m groups of them, before sorting.

    rows: (m,) rows of `ProfileColumns`, MISSING for a group
    counts: (m,) number of operators
    self_s: (m,) s
    computation: operations
    memory: bytes
    """

    rows: NDArray[np.intp]
    types: TextColumn
    counts: NDArray[np.int64]
    self_s: Floats
    computation: NumberColumn
    memory: NumberColumn


def aggregate_operators(
    operators: MeasuredRows, aggregate: Aggregate, *, by_type: bool
) -> MeasuredRows:
    """Return one row per type, in order of first appearance, or one row for all operators.

    Missing numbers are skipped: sums and extremes are taken over the others, and a mean divides
    their sum by the number of all operators, as `profile_analyze` does. Without operators there is
    no row.
    """
    groups, types = _groups(operators.types, by_type=by_type)
    function = _FUNCTIONS[aggregate]
    computation = [_number(operators.computation, group, aggregate) for group in groups]
    memory = [_number(operators.memory, group, aggregate) for group in groups]
    with np.errstate(invalid="ignore", over="ignore"):
        self_s = [function(operators.self_s[group]) for group in groups]
    return MeasuredRows(
        rows=np.full(len(groups), MISSING, dtype=np.intp),
        types=types,
        counts=np.array([len(group) for group in groups], dtype=np.int64),
        self_s=np.array(self_s, dtype=np.float64),
        # a computation of 0 means unknown, as for a single operator
        computation=_column([None if value == 0 else value for value in computation]),
        memory=_column(memory),
    )


def _groups(types: TextColumn, *, by_type: bool) -> tuple[list[NDArray[np.intp]], TextColumn]:
    """Return the indices of each group, ascending, and the types of the groups."""
    count = len(types)
    if not count:
        return [], TextColumn(types.codes, types.values)
    if not by_type:
        return [np.arange(count)], TextColumn(np.zeros(1, dtype=np.int32), ("all",))
    # numpy sorts 16-bit integers with a radix sort, which is several times faster
    small = len(types.values) <= np.iinfo(np.int16).max
    codes = types.codes.astype(np.int16) if small else types.codes
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    groups = sorted(np.split(order, starts), key=lambda group: group[0])
    firsts = np.array([group[0] for group in groups], dtype=np.intp)
    return groups, TextColumn(types.codes[firsts], types.values)


def _number(column: NumberColumn, group: NDArray[np.intp], aggregate: Aggregate) -> float | None:
    present = column.present[group]
    known = column.values[group][present]
    if not known.size:
        return None
    if aggregate in ("max", "min"):
        return float(_FUNCTIONS[aggregate](known))
    with np.errstate(invalid="ignore", over="ignore"):
        # if numbers are missing, `profile_analyze` adds sequentially; otherwise numpy sums pairwise
        total = np.sum(known) if known.size == present.size else np.cumsum(known)[-1]
    return float(total if aggregate == "sum" else total / present.size)


def _column(values: list[float | None]) -> NumberColumn:
    present = np.array([value is not None for value in values], dtype=np.bool_)
    return NumberColumn(np.array(values, dtype=np.float64), present)
