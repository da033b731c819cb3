"""Lay out a sparkline: a small line chart without axes, for a row of a list."""

from collections.abc import Sequence
from dataclasses import dataclass

from profiles.analysis.durations import duration, unit_of
from profiles.presenters.formatting import listed

#: size of the drawing and its margin, in pixels
WIDTH, HEIGHT, MARGIN = 72, 20, 3
#: height of the drawing, as part of the largest time; smaller differences look smaller
_LEAST_RANGE = 0.2


@dataclass(frozen=True)
class Sparkline:
    """A line; the last point is marked.

    points: `x,y x,y` in pixels
    text: the times with their unit, oldest first
    """

    points: str
    last_x: float
    last_y: float
    text: str
    count: int
    width: int = WIDTH
    height: int = HEIGHT


def sparkline_of(times_s: Sequence[float]) -> Sparkline | None:
    """Return the line through times, s, oldest first; None for fewer than two."""
    if len(times_s) < 2:
        return None
    low, high = min(times_s), max(times_s)
    span = max(high - low, _LEAST_RANGE * abs(high)) or 1.0
    middle, unit = (low + high) / 2, unit_of(times_s)
    step = (WIDTH - 2 * MARGIN) / (len(times_s) - 1)
    places = [
        (
            round(MARGIN + number * step, 1),
            round(HEIGHT / 2 - (time_s - middle) / span * (HEIGHT - 2 * MARGIN), 1),
        )
        for number, time_s in enumerate(times_s)
    ]
    return Sparkline(
        points=" ".join(f"{x:g},{y:g}" for x, y in places),
        last_x=places[-1][0],
        last_y=places[-1][1],
        text=listed(duration(time_s, unit) for time_s in times_s),
        count=len(times_s),
    )
