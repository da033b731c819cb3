"""Sum the self times of one side by operator type and by scope of names."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.cumulative import sound_rows
from profiles.analysis.scopes import scopes_of
from profiles.formats.columns import MISSING, SideTimes, TextColumn
from profiles.formats.load_and_run.graph import ExecutedGraph, Index

Floats = NDArray[np.float64]

#: most operators of a scope that are drawn as leaves; the remaining ones are merged into one leaf
MOST_LEAVES = 1500
#: deepest level of nested scopes; deeper scopes are merged
MOST_DEPTH = 12


@dataclass(frozen=True, eq=False)
class TypeTimes:
    """Times of t operator types, slowest first.

    codes: (t,) int32, index into the column's values
    times_s: (t,) float64, sum of self times, s
    operators: (t,) int64, number of timed operators of each type
    left_out: operators whose time is negative, nan, or beyond `LONGEST_S`
    """

    codes: Index
    times_s: Floats
    operators: NDArray[np.int64]
    total_s: float
    left_out: int


def time_by_type(types: TextColumn, times: SideTimes) -> TypeTimes:
    """Sum self times by operator type; operators without a type are left out."""
    sound, left_out = sound_rows(times)
    sound = sound[types.codes[sound] != MISSING]
    size = len(types.values)
    sums = np.zeros(size)
    np.add.at(sums, types.codes[sound], times.end_s[sound])
    counts = np.bincount(types.codes[sound], minlength=size)
    order = np.argsort(-sums, kind="stable")
    order = order[counts[order] > 0]
    return TypeTimes(
        codes=order.astype(np.int32),
        times_s=sums[order],
        operators=counts[order],
        total_s=float(sums.sum()),
        left_out=left_out,
    )


@dataclass
class ScopeTimes:
    """A scope of names and its content; `name` is relative to the enclosing scope.

    rows: operators that are leaves
    times_s: their self times, s
    more: rows of the operators that are not leaves
    more_s: the sum of their self times, s
    """

    name: str
    scopes: dict[str, "ScopeTimes"] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    more: list[int] = field(default_factory=list)
    more_s: float = 0.0

    def total_s(self) -> float:
        """Return the time of all operators in this scope and the scopes below it."""
        return sum(self.times_s) + self.more_s + sum(s.total_s() for s in self.scopes.values())


def scope_paths(graph: ExecutedGraph, rows: int) -> list[tuple[str, ...]]:
    """Return for each row of `ProfileColumns` its enclosing scopes, outermost first.

    Operators without inputs, such as weights, do not take the scopes of their readers.
    """
    order = graph.execution_order()
    inputs = np.diff(graph.operators.inputs.ends, prepend=0)[order]
    paths: list[tuple[str, ...]] = [()] * rows
    for places in (order[inputs > 0], order[inputs == 0]):
        for place, scope in zip(places.tolist(), scopes_of(graph, places), strict=True):
            if (row := int(graph.operators.row[place])) != MISSING:
                paths[row] = scope
    return paths


def scope_tree(
    paths: Sequence[tuple[str, ...]], times: SideTimes, *, leaves: int = MOST_LEAVES
) -> ScopeTimes:
    """Return the tree of scopes with the operators of one side whose time is not 0.

    paths: for each of n operators a tuple of its enclosing scopes, outermost first
    """
    sound, _ = sound_rows(times)
    timed = sound[times.end_s[sound] > 0]
    timed = timed[np.argsort(-times.end_s[timed], kind="stable")]
    root = ScopeTimes("")
    for place, (row, time_s) in enumerate(
        zip(timed.tolist(), times.end_s[timed].tolist(), strict=True)
    ):
        scope = root
        for name in paths[row][:MOST_DEPTH]:
            scope = scope.scopes.setdefault(name, ScopeTimes(name))
        if place < leaves:
            scope.rows.append(row)
            scope.times_s.append(time_s)
        else:
            scope.more.append(row)
            scope.more_s += time_s
    return root
