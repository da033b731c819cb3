"""The operators of one side, slowest first, as numbers and as the cells of `profile_analyze`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.cells import info_lines, shape_lines
from profiles.analysis.numbers import percent, short, with_unit
from profiles.analysis.totals import totals
from profiles.parsers.columns import NumberColumn, ProfileColumns, Side

Cells = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Row:
    """One operator. `None` is the tool's `N/A`; numbers may be inf or nan (a time of 0).

    operator: index into the columns
    ratio: self time / total of the side (1 is all of it); nan if that total is 0
    cumulative_s, cumulative_ratio: running sum over this row and those above it
    flops: operations per second; bandwidth_bytes_per_s: memory / self time
    cells: for each header the lines of the cell
    """

    operator: int
    name: str
    type: str
    id: str
    self_s: float
    ratio: float
    cumulative_s: float
    cumulative_ratio: float
    computation_flo: float | None
    flops: float | None
    memory_bytes: float | None
    bandwidth_bytes_per_s: float | None
    cells: Cells


@dataclass(frozen=True)
class Table:
    """Headers, and rows with as many cells each."""

    headers: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numbers of the m rows of a table.

    times: m times self time, its ratio, running sum, its ratio
    flops, bandwidth: (m,) float64, 1/s, nan where there is none
    """

    times: list[tuple[float, float, float, float]]
    flops: NDArray[np.float64]
    bandwidth: NDArray[np.float64]


def table(columns: ProfileColumns, *, side: Side = "device", top: int = 3) -> Table:
    """Return the `top` operators with the longest self time.

    top: number of rows; 0 is all, -n all but the last n

    Raises AnalysisError if the device total is 0, also for the host's table.
    """
    total_s = totals(columns).side_s(side)
    rows = np.flatnonzero(columns.times(side).present)
    rows = rows[longest_first(columns.times(side).end_s[rows])]
    if top:
        rows = rows[:top]
    numbers = _numbers(columns, side, rows, np.nan if total_s is None else total_s)
    return Table(headers(side), _rows(columns, rows, numbers))


def headers(side: Side) -> tuple[str, ...]:
    """Return the column titles of a table."""
    return (
        f"{side} self time",
        "cumulative",
        "operator info",
        "computation",
        "FLOPS",
        "memory",
        "bandwidth",
        "in_shapes",
        "out_shapes",
    )


def longest_first(times_s: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the (n,) order of falling times; equal times keep their order.

    times_s: (n,) float64
    """
    falling = -times_s
    if np.isnan(falling).any():
        # no total order: only the same sort with the same comparisons gives the tool's order
        keys = falling.tolist()
        return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)
    return np.argsort(falling, kind="stable")


def _numbers(
    columns: ProfileColumns, side: Side, rows: NDArray[np.intp], total_s: float
) -> _Numbers:
    self_s = columns.times(side).end_s[rows]
    total = np.float64(total_s)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # the tool starts from 0, so that a first time of -0.0 becomes 0.0
        cumulative_s = np.cumsum(self_s) + 0.0
        times = (self_s, self_s / total, cumulative_s, cumulative_s / total)
        return _Numbers(
            times=list(zip(*(column.tolist() for column in times), strict=True)),
            flops=columns.computation.values[rows] / self_s,
            bandwidth=columns.memory.values[rows] / self_s,
        )


def _rows(columns: ProfileColumns, rows: NDArray[np.intp], numbers: _Numbers) -> tuple[Row, ...]:
    computation = _optional(columns.computation, columns.computation.values[rows], rows)
    flops = _optional(columns.computation, numbers.flops, rows)
    memory = _optional(columns.memory, columns.memory.values[rows], rows)
    bandwidth = _optional(columns.memory, numbers.bandwidth, rows)
    in_shapes, out_shapes = _shape_cells(columns, rows)
    made = []
    for place, row in enumerate(rows.tolist()):
        self_s, ratio, cumulative_s, cumulative_ratio = numbers.times[place]
        info = (columns.names[row], columns.types[row] or "", columns.ids[row])
        costs = (computation[place], flops[place], memory[place], bandwidth[place])
        cells = (
            (f"#{place}", short(self_s), percent(ratio)),
            (short(cumulative_s), percent(cumulative_ratio)),
            info_lines(info),
            with_unit(computation[place], ("FLO", "FLO"), 1000),
            with_unit(flops[place], ("FLOPS", "FLOPS"), 1000),
            with_unit(memory[place], ("byte", "iB"), 1024),
            with_unit(bandwidth[place], ("byte/s", "iB/s"), 1024),
            in_shapes[place],
            out_shapes[place],
        )
        made.append(Row(row, *info, self_s, ratio, cumulative_s, cumulative_ratio, *costs, cells))
    return tuple(made)


def _optional(
    column: NumberColumn, values: NDArray[np.float64], rows: NDArray[np.intp]
) -> list[float | None]:
    """Replace by None the values that rest on an absent number.

    values: (m,) float64, those of the m rows
    """
    present = column.present[rows].tolist()
    return [v if known else None for v, known in zip(values.tolist(), present, strict=True)]


def _shape_cells(columns: ProfileColumns, rows: NDArray[np.intp]) -> tuple[Cells, Cells]:
    """Return the cells of in_shapes and out_shapes, each different one made once."""
    known: dict[tuple[str | None, str | None], tuple[str, ...]] = {}

    def lines(shapes: str | None, layouts: str | None) -> tuple[str, ...]:
        key = (shapes, layouts)
        if key not in known:
            known[key] = shape_lines(shapes, layouts)
        return known[key]

    return (
        tuple(lines(columns.in_shapes[row], columns.in_layouts[row]) for row in rows),
        tuple(lines(columns.out_shapes[row], None) for row in rows),
    )
