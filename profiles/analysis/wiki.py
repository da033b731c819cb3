"""Confluence tables as `profile_analyze --confluence` prints them, with bars of `#`."""

import math
from collections.abc import Sequence

from tabulate import tabulate

from profiles.analysis.cells import NO_SHAPES, shape_text
from profiles.analysis.numbers import percent, short
from profiles.analysis.table import TableRow
from profiles.formats.columns import ProfileColumns

BAR_LENGTH = 15

_INFO = ("opr name", "opr type", "opr id")
_GROUP_INFO = ("opr type", "opr count", "opr id")


def summary(lines: Sequence[tuple[str, str | float]]) -> str:
    """Return the table of the totals."""
    return _drawn(lines, ("name", "value"))


def operators(columns: ProfileColumns, made: Sequence[TableRow], *, is_grouped: bool) -> str:
    """Return the table of operators of one side.

    The length of a bar is proportional to the largest finite number in these rows; missing and
    infinite numbers have no bar.
    """
    time_bars = _bars([row.self_s for row in made])
    flops_bars = _bars([row.flops for row in made])
    bandwidth_bars = _bars([row.bandwidth_bytes_per_s for row in made])
    lines = [
        (
            place,
            short(row.self_s),
            percent(row.ratio),
            time_bars[place],
            row.cumulative_s,
            row.cumulative_ratio,
            *((row.type, row.count, row.id) if is_grouped else (row.name, row.type, row.id)),
            _scale(row.computation_flo, 1000),
            _scale(row.flops, 1000),
            flops_bars[place],
            _scale(row.memory_bytes, 1024),
            _scale(row.bandwidth_bytes_per_s, 1024),
            bandwidth_bars[place],
            *_shapes(columns, row.operator, is_grouped=is_grouped),
        )
        for place, row in enumerate(made)
    ]
    return _drawn(lines, _titles(is_grouped))


def _titles(is_grouped: bool) -> tuple[str, ...]:
    return (
        *("#", "time", "ratio", "time bar", "cum-time", "cum-time ratio"),
        *(_GROUP_INFO if is_grouped else _INFO),
        *("computation (MFLO)", "MFLOPS", "MFLOPS-bar"),
        *("memory (MB)", "bandwidth (MiB/s)", "bandwidth bar", "in_shapes", "out_shapes"),
    )


def _shapes(columns: ProfileColumns, operator: int, *, is_grouped: bool) -> tuple[str, str]:
    if is_grouped:
        return NO_SHAPES, NO_SHAPES
    return (
        shape_text(columns.in_shapes[operator], columns.in_layouts[operator]),
        shape_text(columns.out_shapes[operator]),
    )


def _scale(value: float | None, base: int) -> str:
    return "N/A" if value is None else f"{value / base**2:.1f}"


def _bars(values: Sequence[float | None]) -> list[str]:
    largest = max((v for v in values if v is not None and math.isfinite(v)), default=0.0)
    return [
        "#" * int(max(value, 0.0) / largest * BAR_LENGTH)
        if largest and value is not None and math.isfinite(value)
        else ""
        for value in values
    ]


def _drawn(lines: Sequence[Sequence[str | float]], titles: Sequence[str]) -> str:
    text: str = tabulate(lines, headers=titles, tablefmt="orgtbl")
    first, rule, *others = text.split("\n")
    return "\n".join((first, rule.replace("+", "|"), *others))
