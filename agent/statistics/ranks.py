"""Estimates and intervals from ranks, which single outliers hardly change."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: most differences that one step holds in memory
_BLOCK = 4_000_000


def differences(group: Sequence[Floats]) -> Floats:
    """Return (g * (g - 1) / 2,) Hodges-Lehmann differences of all pairs of g equal runs."""
    return np.array(
        [np.median(one[:, None] - other[None]) for one, other in combinations(group, 2)]
    )


def shift_interval(a: Floats, b: Floats, level: float = 0.05) -> tuple[Floats, Floats, Floats]:
    """Return three arrays (m,): the median of b - a, and the bounds of its interval.

    level: probability that the true shift lies outside; 0.05 for an interval of 95 %
    a, b: (n, m), (k, m) samples without nan; the bounds are nan if the samples are too few
    """
    n, k, m = len(a), len(b), a.shape[1]
    cut = _cut(n, k, level)
    middle, low, high = (np.full(m, np.nan) for _ in range(3))
    for start in range(0, m, step := max(1, _BLOCK // (n * k))):
        part = slice(start, start + step)
        shifts = np.sort((b[:, None, part] - a[None, :, part]).reshape(n * k, -1), axis=0)
        middle[part] = np.median(shifts, axis=0)
        if cut:
            low[part], high[part] = shifts[cut - 1], shifts[n * k - cut]
    return middle, low, high


def least_p(n: int, k: int) -> float:
    """Return the smallest p that a rank test of n and k samples can give."""
    return 2 / math.comb(n + k, n)


@lru_cache(maxsize=256)
def _cut(n: int, k: int, level: float) -> int:
    """Return how many of the n * k differences to drop at each end; 0 if the level cannot be
    reached.

    This is the largest c with P(U <= c - 1) <= level / 2, where U is the Mann-Whitney statistic
    without ties.
    """
    if n * k > 900:
        spread = math.sqrt(n * k * (n + k + 1) / 12)
        return max(0, math.floor(n * k / 2 - NormalDist().inv_cdf(1 - level / 2) * spread))
    # counts[u]: number of orders with U = u; a Gaussian binomial coefficient, factor by factor
    counts = np.zeros(n * k + 1)
    counts[0] = 1
    for i in range(1, k + 1):
        for u in range(n * k, n + i - 1, -1):
            counts[u] -= counts[u - n - i]
        for u in range(i, n * k + 1):
            counts[u] += counts[u - i]
    below = np.cumsum(counts) / math.comb(n + k, n)
    return int(np.searchsorted(below, level / 2, side="right"))
