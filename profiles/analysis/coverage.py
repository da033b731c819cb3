"""The part of an iteration that operators account for, pass by pass.

A profile holds the last iteration of its process, so the operators of a pass are compared with the
last iteration of that same pass only: not with its median, and not with the iterations of another
process. In measurements on a processor with other load, a pass's total was 0.1 to 0.92 of its last
iteration, and 0.1 to 1.8 of its median.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Annotated, TypeGuard

from profiles.analysis.data import ProfileData
from profiles.analysis.stability import totals_of_passes
from profiles.presenters.described import means, unknown


@dataclass(frozen=True)
class PassCoverage:
    """One profiled pass compared with the iteration that it recorded."""

    number: Annotated[int, means("Of the merged pass, from 1.")]
    name: Annotated[str, means("Its file.")]
    operators_s: Annotated[float, unknown("Sum of its operators' self times on the device, s.")]
    iteration_s: Annotated[float, unknown("Its last iteration, the one that was profiled, s.")]
    share: Annotated[
        float, unknown("`operators_s` / `iteration_s`; above 1 where operators overlap.")
    ]
    outside_s: Annotated[float, unknown("`iteration_s` - `operators_s`, s.")]


@dataclass(frozen=True)
class Coverage:
    """Which share of an iteration the operators account for, by pass; of at least one pass."""

    share: Annotated[float, unknown("Median over the passes; above 1 where operators overlap.")]
    lowest_share: Annotated[float, unknown("The least share of a pass.")]
    highest_share: Annotated[float, unknown("The greatest share of a pass.")]
    outside_s: Annotated[
        float,
        unknown("Time not attributed to operators, median over the passes, s; see `withheld`."),
    ]
    lowest_outside_s: Annotated[float, unknown("The least of a pass, s.")]
    highest_outside_s: Annotated[float, unknown("The greatest of a pass, s.")]
    passes: Annotated[tuple[PassCoverage, ...], means("Those whose iteration is known.")]


def coverage(data: ProfileData, iterations_s: Mapping[str, float]) -> Coverage | None:
    """Compare each pass with its own iteration; return None if no pass has both times.

    iterations_s: the profiled iteration, s, by the name of the pass's file
    """
    passes = []
    totals_s = totals_of_passes(data, "device")
    for number, (name, total_s) in enumerate(zip(data.passes, totals_s, strict=True), start=1):
        iteration_s = iterations_s.get(name)
        if _is_time(total_s) and _is_time(iteration_s):
            share, outside_s = total_s / iteration_s, iteration_s - total_s
            passes.append(PassCoverage(number, name, total_s, iteration_s, share, outside_s))
    if not passes:
        return None
    shares, outsides_s = [row.share for row in passes], [row.outside_s for row in passes]
    return Coverage(
        share=median(shares),
        lowest_share=min(shares),
        highest_share=max(shares),
        outside_s=median(outsides_s),
        lowest_outside_s=min(outsides_s),
        highest_outside_s=max(outsides_s),
        passes=tuple(passes),
    )


def _is_time(time_s: float | None) -> TypeGuard[float]:
    return time_s is not None and 0 < time_s < math.inf
