"""The rows of a selection as numbers and as the cells of `profile_analyze`."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.cells import NO_SHAPES, info_lines, shape_lines
from profiles.analysis.numbers import percent, short, with_unit
from profiles.analysis.query import Query
from profiles.analysis.select import Selection, select
from profiles.parsers.columns import MISSING, NumberColumn, ProfileColumns, Side

Cells = tuple[tuple[str, ...], ...]
Number = float | None
Numbers = tuple[float, float, float, float, Number, Number, Number, Number]


@dataclass(frozen=True, slots=True)
class Row:
    """One operator, or one group. `None` is the tool's `N/A`; numbers may be inf or nan.

    operator: row of the columns, MISSING for a group
    name, id: those of the operator; of a group the type, and `N/A`
    count: operators in the row
    ratio: self time / total of the side (1 is all of it); nan if that total is 0
    cumulative_s, cumulative_ratio: running sum over this row and those above it
    flops: operations per second; bandwidth_bytes_per_s: memory / self time
    cells: for each header the lines of the cell
    """

    operator: int
    name: str
    type: str
    id: str
    count: int
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


def table(columns: ProfileColumns, *, side: Side = "device", top: int = 3) -> Table:
    """Return the `top` operators with the longest self time.

    top: number of rows; 0 is all, -n all but the last n

    Raises AnalysisError if the device total is 0, also for the host's table.
    """
    selection = select(columns, Query(side=side))
    return Table(headers(side), rows(columns, selection, 0, top or None))


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


def rows(
    columns: ProfileColumns, selection: Selection, start: int = 0, stop: int | None = None
) -> tuple[Row, ...]:
    """Return `selection[start:stop]`, with the places of Python's slices."""
    places = range(*slice(start, stop).indices(len(selection)))
    cut = slice(places.start, max(places.start, places.stop))
    operators = selection.rows[cut]
    shapes = _group_shapes(len(places)) if selection.is_grouped else _shapes(columns, operators)
    lines = zip(
        places,
        operators.tolist(),
        selection.types.codes[cut].tolist(),
        selection.counts[cut].tolist(),
        _numbers(selection, cut),
        *shapes,
        strict=True,
    )
    made = []
    numbers: Numbers
    for place, operator, code, count, numbers, in_lines, out_lines in lines:
        kind = selection.types.values[code] if code != MISSING else ""
        if selection.is_grouped:
            name, identity, info = kind, "N/A", (kind, str(count), "N/A")
        else:
            name, identity = columns.names[operator], columns.ids[operator]
            info = (name, kind, identity)
        cells = (*_cells(place, numbers, info), in_lines, out_lines)
        made.append(Row(operator, name, kind, identity, count, *numbers, cells))
    return tuple(made)


def _numbers(selection: Selection, cut: slice) -> Iterator[Numbers]:
    """The eight numbers of each row, from the self time to the bandwidth."""
    return zip(
        selection.self_s[cut].tolist(),
        selection.ratio[cut].tolist(),
        selection.cumulative_s[cut].tolist(),
        selection.cumulative_ratio[cut].tolist(),
        _optional(selection.computation, cut),
        _optional(selection.flops, cut),
        _optional(selection.memory, cut),
        _optional(selection.bandwidth, cut),
        strict=True,
    )


def _cells(place: int, numbers: Numbers, info: tuple[str, ...]) -> Cells:
    """All cells but the two of shapes."""
    self_s, ratio, cumulative_s, cumulative_ratio, computation, flops, memory, bandwidth = numbers
    return (
        (f"#{place}", short(self_s), percent(ratio)),
        (short(cumulative_s), percent(cumulative_ratio)),
        info_lines(info),
        with_unit(computation, ("FLO", "FLO"), 1000),
        with_unit(flops, ("FLOPS", "FLOPS"), 1000),
        with_unit(memory, ("byte", "iB"), 1024),
        with_unit(bandwidth, ("byte/s", "iB/s"), 1024),
    )


def _optional(column: NumberColumn, cut: slice) -> list[float | None]:
    values, present = column.values[cut].tolist(), column.present[cut].tolist()
    return [value if known else None for value, known in zip(values, present, strict=True)]


def _group_shapes(count: int) -> tuple[Cells, Cells]:
    return ((NO_SHAPES,),) * count, ((NO_SHAPES,),) * count


def _shapes(columns: ProfileColumns, operators: NDArray[np.intp]) -> tuple[Cells, Cells]:
    """Return the cells of in_shapes and out_shapes, each different one made once."""
    known: dict[tuple[str | None, str | None], tuple[str, ...]] = {}

    def lines(shapes: str | None, layouts: str | None) -> tuple[str, ...]:
        key = (shapes, layouts)
        if key not in known:
            known[key] = shape_lines(shapes, layouts)
        return known[key]

    return (
        tuple(lines(columns.in_shapes[row], columns.in_layouts[row]) for row in operators),
        tuple(lines(columns.out_shapes[row], None) for row in operators),
    )
