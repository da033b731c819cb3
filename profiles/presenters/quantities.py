"""Format numbers with units for pages; must agree with `static/js/format.js`."""

import math
from collections.abc import Iterable

from django.utils.translation import pgettext

from profiles.analysis.durations import ABSENT, TimeUnit, duration
from profiles.analysis.numbers import four_digits

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def seconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """Format a time with four significant digits: `12.35 ms`, `0.01235 ms`; see `duration`."""
    return duration(value, unit)


def milliseconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """Format a value in ms as `seconds` does."""
    return seconds(None if value is None else value / 1000, unit)


def microseconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """Format a value in µs as `seconds` does."""
    return seconds(None if value is None else value / 1e6, unit)


def listed(texts: Iterable[str]) -> str:
    """Join texts: `A, B`."""
    return pgettext("between items", ", ").join(texts)


def bytesize(value: float | None) -> str:
    """Format a size in binary units: `1.5 MiB`, `200 B`."""
    if value is None:
        return ABSENT
    step = 0
    while value >= 1024 and step < len(_SIZES) - 1:
        value /= 1024
        step += 1
    return f"{value:.{1 if step else 0}f} {_SIZES[step]}"


def giga(value: float | None) -> str:
    """Format a rate in units of 10^9 with four significant digits: `109.6`."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return ABSENT
    return four_digits(value / 1e9)
