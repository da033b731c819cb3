"""Format times for pages: four significant digits, one common unit for values side by side."""

import math
from collections.abc import Iterable
from typing import NamedTuple

ABSENT = "–"


class TimeUnit(NamedTuple):
    """A unit of time: its length in s, its name, and the number of decimals that clocks resolve."""

    scale: float
    name: str
    decimals: int


def finite(value: float | None) -> float | None:
    """Return a number as float; None if there is none, or none that a float can hold."""
    try:
        number = None if value is None else float(value)
    except OverflowError:  # an integer above 1.8e308
        return None
    return number if number is not None and math.isfinite(number) else None


_TIMES = (
    TimeUnit(1.0, "s", 9),
    TimeUnit(1e-3, "ms", 6),
    TimeUnit(1e-6, "µs", 3),
    TimeUnit(1e-9, "ns", 3),
)


def unit_of(values: Iterable[float | None]) -> TimeUnit:
    """Return the common unit for times, s, that are shown together: it fits the longest of them."""
    most = max((abs(value) for value in map(finite, values) if value), default=0.0)
    if most == 0:
        return _TIMES[0]
    return next((unit for unit in _TIMES if most >= unit.scale), _TIMES[-1])


def duration(value: float | None, unit: TimeUnit | None = None) -> str:
    """Return a time, s, as text: `12.35 ms`, `0.01235 ms`, `–` for None.

    unit: the common unit of the times shown together (`unit_of`); by default, the unit that fits
    """
    value = finite(value)
    if value is None:
        return ABSENT
    scale, name, decimals = unit or unit_of([value])
    if value == 0:
        return f"0 {name}"
    amount = value / scale
    size = abs(amount)
    digits = 4 - len(str(int(size))) if size >= 1 else 3 - math.floor(math.log10(size))
    return f"{amount:.{min(decimals, max(0, digits))}f} {name}"
