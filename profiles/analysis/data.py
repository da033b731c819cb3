"""A profile as pages and analyses use it: columns, spread over passes, executed graph."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from profiles.parsers.columns import ProfileColumns, Side, SideTimes
from profiles.parsers.graph import ExecutedGraph

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spread:
    """Self times of n operators on one side in k profiled passes, each one sample of each operator.

    end_s, kern_s: (k, n) float64, s, as in `SideTimes`; nan where a pass has none
    count: (n,) int64, passes that timed the operator
    median_s, p10_s, p90_s, min_s: (n,) float64, s, of `end_s`; nan without samples. Percentiles
        interpolate linearly between the two nearest samples, as numpy's default does.
    cv: (n,) float64, standard deviation (n - 1) / mean; nan below two samples or for a mean of 0
    """

    end_s: Floats
    kern_s: Floats
    count: NDArray[np.int64]
    median_s: Floats
    p10_s: Floats
    p90_s: Floats
    min_s: Floats
    cv: Floats


@dataclass(frozen=True, eq=False)
class ProfileData:
    """One profile, possibly of several passes over the same graph.

    columns: with one pass as in its file; with more, times are medians over passes, and an
        operator counts as timed if any pass timed it. All else is that of the first pass.
    graph: of the first pass, with its intervals
    passes: names of the k merged files, `profile.json`, `profile-2.json` ...
    left_out: (name, why in English) of files that could not be merged
    """

    columns: ProfileColumns
    graph: ExecutedGraph
    device: Spread
    host: Spread
    passes: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def spread(self, side: Side) -> Spread:
        """Return the spread of one side."""
        return self.device if side == "device" else self.host

    def columns_of_pass(self, number: int) -> ProfileColumns:
        """Return the columns of one pass, counted from 0, exactly as its own file has them."""
        return replace(
            self.columns,
            device=_side(self.device, number),
            host=_side(self.host, number),
        )


def _side(spread: Spread, number: int) -> SideTimes:
    end_s = spread.end_s[number]
    return SideTimes(present=~np.isnan(end_s), end_s=end_s, kern_s=spread.kern_s[number])
