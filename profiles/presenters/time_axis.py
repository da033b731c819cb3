"""A time axis for pictures: moments that are round numbers, and what stands below them."""

import math
from typing import NamedTuple

from profiles.analysis.durations import unit_of

#: about so many moments
TICKS = 8
_STEPS = (1, 2, 5, 10)


class Tick(NamedTuple):
    """percent: where it lies, as text; anchor: which end of the label lies there, as SVG says it"""

    percent: str
    label: str
    anchor: str


def time_axis(begin_s: float, end_s: float, ticks: int = TICKS) -> list[Tick]:
    """Return the moments of an axis, none where nothing can be told apart."""
    length = end_s - begin_s
    if not math.isfinite(length) or length <= 0:
        return []
    unit = unit_of([length / 2])
    step = _step(length / unit.scale / ticks)
    decimals = max(0, -math.floor(math.log10(step)))
    first = math.ceil(begin_s / unit.scale / step - 1e-9)
    last = math.floor(end_s / unit.scale / step + 1e-9)
    # beyond 15 digits a double knows no neighbours
    if last - first < 1 or last > 10**15:
        return []
    found = []
    for number in range(first, last + 1):
        share = (number * step * unit.scale - begin_s) / length
        label = f"{number * step:.{decimals}f} {unit.name}"
        found.append(Tick(f"{100 * min(max(share, 0.0), 1.0):.2f}%", label, _anchor(share)))
    return found


def _step(least: float) -> float:
    """The next round number."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9))


def _anchor(share: float) -> str:
    if share < 0.05:
        return "start"
    return "end" if share > 0.95 else "middle"
