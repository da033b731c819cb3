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
from typing import TypeGuard

from profiles.analysis.data import ProfileData
from profiles.analysis.stability import totals_of_passes


@dataclass(frozen=True)
class PassCoverage:
    """The coverage of one profiled pass.

    number: of the merged pass, from 1
    name: of its file
    operators_s: sum of the self times of its operators on the device
    iteration_s: its last iteration, which is the profiled one
    """

    number: int
    name: str
    operators_s: float
    iteration_s: float

    @property
    def share(self) -> float:
        """Operator time / iteration time; above 1 if operators overlap."""
        return self.operators_s / self.iteration_s

    @property
    def outside_s(self) -> float:
        """Iteration time that is not attributed to operators; negative if operators overlap."""
        return self.iteration_s - self.operators_s


@dataclass(frozen=True)
class Coverage:
    """The coverage of all passes whose iteration time is known, at least one.

    share, outside_s: medians over the passes; the lowest and highest values are those of single
        passes
    """

    passes: tuple[PassCoverage, ...]
    share: float
    lowest_share: float
    highest_share: float
    outside_s: float
    lowest_outside_s: float
    highest_outside_s: float


def coverage(data: ProfileData, iterations_s: Mapping[str, float]) -> Coverage | None:
    """Compare each pass with its own iteration; return None if no pass has both times.

    iterations_s: the profiled iteration, s, by the name of the pass's file
    """
    passes = []
    totals_s = totals_of_passes(data, "device")
    for number, (name, total_s) in enumerate(zip(data.passes, totals_s, strict=True), start=1):
        iteration_s = iterations_s.get(name)
        if _is_time(total_s) and _is_time(iteration_s):
            passes.append(PassCoverage(number, name, total_s, iteration_s))
    if not passes:
        return None
    shares, outside_s = [row.share for row in passes], [row.outside_s for row in passes]
    return Coverage(
        passes=tuple(passes),
        share=median(shares),
        lowest_share=min(shares),
        highest_share=max(shares),
        outside_s=median(outside_s),
        lowest_outside_s=min(outside_s),
        highest_outside_s=max(outside_s),
    )


def _is_time(time_s: float | None) -> TypeGuard[float]:
    return time_s is not None and 0 < time_s < math.inf
