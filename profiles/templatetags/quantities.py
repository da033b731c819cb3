"""Numbers with units as pages show them; `static/js/format.js` does the same in the browser."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from django import template
from django.utils.translation import pgettext

from profiles.analysis.durations import ABSENT, TimeUnit, duration, unit_of
from profiles.analysis.numbers import share

register = template.Library()
register.filter(share)

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


@register.filter
def seconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """A time with four significant digits: `12.35 ms`, `0.01235 ms`; see `duration`."""
    return duration(value, unit)


@register.filter
def milliseconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """As `seconds`, for a value in ms."""
    return seconds(None if value is None else value / 1000, unit)


@register.simple_tag
def time_unit(*values: Any, of: str = "") -> TimeUnit:
    """`unit_of` for templates: numbers and lists of numbers, s.

    of: where values are lists of rows, the place of the number in each: `upload.total_s`
    """
    return unit_of(_numbers(values, of))


@register.simple_tag
def time_unit_ms(*values: Any, of: str = "") -> TimeUnit:
    """As `time_unit`, for values in ms."""
    return unit_of(each / 1000 for each in _numbers(values, of))


@register.simple_tag
def time_unit_us(*values: Any, of: str = "") -> TimeUnit:
    """As `time_unit`, for values in µs."""
    return unit_of(each / 1e6 for each in _numbers(values, of))


def _numbers(values: Iterable[Any], of: str) -> Iterator[float]:
    for value in values:
        if isinstance(value, int | float):
            yield value
        elif isinstance(value, Iterable) and not isinstance(value, str):
            yield from _numbers((_place(row, of) for row in value) if of else value, "")


def _place(row: Any, of: str) -> Any:
    """What `{{ row.of }}` would show; None if there is nothing."""
    try:
        return template.Variable(f"row.{of}").resolve({"row": row})
    except (template.VariableDoesNotExist, AttributeError):
        # the latter: what a missing related row shows is asked of a template, and there is none
        return None


@register.filter
def microseconds(value: float | None, unit: TimeUnit | None = None) -> str:
    """As `seconds`, for a value in µs."""
    return seconds(None if value is None else value / 1e6, unit)


@register.filter
def listed(texts: Iterable[str]) -> str:
    """Texts one after the other: `A, B`."""
    return pgettext("between items", ", ").join(texts)


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
