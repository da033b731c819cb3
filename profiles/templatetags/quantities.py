"""Numbers with units as pages show them; `static/js/format.js` does the same in the browser."""

import math

from django import template

register = template.Library()

ABSENT = "–"
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


@register.filter
def seconds(value: float | None) -> str:
    """A time with four significant digits in the unit that fits: `12.35 ms`."""
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0 s"
    scale, unit = next((pair for pair in _TIMES if abs(value) >= pair[0]), _TIMES[-1])
    return f"{_four_digits(value / scale)} {unit}"


@register.filter
def milliseconds(value: float | None) -> str:
    """As `seconds`, for a value in ms."""
    return seconds(None if value is None else value / 1000)


@register.filter
def microseconds(value: float | None) -> str:
    """As `seconds`, for a value in µs."""
    return seconds(None if value is None else value / 1e6)


@register.filter
def share(ratio: float | None) -> str:
    """A ratio as per cent with one decimal: `12.3 %`."""
    if ratio is None or not math.isfinite(ratio):
        return ABSENT
    return f"{ratio * 100:.1f} %"


@register.filter
def bytesize(value: float | None) -> str:
    """A size in binary units: `1.5 MiB`, `200 B`."""
    if value is None:
        return ABSENT
    step = 0
    while value >= 1024 and step < len(_SIZES) - 1:
        value /= 1024
        step += 1
    return f"{value:.{1 if step else 0}f} {_SIZES[step]}"


@register.filter
def giga(value: float | None) -> str:
    """A rate in units of 10^9 with four significant digits: `109.6`."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ABSENT
    return _four_digits(value / 1e9)


def _four_digits(value: float) -> str:
    whole = len(str(int(abs(value))))
    return f"{value:.{max(0, 4 - whole)}f}"
