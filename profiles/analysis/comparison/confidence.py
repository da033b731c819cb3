"""Whether a difference of medians is more than noise: rank test, interval, many tests at once.

A sample is one pass, a process of its own (ARCHITECTURE.md, "a number that can be trusted"); the
passes of a run are taken as independent. What differs between two runs as a whole (temperature,
clock, what else ran) is not in them, so no test of passes can exclude it.

Formulas:
- Mann-Whitney U, two-sided, from the distribution of the rank sum over all ways to deal the n + m
  samples to both sides, with mean ranks for ties (the CPU's clock counts whole microseconds, so
  ties are common); above MOST_WAYS the normal approximation with tie and continuity correction.
- Interval of the shift: order statistics of all n * m differences, as Hodges and Lehmann (1963) and
  Moses have it; at least 95 %, for ties rather more.
- False discovery rate: Benjamini and Hochberg (1995), over the rows that are worth a look: of all
  rows called clear, at most 5 % are expected to be noise.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: absent: no times on one side; single: one sample somewhere; few: too few for any verdict; none:
#: no clear difference; likely: by itself, but it may be luck among so many rows; clear
Verdict = Literal["absent", "single", "few", "none", "likely", "clear"]
VERDICTS: tuple[Verdict, ...] = ("absent", "single", "few", "none", "likely", "clear")

LEVEL = 0.05
MOST_WAYS = 4000
#: rows below this part of the larger total are not worth a verdict of their own
LEAST_SHARE = 0.001
#: samples of both sides that one step of the test may hold, as numbers
_BLOCK = 4_000_000


@dataclass(frozen=True, eq=False)
class Judgement:
    """One test for each of m rows.

    verdict: (m,) int8, index into VERDICTS
    p: (m,) two-sided, by itself; nan without a test
    q: (m,) adjusted for the number of rows; nan outside of the rows worth a look
    low_s, high_s: (m,) the interval of the difference, s; nan without one
    """

    verdict: NDArray[np.int8]
    p: Floats
    q: Floats
    low_s: Floats
    high_s: Floats


def judge(
    base: Floats, other: Floats, *, worth: NDArray[np.bool_], difference_s: Floats
) -> Judgement:
    """Test the samples of m rows.

    base, other: (n, m), (k, m) samples, s; nan where a pass has none
    worth: (m,) the rows among which false discoveries are counted
    difference_s: (m,) the difference that is shown; an interval is widened to hold it, since the
        difference of medians need not be the median of the differences
    """
    m = base.shape[1]
    p, low, high = (np.full(m, np.nan) for _ in range(3))
    counts = np.stack([(~np.isnan(side)).sum(axis=0) for side in (base, other)])
    for n, k in np.unique(counts, axis=1).T.tolist():
        rows = np.flatnonzero((counts[0] == n) & (counts[1] == k))
        if min(n, k) < 2:
            continue
        a, b = _known(base[:, rows], n), _known(other[:, rows], k)
        p[rows] = rank_test(a, b)
        low[rows], high[rows] = shift_interval(a, b)
    q = adjusted(np.where(worth, p, np.nan))
    return Judgement(
        verdict=_verdicts(counts, p, q),
        p=p,
        q=q,
        low_s=np.fmin(low, np.where(np.isnan(low), np.nan, difference_s)),
        high_s=np.fmax(high, np.where(np.isnan(high), np.nan, difference_s)),
    )


def rank_test(a: Floats, b: Floats) -> Floats:
    """Return (m,) two-sided p of Mann and Whitney.

    a, b: (n, m), (k, m) samples without nan
    """
    n, both = len(a), np.concatenate([a, b]).T
    ranks = _mean_ranks(both)
    if math.comb(both.shape[1], n) <= MOST_WAYS:
        return _exact(ranks, n)
    return _normal(ranks, n)


def shift_interval(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return (m,), (m,): between which bounds b - a lies, with 95 %; nan if samples are too few.

    a, b: (n, m), (k, m) samples without nan
    """
    n, k, m = len(a), len(b), a.shape[1]
    cut = _cut(n, k)
    low, high = np.full(m, np.nan), np.full(m, np.nan)
    if not cut:
        return low, high
    for start in range(0, m, step := max(1, _BLOCK // (n * k))):
        part = slice(start, start + step)
        with np.errstate(invalid="ignore"):  # inf - inf
            shifts = (b[:, None, part] - a[None, :, part]).reshape(n * k, -1)
        ordered = np.partition(shifts, (cut - 1, n * k - cut), axis=0)
        low[part], high[part] = ordered[cut - 1], ordered[n * k - cut]
    return low, high


def adjusted(p: Floats) -> Floats:
    """Return p adjusted by Benjamini and Hochberg; nan stays nan and does not count."""
    found = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    ratios = p[order] * len(order) / np.arange(1, len(order) + 1)
    found[order] = np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0)
    return found


def least_p(n: int, k: int) -> float:
    """Return the smallest p that n and k samples can give."""
    return 2 / math.comb(n + k, n)


def _known(samples: Floats, count: int) -> Floats:
    """The (count, m) samples that are no nan, where each of the m rows has as many."""
    if count == len(samples):
        return samples
    order = np.argsort(np.isnan(samples), axis=0, kind="stable")[:count]
    return np.take_along_axis(samples, order, axis=0)


def _verdicts(counts: NDArray[np.intp], p: Floats, q: Floats) -> NDArray[np.int8]:
    verdict = np.full(len(p), VERDICTS.index("none"), dtype=np.int8)
    verdict[p <= LEVEL] = VERDICTS.index("likely")
    verdict[q <= LEVEL] = VERDICTS.index("clear")
    fewest = counts.min(axis=0)
    few = [least_p(n, k) > LEVEL if n and k else True for n, k in counts.T.tolist()]
    verdict[np.array(few, dtype=bool)] = VERDICTS.index("few")
    verdict[fewest == 1] = VERDICTS.index("single")
    verdict[fewest == 0] = VERDICTS.index("absent")
    return verdict


def _mean_ranks(samples: Floats) -> Floats:
    """Return (m, n) ranks from 1 within each row; equal samples share their mean rank."""
    order = np.argsort(samples, axis=1, kind="stable")
    ordered = np.take_along_axis(samples, order, axis=1)
    m, n = samples.shape
    # where a run of equal samples starts, and where it ends
    new = np.ones((m, n), dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    places = np.arange(n)
    first = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    ends = np.ones((m, n), dtype=bool)
    ends[:, :-1] = new[:, 1:]
    last = np.minimum.accumulate(np.where(ends, places, n)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty((m, n))
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    return ranks


def _exact(ranks: Floats, n: int) -> Floats:
    m, total = ranks.shape
    ways = _ways(total, n)
    middle = n * (total + 1) / 2
    observed = np.abs(ranks[:, :n].sum(axis=1) - middle)
    p = np.empty(m)
    for start in range(0, m, step := max(1, _BLOCK // len(ways))):
        part = slice(start, start + step)
        away = np.abs(ranks[part] @ ways.T - middle)
        p[part] = (away >= observed[part, None] - 1e-9).mean(axis=1)
    return p


def _normal(ranks: Floats, n: int) -> Floats:
    total = ranks.shape[1]
    away = np.abs(ranks[:, :n].sum(axis=1) - n * (total + 1) / 2)
    # the variance of mean ranks holds the correction for ties
    variance = n * (total - n) / (total - 1) * ranks.var(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.maximum(away - 0.5, 0) / np.sqrt(variance)
    p = np.array([math.erfc(value / math.sqrt(2)) for value in z.tolist()])
    return np.where(variance > 0, p, 1.0)


@lru_cache(maxsize=32)
def _ways(total: int, n: int) -> Floats:
    """Return (ways, total): 1 where a way to deal gives the sample to the first side."""
    chosen = np.array(list(combinations(range(total), n)))
    ways = np.zeros((len(chosen), total))
    np.put_along_axis(ways, chosen, 1.0, axis=1)
    return ways


@lru_cache(maxsize=256)
def _cut(n: int, k: int) -> int:
    """How many of the n * k differences to leave off at each end; 0 if 95 % is out of reach.

    The largest c with P(U <= c - 1) <= 2.5 %, U as Mann and Whitney have it without ties.
    """
    if n * k > 900:
        spread = math.sqrt(n * k * (n + k + 1) / 12)
        return max(0, math.floor(n * k / 2 - 1.959964 * spread))
    # counts[u]: ways with U = u; a Gaussian binomial coefficient, factor by factor
    counts = np.zeros(n * k + 1)
    counts[0] = 1
    for i in range(1, k + 1):
        for u in range(n * k, n + i - 1, -1):
            counts[u] -= counts[u - n - i]
        for u in range(i, n * k + 1):
            counts[u] += counts[u - i]
    below = np.cumsum(counts) / math.comb(n + k, n)
    return int(np.searchsorted(below, LEVEL / 2, side="right"))
