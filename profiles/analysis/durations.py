"""Format times for pages: three significant digits, one common unit for values side by side."""

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

ABSENT = "–"


#: resolution of MegEngine's profiler and of the times in its logs, s
CLOCK_S = 1e-6
#: resolution of the times in traces of other profilers, s
TRACE_CLOCK_S = 1e-9
#: from this value on, three digits round to the next power of ten
_ROUNDS_UP = 0.9995
#: lifts ties that binary fractions miss: 1105 µs are 1.11 ms, whatever unit they are computed from
_TIES_UP = 1 + 1e-12
#: as many digits as the greatest float has
_EXACT = Context(prec=320)


class TimeUnit(NamedTuple):
    """A unit of time: its length in s, its name, and how many decimals are shown.

    decimals: those that the clock resolves
    least: those that tell neighbouring values of an axis apart
    """

    scale: float
    name: str
    decimals: int
    least: int = 0


def finite(value: float | None) -> float | None:
    """Return a number as float; None if there is none, or none that a float can hold."""
    try:
        number = None if value is None else float(value)
    except OverflowError:  # an integer above 1.8e308
        return None
    return number if number is not None and math.isfinite(number) else None


_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def unit_of(
    values: Iterable[float | None], *, clock_s: float = CLOCK_S, step_s: float = 0.0
) -> TimeUnit:
    """Return the common unit for times, s, that are shown together: it fits the longest of them.

    clock_s: resolution of the times, s
    step_s: distance of neighbouring values of an axis or histogram, s; 0 for other values
    """
    most = max((abs(value) for value in map(finite, values) if value), default=0.0)
    units = [(scale, name) for scale, name in _TIMES if scale >= clock_s]
    fitting = (unit for unit in units if most >= unit[0] * _ROUNDS_UP)
    scale, name = units[0] if most == 0 else next(fitting, units[-1])
    decimals = max(0, round(math.log10(scale / clock_s)))
    step = finite(step_s) or 0.0
    least = math.ceil(-math.log10(step / scale) - 1e-9) if step > 0 else 0
    return TimeUnit(scale, name, decimals, min(decimals, max(0, least)))


def duration(value: float | None, unit: TimeUnit | None = None) -> str:
    """Return a time, s, as text with three significant digits: `12.3 ms`, `0.012 ms`, `–` for None.

    A time below the resolution of its clock is `< 1 µs`. Ties are rounded up, as
    `static/js/format.js` does; format() rounds them to even.

    unit: the common unit of the times shown together (`unit_of`); by default, the unit that fits
    """
    value = finite(value)
    if value is None:
        return ABSENT
    scale, name, decimals, least = unit or unit_of([value])
    if value == 0:
        return f"0 {name}"
    amount = Decimal(value / scale * _TIES_UP)
    digits = 2 - math.floor(math.log10(abs(value / scale) / _ROUNDS_UP))
    digits = min(decimals, max(least, digits, 0))
    rounded = amount.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT)
    if not rounded:
        return f"< {Decimal(1).scaleb(-digits):f} {name}"
    return f"{rounded:f} {name}"


def in_unit(value: float | None, unit: TimeUnit) -> str:
    """Return a time, s, as in `duration` without the name of its unit, for columns that name it.

    Empty for None.
    """
    text = duration(value, unit)
    return "" if text == ABSENT else text.removesuffix(f" {unit.name}")
