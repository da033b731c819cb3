"""Which operators' times differ so much from pass to pass that their order means little."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.data import ProfileData
from profiles.analysis.measuring import variation
from profiles.formats.columns import Side

#: coefficient of variation above which a time is called unstable
CPU_LIMIT = 0.05
GPU_LIMIT = 0.025
#: sums of the same numbers in another order differ by less
_ROUNDING = 1e-9

#: of the sum of medians, beside the totals of the passes
Place = Literal["among", "below", "above"]


@dataclass(frozen=True)
class Stability:
    """Of one side.

    unstable: operators over their limit; known: those with a coefficient of variation at all
    share: part of the side's time that unstable operators have; None if there is no time
    total_cv: coefficient of variation of the passes' totals; None below two passes
    """

    unstable: int
    known: int
    share: float | None
    total_cv: float | None
    total_is_unstable: bool


def limits(data: ProfileData, side: Side) -> NDArray[np.float64]:
    """Return (n,) float64, the limit of each operator: 0.025 on a GPU, else 0.05.

    The host's times are a processor's, wherever the operator computes.
    """
    if side == "host":
        return np.full(len(data.columns), CPU_LIMIT)
    return np.where(data.on_gpu, GPU_LIMIT, CPU_LIMIT)


def unstable(data: ProfileData, side: Side) -> NDArray[np.bool_]:
    """Return (n,) bool: the coefficient of variation is above its limit. Unknown ones are not."""
    return np.greater(data.spread(side).cv, limits(data, side))


def stability(data: ProfileData, side: Side) -> Stability:
    """Sum up how steady one side's times are."""
    spread, shaky = data.spread(side), unstable(data, side)
    totals = totals_of_passes(data, side)
    total_cv = variation([total for total in totals if total is not None and isfinite(total)])
    # a total is as strict as the strictest of its operators
    limit = float(limits(data, side).min(initial=CPU_LIMIT))
    return Stability(
        unstable=int(shaky.sum()),
        known=int((~np.isnan(spread.cv)).sum()),
        share=_share(data.columns.times(side).end_s, shaky),
        total_cv=total_cv,
        total_is_unstable=total_cv is not None and total_cv > limit,
    )


def totals_of_passes(data: ProfileData, side: Side) -> list[float | None]:
    """Return the total of each pass, s, over all its operators; None for one that timed none."""
    return [data.times_of_pass(number, side).total_s() for number in range(len(data.passes))]


def place_of_total(total_s: float | None, passes_s: Sequence[float]) -> Place:
    """Where the sum of the operators' medians lies: among the totals of the passes, or beyond all
    of them. Each pass has slow moments at other operators; the medians leave them out.

    passes_s: totals of single passes, s, finite
    """
    if total_s is None or len(passes_s) < 2:
        return "among"
    rounding = _ROUNDING * abs(total_s)
    if total_s < min(passes_s) - rounding:
        return "below"
    return "above" if total_s > max(passes_s) + rounding else "among"


def _share(times_s: NDArray[np.float64], chosen: NDArray[np.bool_]) -> float | None:
    sound = np.isfinite(times_s) & (times_s > 0)
    with np.errstate(over="ignore"):
        total, part = float(times_s[sound].sum()), float(times_s[sound & chosen].sum())
    return part / total if 0 < total < np.inf else None
