"""Filters for numbers with units; see `profiles.presenters.formatting`."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import template

from profiles.analysis.durations import TimeUnit, unit_of
from profiles.analysis.numbers import share
from profiles.presenters.formatting import (
    bytesize,
    giga,
    listed,
    microseconds,
    milliseconds,
    seconds,
)

register = template.Library()
for _filter in (bytesize, giga, listed, microseconds, milliseconds, seconds, share):
    register.filter(_filter)


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
