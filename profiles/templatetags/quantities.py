"""Filters for numbers with units; see `profiles.presenters.formatting`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django import template

from profiles.analysis.durations import CLOCK_S, TimeUnit, duration, unit_of
from profiles.analysis.numbers import share
from profiles.comparison.messages import signed_percent
from profiles.presenters.formatting import (
    bytesize,
    giga,
    listed,
    microseconds,
    milliseconds,
    recorded_size,
)
from profiles.presenters.sparkline import Sparkline, sparkline_of

register = template.Library()
for _filter in (
    bytesize, giga, listed, microseconds, milliseconds, recorded_size, share, signed_percent,
):  # fmt: skip
    register.filter(_filter)
register.filter("seconds", duration)


@register.inclusion_tag("profiles/_sparkline.html")
def sparkline(times_s: Sequence[float]) -> dict[str, Sparkline | None]:
    """Draw times, s, oldest first, as a small line; nothing for fewer than two."""
    return {"line": sparkline_of(times_s)}


@register.simple_tag
def time_unit(*values: Any, of: str = "", clock_s: float = CLOCK_S) -> TimeUnit:
    """Return the common unit of values in s (`unit_of`): numbers and lists of numbers.

    of: for lists of rows, the path of the number in each row: `upload.total_s`
    """
    return unit_of(_numbers(values, of), clock_s=clock_s)


@register.simple_tag
def time_unit_ms(*values: Any, of: str = "", step: float = 0.0) -> TimeUnit:
    """Return the common unit of values in ms, as `time_unit`.

    step: distance of neighbouring values, ms, if they must differ
    """
    return unit_of((value / 1000 for value in _numbers(values, of)), step_s=step / 1000)


def _numbers(values: Iterable[Any], of: str) -> Iterator[float]:
    for value in values:
        if isinstance(value, int | float):
            yield value
        elif isinstance(value, Iterable) and not isinstance(value, str):
            yield from _numbers((_resolve(row, of) for row in value) if of else value, "")


def _resolve(row: Any, of: str) -> Any:
    """Return the value of `{{ row.of }}`; None if it is missing."""
    try:
        return template.Variable(f"row.{of}").resolve({"row": row})
    except (template.VariableDoesNotExist, AttributeError):
        # AttributeError: a missing related row is looked up in the engine of a template
        return None
