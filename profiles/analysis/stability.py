"""Find operators whose times vary so much between passes that their ranking is unreliable."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from agent.statistics.summaries import variation
from profiles.analysis.data import ProfileData
from profiles.analysis.totals import plausible
from profiles.formats.columns import Side
from profiles.presenters.described import means, unknown

#: coefficients of variation above which a time counts as unstable
CPU_LIMIT = 0.05
GPU_LIMIT = 0.025
#: tolerance for sums of the same numbers in a different order
_ROUNDING = 1e-9

#: position of the sum of medians relative to the totals of the passes
TotalPosition = Literal["among", "below", "above"]


#: noise of a run: how much its figures depend on the moment at which they were measured
Noise = Literal["quiet", "moderate", "noisy"]
#: largest coefficients of variation of the passes' totals of a quiet and of a moderate run
QUIET_LIMIT, MODERATE_LIMIT = GPU_LIMIT, 0.1


@dataclass(frozen=True)
class Stability:
    """How many operators have times that differ too much between passes to be ranked."""

    unstable: Annotated[int, means("Operators over their limit.")]
    known: Annotated[int, means("Operators with several samples.")]
    share: Annotated[float | None, unknown("Part of the side's time that the unstable ones have.")]
    total_cv: Annotated[float | None, unknown("Standard deviation / mean of the passes' totals.")]
    total_is_unstable: Annotated[bool, means("Whether that is over the limit.")]


def limits(data: ProfileData, side: Side) -> NDArray[np.float64]:
    """Return (n,) float64, the limit of each operator: 0.025 on a GPU, 0.05 otherwise.

    Host times are measured on a processor, wherever the operator computes.
    """
    if side == "host":
        return np.full(len(data.columns), CPU_LIMIT)
    return np.where(data.on_gpu, GPU_LIMIT, CPU_LIMIT)


def unstable(data: ProfileData, side: Side) -> NDArray[np.bool_]:
    """Return (n,) bool, the coefficient of variation exceeds its limit; False if it is unknown."""
    return np.greater(data.spread(side).cv, limits(data, side))


def stability(data: ProfileData, side: Side) -> Stability:
    spread, shaky = data.spread(side), unstable(data, side)
    totals = totals_of_passes(data, side)
    total_cv = variation([total for total in totals if total is not None])
    # the limit of the total is the lowest limit of its operators
    limit = float(limits(data, side).min(initial=CPU_LIMIT))
    return Stability(
        unstable=int(shaky.sum()),
        known=int((~np.isnan(spread.cv)).sum()),
        share=_share(data.columns.times(side).end_s, shaky),
        total_cv=total_cv,
        total_is_unstable=total_cv is not None and total_cv > limit,
    )


def noise_of(total_cv: float | None, *, is_disturbed: bool) -> Noise | None:
    """Return the noise of a run; None if it is unknown, as that of a single pass.

    total_cv: coefficient of variation of the passes' totals
    is_disturbed: whether something else than the run may have changed its times
    """
    if is_disturbed:
        return "noisy"
    if total_cv is None:
        return None
    if total_cv <= QUIET_LIMIT:
        return "quiet"
    return "moderate" if total_cv <= MODERATE_LIMIT else "noisy"


def totals_of_passes(data: ProfileData, side: Side) -> list[float | None]:
    """Return the total of each pass, s, over all its operators.

    None for a pass without times, and for a total that is no possible time.
    """
    passes = range(len(data.passes))
    return [plausible(data.times_of_pass(number, side).total_s()) for number in passes]


def place_of_total(total_s: float | None, passes_s: Sequence[float]) -> TotalPosition:
    """Return where the sum of the operators' medians lies: within the range of the passes' totals,
    or outside it.

    It can lie below all totals because each pass is slow at different operators, and medians leave
    these moments out.

    passes_s: known totals of single passes, s
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
