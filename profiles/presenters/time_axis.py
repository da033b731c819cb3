"""Time axis of charts: ticks at round numbers and their labels."""

import math
from typing import NamedTuple

from profiles.analysis.durations import TRACE_CLOCK_S, unit_of

#: approximate number of ticks
TICKS = 8
_STEPS = (1, 2, 5, 10)


class Tick(NamedTuple):
    """A tick of the axis.

    percent: position, as text
    anchor: the end of the label at this position, an SVG `text-anchor`
    """

    percent: str
    label: str
    anchor: str


def time_axis(begin_s: float, end_s: float, ticks: int = TICKS) -> list[Tick]:
    """Return the ticks of an axis; none if they cannot be distinguished."""
    length = end_s - begin_s
    if not math.isfinite(length) or length <= 0:
        return []
    unit = unit_of([length / 2], clock_s=TRACE_CLOCK_S)
    step = _step(length / unit.scale / ticks)
    decimals = max(0, -math.floor(math.log10(step)))
    first = math.ceil(begin_s / unit.scale / step - 1e-9)
    last = math.floor(end_s / unit.scale / step + 1e-9)
    # a double distinguishes no more than 15 digits
    if last - first < 1 or last > 10**15:
        return []
    axis = []
    for number in range(first, last + 1):
        share = (number * step * unit.scale - begin_s) / length
        label = f"{number * step:.{decimals}f} {unit.name}"
        axis.append(Tick(f"{100 * min(max(share, 0.0), 1.0):.2f}%", label, _anchor(share)))
    return axis


def _step(least: float) -> float:
    """Return the next round number."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9))


def _anchor(share: float) -> str:
    if share < 0.05:
        return "start"
    return "end" if share > 0.95 else "middle"
