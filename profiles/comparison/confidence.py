"""Whether a difference between two runs is more than noise: one interval, one verdict.

A sample is one pass, a process of its own; iterations of one process are not independent. All is
computed on logarithms, so that an interval is one of ratios and never passes -100 %.

Two runs differ by more than their passes show: temperature, clock and neighbours change between
them. What equal runs of the device differ by (`scatter`) widens the interval,
and without it there is no verdict. So a verdict says both: passes of one run lie apart from those
of the other, and the runs lie apart by more than equal runs do.

Formulas:
- Estimate: median of all n * m differences of logarithms (Hodges and Lehmann 1963).
- Interval of passes: order statistics of these differences (Moses). At 95 % one pass of five that
  was hit would widen it without limit; so where the scatter of equal runs is known, which holds
  the level, it is taken at 80 %.
- Between runs: t(99 %) * sqrt(sd_a^2 + sd_b^2), sd from equal runs; at least the largest difference
  that equal runs have shown. This is for one number of a run, as its total.
- Operators: many are tested at once. Their standard error joins the scatter of their own passes
  (moderated by that of all operators, as Smyth 2004), that of runs, and what operators shift
  against each other between these two runs. The p of Student's t is adjusted by Benjamini and
  Hochberg (1995) over the rows that are worth a look.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from profiles.comparison.scatter import Scatter, logarithms

Floats = NDArray[np.float64]
#: absent: no times on one side; disturbed: something else used the device during one of the runs;
#: single: one sample somewhere; few: too few passes for an interval; unknown: nothing tells what
#: equal runs differ by; none: no clear difference. Only the last two are differences.
Verdict = Literal["absent", "disturbed", "single", "few", "unknown", "none", "faster", "slower"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: of passes and of operators
LEVEL = 0.05
#: of passes where the scatter of equal runs is known
_PASS_LEVEL = 0.2
#: of runs: 1 in 100 pairs of equal runs may be told to differ
RUN_LEVEL = 0.01
#: rows below this part of the larger total are not worth a verdict of their own
LEAST_SHARE = 0.001
#: degrees of freedom that all operators together lend to each one
_LENT = 4
#: the variance by which operators shift against each other is at most so many times that of runs:
#: more is a change of the operators, as another algorithm makes it
_MOST_APART = 9
#: differences that one step holds, as numbers
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Basis:
    """What a verdict on two runs rests on.

    base, other: of each run; None where nothing tells it
    disturbed: either run was, so that there is no verdict
    """

    base: Scatter | None = None
    other: Scatter | None = None
    disturbed: bool = False

    @property
    def is_known(self) -> bool:
        """Whether it is known how far equal runs differ, of both."""
        return self.base is not None and self.other is not None

    @property
    def spread(self) -> float:
        """The standard deviation of the difference of two equal runs; nan if unknown."""
        if self.base is None or self.other is None:
            return math.nan
        return math.hypot(self.base.sd, self.other.sd)

    @property
    def allowance(self) -> float:
        """The log ratio up to which equal runs may differ; nan if unknown."""
        if self.base is None or self.other is None:
            return math.nan
        bound = student_quantile(RUN_LEVEL, min(self.base.dof, self.other.dof)) * self.spread
        return max(bound, self.base.largest, self.other.largest)


@dataclass(frozen=True, eq=False)
class Judgement:
    """One verdict for each of m rows; ratios of times minus 1, so that 0.2 is 20 % slower.

    verdict: (m,) int8, index into VERDICTS
    change: (m,) estimate; nan without times on one side
    low, high: (m,) the interval, at least 95 %; nan without one. Without a known scatter of equal
        runs it holds that of passes alone.
    """

    verdict: NDArray[np.int8]
    change: Floats
    low: Floats
    high: Floats

    def code(self, row: int) -> Verdict:
        """The verdict of a row."""
        return VERDICTS[int(self.verdict[row])]


def judge_total(base: Floats, other: Floats, *, displayed: float, basis: Basis) -> Judgement:
    """Test one number of two runs.

    base, other: (n,), (k,) samples, s; nan where a pass has none
    shown: the ratio of the two times that are shown; the interval is widened to hold it
    """
    one = _Shifts(base[:, None], other[:, None], basis)
    one.widen(np.array([basis.allowance]), np.array([displayed]))
    return one.judgement(one.excludes_zero())


def judge_rows(
    base: Floats, other: Floats, *, worth: NDArray[np.bool_], displayed: Floats, basis: Basis
) -> Judgement:
    """Test m rows of two runs together.

    base, other: (n, m), (k, m) samples, s; nan where a pass has none
    worth: (m,) the rows among which false discoveries are counted
    shown: (m,) as for `judge_total`
    """
    rows = _Shifts(base, other, basis)
    error, dof = rows.standard_error(worth)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = student_p(rows.estimate / error, dof)
    rows.widen(student_quantile(LEVEL, dof) * error, displayed)
    q = adjusted(np.where(worth, p, np.nan))
    return rows.judgement(rows.excludes_zero() & (q <= LEVEL))


def shift_interval(a: Floats, b: Floats, level: float = LEVEL) -> tuple[Floats, Floats, Floats]:
    """Return (m,), (m,), (m,): the median of b - a, and the bounds of its interval.

    level: how often the true shift may lie outside; 0.05 for an interval of 95 %

    a, b: (n, m), (k, m) samples without nan; bounds are nan if the samples are too few
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


def adjusted(p: Floats) -> Floats:
    """Return p adjusted by Benjamini and Hochberg; nan stays nan and does not count."""
    result = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    ratios = p[order] * len(order) / np.arange(1, len(order) + 1)
    result[order] = np.minimum(np.minimum.accumulate(ratios[::-1])[::-1], 1.0)
    return result


def least_p(n: int, k: int) -> float:
    """Return the smallest p that ranks of n and k samples can give."""
    return 2 / math.comb(n + k, n)


def student_p(t: Floats, dof: int) -> Floats:
    """Return the two-sided p of Student's t, to about 1e-15; dof: a whole number from 1 on."""
    angle = np.arctan(np.abs(t) / math.sqrt(dof))
    square = np.cos(angle) ** 2
    first = 2 if dof % 2 else 1
    term, total = np.ones_like(square), np.zeros_like(square)
    for k in range(first, dof, 2):
        total += term
        term = term * square * k / (k + 1)
    inside = np.sin(angle) * total
    if dof % 2:
        inside = 2 / math.pi * (angle + np.cos(angle) * inside)
    return np.asarray(np.clip(1 - inside, 0.0, 1.0))


@lru_cache(maxsize=256)
def student_quantile(p: float, dof: int) -> float:
    """Return the t whose two-sided p this is, at most 1e4."""
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(np.array([middle]), dof)[0] > p else (low, middle)
    return high


class _Shifts:
    """Shifts of m rows between two runs, as logarithms, and how wide their intervals are."""

    def __init__(self, base: Floats, other: Floats, basis: Basis) -> None:
        self.base, self.other, self.basis = logarithms(base), logarithms(other), basis
        m = base.shape[1]
        self.counts = np.stack([(~np.isnan(side)).sum(axis=0) for side in (self.base, self.other)])
        self.estimate, self.low, self.high = (np.full(m, np.nan) for _ in range(3))
        for n, k in np.unique(self.counts, axis=1).T.tolist():
            rows = np.flatnonzero((self.counts[0] == n) & (self.counts[1] == k))
            if n and k:
                a, b = _known(self.base[:, rows], n), _known(self.other[:, rows], k)
                shift = shift_interval(a, b, _PASS_LEVEL if basis.is_known else LEVEL)
                self.estimate[rows] = shift[0]
                if least_p(n, k) <= LEVEL:
                    self.low[rows], self.high[rows] = shift[1:]

    def widen(self, by: Floats, displayed: Floats) -> None:
        """Widen intervals to `by` around the estimate where it is known, and to what is shown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_shown = np.log(displayed)
        log_shown = np.where(np.isfinite(log_shown), log_shown, np.nan)
        none = np.isnan(self.low)
        for other in (self.estimate - by, log_shown):
            self.low = np.where(none, np.nan, np.fmin(self.low, other))
        for other in (self.estimate + by, log_shown):
            self.high = np.where(none, np.nan, np.fmax(self.high, other))

    def excludes_zero(self) -> NDArray[np.bool_]:
        """Whether an interval has only one sign."""
        return np.asarray((self.low > 0) | (self.high < 0))

    def standard_error(self, worth: NDArray[np.bool_]) -> tuple[Floats, int]:
        """Return (m,) standard errors of the estimates, nan if unknown, and degrees of freedom."""
        n, k = len(self.base), len(self.other)
        dof = n + k - 2
        if not self.basis.is_known or dof < 1:
            return np.full(len(self.estimate), np.nan), 1
        counts = self.counts.clip(1)
        own = (_squares(self.base) + _squares(self.other)) / (counts.sum(axis=0) - 2).clip(1)
        known = worth & (self.counts.min(axis=0) > 1)
        usual = float(np.median(own[known])) if known.any() else 0.0
        own = (dof * own + _LENT * usual) / (dof + _LENT)
        passes = own * (1 / counts).sum(axis=0)
        runs = self.basis.spread**2
        apart = min(self._apart(known, passes), _MOST_APART * runs)
        return np.sqrt(passes + runs + apart), dof + _LENT

    def _apart(self, known: NDArray[np.bool_], passes: Floats) -> float:
        """The variance by which rows shift against each other beyond what their passes explain."""
        if not known.any():
            return 0.0
        away = self.estimate[known] - np.median(self.estimate[known])
        spread = 1.4826 * float(np.median(np.abs(away)))
        return max(0.0, spread**2 - float(np.median(passes[known])))

    def judgement(self, is_clear: NDArray[np.bool_]) -> Judgement:
        """The verdicts, with ratios in place of logarithms."""
        verdict = np.full(len(self.estimate), VERDICTS.index("none"), dtype=np.int8)
        verdict[is_clear & (self.estimate > 0)] = VERDICTS.index("slower")
        verdict[is_clear & (self.estimate < 0)] = VERDICTS.index("faster")
        if not self.basis.is_known:
            verdict[:] = VERDICTS.index("unknown")
        verdict[np.isnan(self.low)] = VERDICTS.index("few")
        fewest = self.counts.min(axis=0)
        verdict[fewest == 1] = VERDICTS.index("single")
        if self.basis.disturbed:
            verdict[:] = VERDICTS.index("disturbed")
        verdict[fewest == 0] = VERDICTS.index("absent")
        with np.errstate(over="ignore"):
            change, low, high = (np.expm1(logs) for logs in (self.estimate, self.low, self.high))
        return Judgement(verdict, change, low, high)


def _squares(logs: Floats) -> Floats:
    """Return (m,) sums of squares around the mean of (n, m); 0 where nothing is known."""
    known = ~np.isnan(logs)
    values = np.where(known, logs, 0.0)
    means = values.sum(axis=0) / known.sum(axis=0).clip(1)
    return np.asarray((np.where(known, values - means, 0.0) ** 2).sum(axis=0))


def _known(samples: Floats, count: int) -> Floats:
    """The (count, m) samples that are no nan, where each of the m rows has as many."""
    if count == len(samples):
        return samples
    order = np.argsort(np.isnan(samples), axis=0, kind="stable")[:count]
    return np.take_along_axis(samples, order, axis=0)


@lru_cache(maxsize=256)
def _cut(n: int, k: int, level: float) -> int:
    """How many of the n * k differences to leave off at each end; 0 if the level is out of reach.

    The largest c with P(U <= c - 1) <= level / 2, U as Mann and Whitney have it without ties.
    """
    if n * k > 900:
        spread = math.sqrt(n * k * (n + k + 1) / 12)
        return max(0, math.floor(n * k / 2 - NormalDist().inv_cdf(1 - level / 2) * spread))
    # counts[u]: ways with U = u; a Gaussian binomial coefficient, factor by factor
    counts = np.zeros(n * k + 1)
    counts[0] = 1
    for i in range(1, k + 1):
        for u in range(n * k, n + i - 1, -1):
            counts[u] -= counts[u - n - i]
        for u in range(i, n * k + 1):
            counts[u] += counts[u - i]
    below = np.cumsum(counts) / math.comb(n + k, n)
    return int(np.searchsorted(below, level / 2, side="right"))
