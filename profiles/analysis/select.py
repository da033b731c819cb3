"""Evaluate a query: which rows of a profile, in which order, with which numbers.

The steps are those of `profile_analyze`: filter, limits of time, aggregate, sort. The caller
applies the row limit (`-t`) as a slice of the selection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.analysis.errors import AnalysisError
from profiles.analysis.name_pattern import Matcher, PatternError, linear_time
from profiles.analysis.totals import check_device_total
from profiles.formats.columns import (
    MISSING,
    NumberColumn,
    ProfileColumns,
    Side,
    SideTimes,
    TextColumn,
    take_rows,
)

#: sort keys of rows; `opr_id` is what `profile_analyze` calls the id
Order = Literal[
    "time", "computation", "flops", "memory", "bandwidth", "opr_id", "in_shapes", "out_shapes"
]
Aggregate = Literal["", "sum", "mean", "max", "min"]


@dataclass(frozen=True)
class Query:
    """The options of `profile_analyze`, one field each, and a plain-text search.

    types: operator types to keep; empty for all
    name: regular expression, anchored at the start of the name; empty for all
    text: case-insensitive plain text that occurs anywhere in the name or the type; empty for all.
        Only the pages have this filter, `profile_analyze` does not.
    input_dtype: dtype of any input, as in `ProfileColumns.in_dtypes`; empty for all
    top_end: whether the self time ends at the operator's end or at its first kernel
    min_s, max_s: inclusive limits of the self time, s
    aggregate: over all rows, or with `by_type` over the rows of each type
    ascending: smallest first; by default, the largest comes first
    """

    side: Side = "device"
    types: tuple[str, ...] = ()
    name: str = ""
    text: str = ""
    input_dtype: str = ""
    top_end: Literal["end", "kern"] = "end"
    min_s: float | None = None
    max_s: float | None = None
    aggregate: Aggregate = ""
    by_type: bool = False
    order: Order = "time"
    ascending: bool = False


#: compiles a pattern to a matcher; raises ValueError, as `re.compile` does
Compile = Callable[[str], Matcher]

Floats = NDArray[np.float64]
RowOrder = NDArray[np.intp]

_FUNCTIONS: dict[str, Callable[[Floats], np.float64]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
}

#: sort keys that `profile_analyze` cannot compare, so that it only accepts a single row
_ONE_ROW_COLUMNS = ("info", "in_layouts")


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """The measurements of m operators, or of m groups of them, before sorting.

    rows: (m,) intp, rows of `ProfileColumns`; MISSING for a group
    types: operator types; `all` for the group of all operators
    counts: (m,) int64, operators per row; 1 if rows are operators
    self_s: (m,) float64, s, as the query's `top_end` defines it; the aggregate for a group
    computation: operations
    memory: bytes
    """

    rows: NDArray[np.intp]
    types: TextColumn
    counts: NDArray[np.int64]
    self_s: Floats
    computation: NumberColumn
    memory: NumberColumn


@dataclass(frozen=True, eq=False)
class Selection(MeasuredRows):
    """The m rows that match a query, in order: operators or groups of them.

    total_s: sum of the `end` times of all operators of the side, also of those filtered out; nan if
        none was timed
    flops: 1/s, computation / self_s
    bandwidth: bytes/s, memory / self_s
    """

    side: Side
    is_grouped: bool
    total_s: float
    flops: NumberColumn
    bandwidth: NumberColumn

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def ratio(self) -> Floats:
        """(m,) self_s / total_s; nan, or inf, if that is 0."""
        return self._share(self.self_s)

    @cached_property
    def cumulative_s(self) -> Floats:
        """(m,) running sum of the self times up to and including each row, s."""
        with np.errstate(invalid="ignore", over="ignore"):
            # `profile_analyze` starts from 0, so a first time of -0.0 becomes 0.0
            return np.asarray(np.cumsum(self.self_s) + 0.0)

    @cached_property
    def cumulative_ratio(self) -> Floats:
        """(m,) cumulative_s / total_s."""
        return self._share(self.cumulative_s)

    def _share(self, times_s: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return times_s / np.float64(self.total_s)


def select(columns: ProfileColumns, query: Query, *, matches: Compile = linear_time) -> Selection:
    """Return all rows that match `query`.

    matches: compiles `query.name`; the default runs in linear time and supports fewer features than
        `re`

    Raises AnalysisError if the device total is 0 or the query is invalid.
    """
    if query.by_type and not query.aggregate:
        raise AnalysisError(
            "aggregate_missing", "To aggregate by type, say how: sum, mean, max or min."
        )
    check_device_total(columns)
    total_s = columns.times(query.side).total_s()
    measured = _filter_operators(columns, query, matches)
    if query.aggregate:
        measured = _aggregate_operators(measured, query.aggregate, by_type=query.by_type)
    selection = Selection(
        **vars(measured),
        side=query.side,
        is_grouped=bool(query.aggregate),
        total_s=np.nan if total_s is None else total_s,
        flops=_per_second(measured.computation, measured.self_s),
        bandwidth=_per_second(measured.memory, measured.self_s),
    )
    return take_rows(selection, _order(columns, query, selection))


def _filter_operators(columns: ProfileColumns, query: Query, matches: Compile) -> MeasuredRows:
    """Return the operators that pass all filters, in the order of the file."""
    times = columns.times(query.side)
    end_s = times.end_s if query.top_end == "end" else times.kern_s
    rows = np.flatnonzero(_row_mask(columns, query, times, end_s))
    if query.text:
        rows = _filter_by_text(columns, rows, query.text)
    if query.name:
        rows = _filter_by_name(columns, rows, query.name, matches)
    return MeasuredRows(
        rows=rows,
        types=take_rows(columns.types, rows),
        counts=np.ones(len(rows), dtype=np.int64),
        self_s=end_s[rows],
        computation=take_rows(columns.computation, rows),
        memory=take_rows(columns.memory, rows),
    )


def _row_mask(
    columns: ProfileColumns, query: Query, times: SideTimes, self_s: Floats
) -> NDArray[np.bool_]:
    passing = times.present
    if query.types:
        passing = passing & columns.types.where(query.types.__contains__)
    if query.input_dtype:
        # null stands for a variable without a memory plan, which has no dtype and therefore does
        # not match
        passing = passing & columns.in_dtypes.where(
            lambda text: query.input_dtype in msgspec.json.decode(text)
        )
    # nan passes every limit
    if query.min_s is not None:
        passing = passing & ~(self_s < query.min_s)
    if query.max_s is not None:
        passing = passing & ~(self_s > query.max_s)
    return passing


def _filter_by_text(columns: ProfileColumns, rows: NDArray[np.intp], text: str) -> NDArray[np.intp]:
    """Return the `rows` whose name or type contains a text, ignoring case."""
    needle, names = text.casefold(), columns.names
    by_type = columns.types.where(lambda type_: needle in type_.casefold())[rows]
    others = np.flatnonzero(~by_type)
    by_type[others] = [needle in names[row].casefold() for row in rows[others].tolist()]
    return rows[by_type]


def _filter_by_name(
    columns: ProfileColumns, rows: NDArray[np.intp], pattern: str, matches: Compile
) -> NDArray[np.intp]:
    names = columns.names
    try:
        match = matches(pattern)
        kept = [bool(match(names[row])) for row in rows.tolist()]
    except PatternError as error:
        raise AnalysisError("bad_pattern", str(error)) from error
    return rows[np.array(kept, dtype=np.bool_)]


def _aggregate_operators(
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


def _per_second(amount: NumberColumn, self_s: Floats) -> NumberColumn:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return NumberColumn(amount.values / self_s, amount.present)


def _order(columns: ProfileColumns, query: Query, selection: Selection) -> RowOrder:
    if query.order not in get_args(Order):
        return _unordered(query, len(selection))
    if query.order in ("opr_id", "in_shapes", "out_shapes"):
        return _text_order(columns, query, selection.rows)
    number = {
        "time": NumberColumn(selection.self_s, np.ones(len(selection), dtype=np.bool_)),
        "computation": selection.computation,
        "flops": selection.flops,
        "memory": selection.memory,
        "bandwidth": selection.bandwidth,
    }[query.order]
    return number_order(number, ascending=query.ascending)


def _unordered(query: Query, count: int) -> RowOrder:
    """Return the file's order for an unknown or incomparable sort key.

    Like `profile_analyze`, this raises AnalysisError only if there are rows, and for keys that
    cannot be compared only from two rows on.
    """
    if count > 1 or (count and not (query.ascending and query.order in _ONE_ROW_COLUMNS)):
        raise AnalysisError("unknown_column", f"There is no column {query.order!r} to order by.")
    return np.arange(count)


def _text_order(columns: ProfileColumns, query: Query, rows: NDArray[np.intp]) -> RowOrder:
    """Return the order by a key that only operators have; groups keep their order."""
    if query.aggregate:
        return np.arange(len(rows))
    if query.order == "opr_id":
        return integer_order(columns.id_numbers[rows], ascending=query.ascending)
    shapes = columns.in_shapes if query.order == "in_shapes" else columns.out_shapes
    ranks = _shape_ranks(shapes)[shapes.codes[rows]]
    return number_order(NumberColumn(ranks, ranks != MISSING), ascending=query.ascending)


def _shape_ranks(shapes: TextColumn) -> Floats:
    """Rank texts of shapes as Python compares lists; MISSING for null and, at the end, no text."""
    lists: list[Any] = [msgspec.json.decode(text) for text in shapes.values]
    known = [at for at, value in enumerate(lists) if value is not None]
    try:
        order = sorted(known, key=lists.__getitem__)
    except TypeError:
        # not only numbers: any order is acceptable as long as it is deterministic
        lists = list(shapes.values)
        order = sorted(known, key=lists.__getitem__)
    ranks = np.full(len(lists) + 1, float(MISSING))
    rank, before = -1, None
    for at in order:
        rank += lists[at] != before
        ranks[at], before = rank, lists[at]
    return ranks


def number_order(column: NumberColumn, *, ascending: bool) -> RowOrder:
    """Return the (m,) order of a column; missing numbers come last in both directions."""
    known = np.flatnonzero(column.present)
    values = column.values[known]
    order = known[ascending_order(values if ascending else -values)]
    if len(known) == len(column.values):
        return order
    return np.concatenate([order, np.flatnonzero(~column.present)])


def integer_order(values: NDArray[np.int64], *, ascending: bool) -> RowOrder:
    """Return the (m,) order of integers."""
    # the complement reverses the order as the negative does, and cannot overflow
    return np.argsort(values if ascending else ~values, kind="stable")


def ascending_order(keys: NDArray[np.float64]) -> RowOrder:
    """Return the (m,) stable ascending order of keys.

    `profile_analyze` compares nan like any other number, which moves the other rows about. If its
    order keeps the other rows sorted, it is used, wherever it puts nan; otherwise nan comes last.
    """
    if not np.isnan(keys).any():
        return np.argsort(keys, kind="stable")
    # the same sort with the same comparisons as `profile_analyze`
    numbers = keys.tolist()
    order = np.array(sorted(range(len(numbers)), key=numbers.__getitem__), dtype=np.intp)
    ordered = keys[order]
    others = ordered[~np.isnan(ordered)]
    if (others[:-1] <= others[1:]).all():
        return order
    return np.argsort(keys, kind="stable")
