"""Decide whether a difference between two runs is more than noise: interval and verdict.

A sample is one pass, which is a separate process; iterations of one process are not independent.
Everything is computed on logarithms, so an interval is one of ratios and never falls below -100 %.

Two runs differ by more than their passes show, because temperature, clock and other load change
between them. The scatter of equal runs on the device (`scatter_of`) widens the interval; without it
there is no verdict. A verdict therefore means two things: the passes of one run differ from those
of the other, and the runs differ by more than equal runs do.

Formulas:
- Estimate: median of all n * m differences of logarithms (Hodges and Lehmann 1963). Figures show
this one and no other ratio, since an interval is valid only for its own estimator.
- Interval of passes: order statistics of these differences (Moses). At 95 %, a single disturbed
pass of five would widen it without limit. If the scatter of equal runs is known, it maintains the
level, and the interval of passes is taken at 80 %.
- Clock: half of its resolution on either side of each time. It keeps the interval of equal samples
from being a point.
- Between runs: t(99 %) * sqrt(sd_a^2 + sd_b^2) with sd from equal runs, but at least the 99 %
quantile of the differences observed between equal runs. This applies to a single number of a run,
such as its total.
- Latency: the median of each clean process is one sample, and a run may have a single one. The
scatter of equal runs includes that between processes, so with too few samples for an interval of
passes, the interval is that of the scatter alone.
- Operators: many are tested at once. Their standard error combines the scatter of their own passes
(moderated by that of all operators, as in Smyth 2004), that of runs, and the shift of operators
against each other between these two runs. The p of Student's t is adjusted by Benjamini and
Hochberg (1995) over the rows that are large enough, at 1 %: of equal runs, at most 1 in 100 pairs
has an operator that is called different.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agent.statistics.ranks import differences, least_p, shift_interval
from agent.statistics.significance import benjamini_hochberg, student_p, student_quantile

Floats = NDArray[np.float64]
#: absent: no times on one side; disturbed: other load during one of the runs; single: only one
#: sample on one side; few: too few passes for an interval; unknown: the scatter of equal runs is
#: not known; none: no significant difference. Only the last two are differences.
Verdict = Literal["absent", "disturbed", "single", "few", "unknown", "none", "faster", "slower"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
#: level of the intervals of passes and of operators
LEVEL = 0.05
#: level of the interval of passes if the scatter of equal runs is known
_PASS_LEVEL = 0.2
#: level between runs: 1 in 100 pairs of equal runs may be reported as different
RUN_LEVEL = 0.01
#: rows below this share of the larger total get no verdict
LEAST_SHARE = 0.001
#: prior degrees of freedom that all operators together contribute to each one
_LENT = 4
#: upper limit for the variance of operators against each other, as a multiple of that of runs: more
#: is a real change of the operators, for example by another algorithm
_MOST_APART = 9
#: fewest degrees of freedom: equal runs beyond the first of each group
LEAST_DOF = 4
#: quantile of the differences of equal runs that is used as the largest one
_QUANTILE = 0.99
#: half of the resolution of MegEngine's clock, s; it also stands for a time of 0
_HALF_TICK_S = 5e-7


#: runs that show how far equal runs differ: those of the same task, of any tasks of the device, or
#: of the sample model that a new device runs
ScatterSource = Literal["equal", "device", "sample"]


@dataclass(frozen=True)
class Scatter:
    """Scatter of equal runs, in logarithms of their times.

    sd: standard deviation of one run
    dof: degrees of freedom behind it
    largest: the 99 % quantile of the differences of two equal runs
    source: which runs these are
    """

    sd: float
    dof: int
    largest: float
    source: ScatterSource = "equal"

    def allowance(self) -> float:
        """Return the log ratio up to which two equal runs may differ."""
        bound = student_quantile(RUN_LEVEL, self.dof) * math.sqrt(2) * self.sd
        return max(bound, self.largest)


@dataclass(frozen=True)
class Basis:
    """The data that a verdict on two runs is based on.

    base, other: scatter of each run; None if unknown
    disturbed: whether either run was disturbed, so that there is no verdict
    """

    base: Scatter | None = None
    other: Scatter | None = None
    disturbed: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the scatter of equal runs is known for both runs."""
        return self.base is not None and self.other is not None

    @property
    def source(self) -> ScatterSource | None:
        """The runs that the wider scatter of both is known from; None if one is unknown."""
        if self.base is None or self.other is None:
            return None
        return max(self.base, self.other, key=Scatter.allowance).source

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
    """One verdict for each of m rows; changes are ratios of times minus 1, so 0.2 is 20 % slower.

    verdict: (m,) int8, index into VERDICTS
    change: (m,) estimate; nan without times on one side, and if the baseline shows 0; -1 if the
        other side shows 0
    low, high: (m,) the interval of `change`, at least 95 %; low < change < high, or both are nan:
        the samples are too few, or a side shows 0. If the scatter of equal runs is unknown, it is
        only the interval of passes.
    """

    verdict: NDArray[np.int8]
    change: Floats
    low: Floats
    high: Floats

    def code(self, row: int) -> Verdict:
        """The verdict of a row."""
        return VERDICTS[int(self.verdict[row])]


def judge_total(
    base: Floats, other: Floats, *, displayed: float, basis: Basis, is_latency: bool = False
) -> Judgement:
    """Test one number of two runs.

    base, other: (n,), (k,) samples, s; nan if a pass has none
    displayed: the ratio of the two displayed times, inf if that of the baseline is 0; a verdict
        never contradicts it
    is_latency: one sample of each run is enough, because it is the median of many iterations, and
        the scatter of equal runs is that of these medians; with few samples, it determines the
        interval
    """
    one = _Shifts(base[:, None], other[:, None], basis, has_scatter_alone=is_latency)
    one.widen(np.array([basis.allowance]))
    return one.judgement(one.excludes_zero(), np.array([displayed]))


def judge_rows(
    base: Floats, other: Floats, *, worth: NDArray[np.bool_], displayed: Floats, basis: Basis
) -> Judgement:
    """Test m rows of two runs together.

    base, other: (n, m), (k, m) samples, s; nan if a pass has none
    worth: (m,) the rows among which false discoveries are counted
    displayed: (m,) as for `judge_total`
    """
    rows = _Shifts(base, other, basis)
    error, dof = rows.standard_error(worth)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = student_p(rows.estimate / error, dof)
    rows.widen(student_quantile(LEVEL, dof) * error)
    q = benjamini_hochberg(np.where(worth, p, np.nan))
    return rows.judgement(rows.excludes_zero() & (q <= RUN_LEVEL), displayed)


def scatter_of(groups: Iterable[Sequence[Floats]]) -> Scatter | None:
    """Return the scatter of equal runs; None if they are too few.

    groups: of equal runs, each with the logarithms of its passes
    """
    squares, dof = 0.0, 0
    largest: list[float] = []
    for group in groups:
        if len(group) < 2:
            continue
        pairs = differences(group)
        # the mean square of differences is twice the variance of a run
        squares += (len(group) - 1) * float(np.mean(pairs**2)) / 2
        dof += len(group) - 1
        largest += np.abs(pairs).tolist()
    if dof < LEAST_DOF:
        return None
    place = math.ceil(_QUANTILE * len(largest)) - 1
    return Scatter(sd=math.sqrt(squares / dof), dof=dof, largest=sorted(largest)[place])


def logarithms(times_s: Floats) -> Floats:
    """Return natural logarithms of times, s; nan for invalid ones. 0 counts as 0.5 µs."""
    usable = np.isfinite(times_s) & (times_s >= 0)
    return np.log(np.where(usable, np.where(times_s == 0, _HALF_TICK_S, times_s), np.nan))


class _Shifts:
    """Shifts of m rows between two runs, as logarithms, and their intervals."""

    def __init__(
        self, base: Floats, other: Floats, basis: Basis, *, has_scatter_alone: bool = False
    ) -> None:
        self.base, self.other, self.basis = logarithms(base), logarithms(other), basis
        self.has_scatter_alone = has_scatter_alone
        m = base.shape[1]
        self.counts = np.stack([(~np.isnan(side)).sum(axis=0) for side in (self.base, self.other)])
        self.estimate, self.low, self.high = (np.full(m, np.nan) for _ in range(3))
        for n, k in np.unique(self.counts, axis=1).T.tolist():
            rows = np.flatnonzero((self.counts[0] == n) & (self.counts[1] == k))
            if n and k:
                # nan is sorted last, and the order of the samples means nothing
                a, b = (
                    np.sort(side[:, rows], axis=0)[:count]
                    for side, count in ((self.base, n), (self.other, k))
                )
                shift = shift_interval(a, b, _PASS_LEVEL if basis.is_known else LEVEL)
                self.estimate[rows] = shift[0]
                if least_p(n, k) <= LEVEL:
                    self.low[rows], self.high[rows] = shift[1:]
                elif has_scatter_alone and basis.is_known:
                    self.low[rows] = self.high[rows] = shift[0]

    def widen(self, by: Floats) -> None:
        """Widen intervals around the estimate to `by` if known, and to the resolution of clocks."""
        none = np.isnan(self.low)
        shortest = (
            np.fmin.reduce(side, axis=0, initial=np.inf) for side in (self.base, self.other)
        )
        least = math.log(_HALF_TICK_S)
        clock = sum(np.log1p(np.exp(least - np.maximum(logs, least))) for logs in shortest)
        widest = np.fmax(by, clock)
        self.low = np.where(none, np.nan, np.fmin(self.low, self.estimate - widest))
        self.high = np.where(none, np.nan, np.fmax(self.high, self.estimate + widest))

    def excludes_zero(self) -> NDArray[np.bool_]:
        """Whether both bounds of an interval have the same sign."""
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
        """Return the variance of rows against each other beyond what their passes explain."""
        if not known.any():
            return 0.0
        away = self.estimate[known] - np.median(self.estimate[known])
        spread = 1.4826 * float(np.median(np.abs(away)))
        return max(0.0, spread**2 - float(np.median(passes[known])))

    def judgement(self, is_clear: NDArray[np.bool_], displayed: Floats) -> Judgement:
        """Return the verdicts, with ratios instead of logarithms.

        A displayed time of 0 has no logarithm: the 0.5 µs that stand for it are in no figure.
        """
        verdict = np.full(len(self.estimate), VERDICTS.index("none"), dtype=np.int8)
        # the displayed times are medians of operators, which are not the medians of passes
        is_slower, is_faster = ~(displayed < 1), ~(displayed > 1)
        verdict[is_clear & (self.estimate > 0) & is_slower] = VERDICTS.index("slower")
        verdict[is_clear & (self.estimate < 0) & is_faster] = VERDICTS.index("faster")
        if not self.basis.is_known:
            verdict[:] = VERDICTS.index("unknown")
        fewest = self.counts.min(axis=0)
        if not self.has_scatter_alone:
            verdict[np.isnan(self.low)] = VERDICTS.index("few")
            verdict[fewest == 1] = VERDICTS.index("single")
        if self.basis.disturbed:
            verdict[:] = VERDICTS.index("disturbed")
        verdict[fewest == 0] = VERDICTS.index("absent")
        with np.errstate(over="ignore"):
            change, low, high = (np.expm1(logs) for logs in (self.estimate, self.low, self.high))
        change = np.where((displayed == 0) & ~np.isnan(change), -1.0, change)
        change = np.where(np.isinf(displayed), np.nan, change)
        is_zero = (displayed == 0) | np.isinf(displayed)
        low, high = (np.where(is_zero, np.nan, bound) for bound in (low, high))
        return Judgement(verdict, change, low, high)


def _squares(logs: Floats) -> Floats:
    """Return (m,) sums of squares around the mean of (n, m); 0 without known samples."""
    known = ~np.isnan(logs)
    values = np.where(known, logs, 0.0)
    means = values.sum(axis=0) / known.sum(axis=0).clip(1)
    return np.asarray((np.where(known, values - means, 0.0) ** 2).sum(axis=0))
