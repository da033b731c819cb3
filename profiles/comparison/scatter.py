"""Scatter of equal runs: the threshold that a difference of two runs must exceed."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: fewest degrees of freedom: equal runs beyond the first of each group
LEAST_DOF = 4
#: quantile of the differences of equal runs that is used as the largest one
_QUANTILE = 0.99
#: time that stands for 0 on a clock of whole microseconds, s
_ZERO_S = 5e-7


@dataclass(frozen=True)
class Scatter:
    """Scatter of equal runs, in logarithms of their times.

    sd: standard deviation of one run
    dof: degrees of freedom behind it
    largest: the 99 % quantile of the differences of two equal runs
    """

    sd: float
    dof: int
    largest: float


def scatter_of(groups: Iterable[Sequence[Floats]]) -> Scatter | None:
    """Return the scatter of equal runs; None if they are too few.

    groups: of equal runs, each with the logarithms of its passes
    """
    squares, dof = 0.0, 0
    largest: list[float] = []
    for group in groups:
        if len(group) < 2:
            continue
        pairs = _differences(group)
        # the mean square of differences is twice the variance of a run
        squares += (len(group) - 1) * float(np.mean(pairs**2)) / 2
        dof += len(group) - 1
        largest += np.abs(pairs).tolist()
    if dof < LEAST_DOF:
        return None
    place = math.ceil(_QUANTILE * len(largest)) - 1
    return Scatter(sd=math.sqrt(squares / dof), dof=dof, largest=sorted(largest)[place])


def _differences(group: Sequence[Floats]) -> Floats:
    """Return (g * (g - 1) / 2,) Hodges-Lehmann differences of all pairs of g equal runs."""
    return np.array(
        [np.median(one[:, None] - other[None]) for one, other in combinations(group, 2)]
    )


def logarithms(times_s: Floats) -> Floats:
    """Return natural logarithms of times, s; nan for invalid times. 0 counts as half a
    microsecond.
    """
    usable = np.isfinite(times_s) & (times_s >= 0)
    return np.log(np.where(usable, np.where(times_s == 0, _ZERO_S, times_s), np.nan))
