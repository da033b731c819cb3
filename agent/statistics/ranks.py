"""Estimates and intervals from ranks, which single outliers hardly change.

Two samples: the median of all differences (Hodges and Lehmann 1963) with the order statistics of
these differences as bounds (Moses 1965), from the distribution of Mann and Whitney's U.

One sample: the median of all averages of two values, each value also with itself (Walsh averages),
with their order statistics as bounds (Tukey 1949; Hollander, Wolfe and Chicken, Nonparametric
Statistical Methods, chapter 3), from the distribution of Wilcoxon's signed ranks. It is valid for
values with any symmetric distribution, even if their scales differ. For skewed values, the interval
is that of the pseudomedian, which is not exactly the median.

Both distributions are counted exactly up to the sizes below; beyond, they are approximated by the
normal one with a correction for continuity. Ties make intervals wider, never shorter.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: most differences in memory in one step
_BLOCK = 4_000_000
#: most pairs of samples, and most values of one, whose distribution is counted: 0.1 s each
_MOST_EXACT_U, _MOST_EXACT_W = 900, 200


def differences(group: Sequence[Floats]) -> Floats:
    """Return (g * (g - 1) / 2,) Hodges-Lehmann differences of all pairs of g equal runs."""
    return np.array(
        [np.median(one[:, None] - other[None]) for one, other in combinations(group, 2)]
    )


def shift_interval(a: Floats, b: Floats, level: float = 0.05) -> tuple[Floats, Floats, Floats]:
    """Return three arrays (m,): the median of b - a, and the bounds of its interval.

    level: probability that the true shift is outside; 0.05 for an interval of 95 %
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


def signed_rank_interval(values: Floats, levels: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Return the pseudomedians (m,) of m samples, and the bounds (len(levels), m) of intervals.

    values: (n, m) without nan
    levels: for each interval, the probability that the true value is outside; the bounds are
        infinite if n values cannot reach it
    """
    n, m = values.shape
    cuts = [signed_rank_cut(n, level) for level in levels]
    middle, low, high = np.empty(m), *(np.full((len(levels), m), np.inf) for _ in range(2))
    first, second = np.triu_indices(n)
    count = len(first)
    places = {count // 2, (count - 1) // 2}
    places |= {place for cut in cuts if cut for place in (cut - 1, count - cut)}
    for start in range(0, m, step := max(1, _BLOCK // count)):
        part = values[:, start : start + step].T
        averages = np.partition((part[:, first] + part[:, second]) / 2, sorted(places), axis=1)
        rows = slice(start, start + step)
        middle[rows] = (averages[:, count // 2] + averages[:, (count - 1) // 2]) / 2
        for row, cut in enumerate(cuts):
            if cut:
                low[row, rows], high[row, rows] = averages[:, cut - 1], averages[:, count - cut]
            else:
                low[row, rows] = -np.inf
    return middle, low, high


def signed_rank_p(values: Floats) -> Floats:
    """Return the two-sided p of Wilcoxon's signed ranks (m,), for m samples around 0.

    values: (n, m) without nan. Zeros count half as positive, and equal sizes share their ranks.
    """
    n, m = values.shape
    sizes = np.sort(np.abs(values), axis=0)
    sums = np.empty(m)
    for column in range(m):
        own = np.abs(values[:, column])
        below = np.searchsorted(sizes[:, column], own, side="left")
        above = np.searchsorted(sizes[:, column], own, side="right")
        signs = (np.sign(values[:, column]) + 1) / 2
        sums[column] = float(((below + above + 1) / 2 * signs).sum())
    lower = np.minimum(sums, n * (n + 1) / 2 - sums)
    if n > _MOST_EXACT_W:
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        scaled = ((lower + 0.5 - n * (n + 1) / 4) / spread).tolist()
        p = np.array([2 * NormalDist().cdf(z) for z in scaled])
    else:
        # shared ranks may be halves: the larger p is the safe one
        p = 2 * _signed_ranks_below(n)[np.ceil(lower).astype(np.intp)]
    return np.asarray(np.minimum(p, 1.0))


@lru_cache(maxsize=1024)
def signed_rank_cut(n: int, level: float) -> int:
    """Return c such that the c-th smallest and the c-th largest of the n (n + 1) / 2 averages are
    the bounds of an interval; 0 if n values cannot reach the level.

    This is the largest c with P(W <= c - 1) <= level / 2, where W is the sum of the ranks of the
    positive values.
    """
    most = n * (n + 1) // 2
    if n > _MOST_EXACT_W:
        spread = math.sqrt(most * (2 * n + 1) / 12)
        place = most / 2 - 0.5 - NormalDist().inv_cdf(1 - level / 2) * spread if level else -1.0
        return max(0, math.floor(place) + 1)
    return int(np.searchsorted(_signed_ranks_below(n), level / 2, side="right"))


@lru_cache(maxsize=256)
def _signed_ranks_below(n: int) -> Floats:
    """Return P(W <= w) for w from 0."""
    shares = np.zeros(n * (n + 1) // 2 + 1)
    shares[0] = 1.0
    for rank in range(1, n + 1):  # each rank is positive with probability 1/2
        shares[rank:] = shares[rank:] + shares[:-rank]
        shares /= 2
    return np.cumsum(shares)


@lru_cache(maxsize=256)
def _cut(n: int, k: int, level: float) -> int:
    """Return how many of the n * k differences to drop at each end; 0 if the level cannot be
    reached.

    This is the largest c with P(U <= c - 1) <= level / 2, where U is the Mann-Whitney statistic
    without ties.
    """
    if n * k > _MOST_EXACT_U:
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
