"""Compare two programs by pairs of processes, with interim looks while pairs are measured.

The unit is a pair of newly started processes, one of each program. The memory addresses of a
process bias all its turns, so blocks of turns in a pair only make its one value more precise.

Formulas:
- Value of a pair: the difference of the means of the logarithms of each process's turns, of which
the faster half counts. Delays only add time, so the lower end of the times is the steadiest (Chen
and Revels 2016, who use the minimum). A block is A B B A, so a drift that is linear in time cancels
out of an even number of blocks, and has a random sign otherwise.
- Effect: the Hodges-Lehmann estimate of the values, with intervals of Wilcoxon's signed ranks
(`ranks`). They assume independent values that are symmetric around the effect, and nothing about
tails or scales. Pairs begin with either program by chance, which makes the values of equal programs
symmetric whatever disturbs them. One process that differs by 20 % moves a mean of 20 pairs by 1 %,
and this estimate by almost nothing.
- Looks: each look spends a part of the error that all looks together may make (Lan and DeMets
1983): error * (pairs / planned) ** 1.5, the power family of Kim and DeMets (1987). The boundaries
follow from the joint normal distribution of the looks (Armitage, McPherson and Rowe 1969), and the
level of each boundary is applied to the exact distribution of signed ranks. The number of planned
pairs may change, if what changes it is the time of a pair or the budget, never the values.
- FASTER and SLOWER: the interval excludes 0, two-sided.
- SAME: two one-sided tests (Schuirmann 1987), i.e. the interval is within +-margin. Each test has
the whole error, since both cannot be wrong at once. An effect that is different from 0 but within
the margin is SAME, because the margin is the smallest difference that matters.
- Reported interval: at 95 %, with the same looks (Jennison and Turnbull 1989, repeated confidence
intervals). The plain interval may contain the truth too rarely if the measurement was stopped
because of the values.
- Operators: p of signed ranks for each, adjusted by Benjamini and Hochberg (1995), so that at most
5 in 100 of those called different are not.
- Disturbed pairs are dropped before, by the state of the device, never by their values.

Limits: pairs that depend on each other, such as an effect that itself drifts, make the errors
larger; `make bench-trust` shows by how much.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agent.statistics.ranks import signed_rank_cut, signed_rank_interval, signed_rank_p
from agent.statistics.significance import benjamini_hochberg

Floats = NDArray[np.float64]
PairedVerdict = Literal["not_enough", "faster", "slower", "same"]
PAIRED_VERDICTS: tuple[PairedVerdict, ...] = get_args(PairedVerdict)
#: error of all looks of a comparison together, and that of the reported interval
ERROR, INTERVAL_ERROR = 0.01, 0.05
#: part of the error that looks spend. Their joint distribution is approximated: 1.04 % of equal
#: pairs were called different when they spent all of 1 %
_SPENT = 0.9
#: the smallest difference that matters, as a ratio
MARGIN = 0.01
#: pairs of the first look, and growth of their number from look to look. Fewer than 8 pairs cannot
#: give a verdict; more looks between do not decide much earlier
FIRST_LOOK, _GROWTH = 8, 1.25
#: exponent of the spent error
_SPENDING = 1.5
#: probability with which `smallest_effect` would have been seen, and `more_pairs` would decide
_POWER, _LIKELY = 0.9, 0.8
#: level of an interval of one standard error to either side
_ONE_SIGMA = 2 * NormalDist().cdf(-1)
#: grid of the joint distribution of looks, in standard deviations; boundaries are exact to 0.002
_GRID = np.linspace(-8.0, 8.0, 401)


@dataclass(frozen=True)
class Look:
    """A look at the values: how many there were, and how many were planned at that time.

    The last look, if time is up, has as many planned pairs as pairs. If the user ends the
    measurement, it has as many planned pairs as before, because the user has seen the values.
    """

    pairs: int
    planned: int


@dataclass(frozen=True)
class PairedResult:
    """The result of a paired comparison; effects are ratios of times minus 1, 0.02 is 2 % slower.

    low, high: the 95 % interval of `effect`; None with fewer than six pairs
    smallest_effect: what these pairs, as a last look, would call different with a probability of
        90 %; None if they are too few for a verdict
    more_pairs: about how many more would decide, if the effect is as estimated; 0 with a verdict,
        None if unknown
    """

    verdict: PairedVerdict
    pairs: int
    effect: float
    low: float | None
    high: float | None
    smallest_effect: float | None
    more_pairs: int | None


@dataclass(frozen=True, eq=False)
class PairedOperators:
    """The differences of m operators; effects are ratios of times minus 1.

    effect: (m,); nan for an operator without a pair
    low, high: (m,) plain 95 % intervals of single operators; infinite with fewer than six pairs
    q: (m,) adjusted p: the false discovery rate if this and all with a smaller q are called
        different
    is_different: (m,) q is at most 0.05
    """

    effect: Floats
    low: Floats
    high: Floats
    q: Floats
    is_different: NDArray[np.bool_]


def compare_operators(log_ratios: Floats) -> PairedOperators:
    """Return which operators differ, after the measurement has ended.

    log_ratios: (n, m) one value for each pair and operator; nan if a pair lacks it
    """
    known = ~np.isnan(log_ratios)
    counts = known.sum(axis=0)
    m = log_ratios.shape[1]
    effect, low, high, p = np.full(m, np.nan), np.full(m, -np.inf), np.full(m, np.inf), np.ones(m)
    for n in np.unique(counts[counts > 0]).tolist():
        columns = np.flatnonzero(counts == n)
        # nan is sorted last, and the order of the pairs means nothing
        values = np.sort(log_ratios[:, columns], axis=0)[:n]
        effect[columns], lows, highs = signed_rank_interval(values, (INTERVAL_ERROR,))
        low[columns], high[columns] = lows[0], highs[0]
        p[columns] = signed_rank_p(values)
    q = benjamini_hochberg(np.where(counts > 0, p, np.nan))
    return PairedOperators(
        effect=np.expm1(effect),
        low=np.expm1(low),
        high=np.expm1(high),
        q=q,
        is_different=q <= INTERVAL_ERROR,
    )


def operator_pairs(operators: int) -> int:
    """Return the number of pairs that can determine which of these operators differ.

    With this number, a single operator that differs is found even if one pair shows the opposite
    with the largest difference of all.
    """
    level = INTERVAL_ERROR / max(operators, 1)
    n = FIRST_LOOK
    while signed_rank_cut(n, level) <= n:
        n += 1
    return n


def log_time_of_process(turns_ms: Sequence[float]) -> float:
    """Return the logarithm of the time of an iteration, ms, from the turns of a process of a pair.

    The faster half of the turns counts: other programs and virtual machines only make a turn
    slower, and seldom all of them (docs/decisions/measured-in-pairs.md).

    turns_ms: median iteration of each turn

    Raises ValueError for fewer than two turns.
    """
    if len(turns_ms) < 2:
        raise ValueError("a process of a pair needs two turns or more")
    logs = np.sort(np.log(np.asarray(turns_ms)))
    return float(logs[: len(logs) // 2].mean())


def log_ratio_of_pair(base_ms: Sequence[float], other_ms: Sequence[float]) -> float:
    """Return the log ratio of a pair of processes; positive if the other one is slower.

    base_ms, other_ms: median iteration of each turn; two turns of each process form a block
    """
    if len(base_ms) != len(other_ms) or len(base_ms) % 2 or not len(base_ms):
        raise ValueError("each process of a pair needs the same even number of turns")
    return log_time_of_process(other_ms) - log_time_of_process(base_ms)


def next_look(pairs: int, planned: int) -> int:
    """Return after how many pairs to look again; `planned` is the last look."""
    return min(max(FIRST_LOOK, math.ceil(pairs * _GROWTH)), planned)


def compare_pairs(
    log_ratios: Sequence[float], looks: Sequence[Look], *, margin: float = MARGIN
) -> PairedResult:
    """Return the result of the pairs so far.

    log_ratios: one value for each pair, from 1, as of `log_ratio_of_pair`
    looks: all looks so far, the present one last
    margin: the smallest difference that matters, as a ratio
    """
    if not log_ratios or looks[-1].pairs != len(log_ratios):
        raise ValueError("the last look is at all pairs, and there is at least one")
    if not 0 <= margin < 1:
        raise ValueError("the margin is a ratio from 0, below 1")
    values, n = np.array(log_ratios, dtype=np.float64)[:, None], len(log_ratios)
    middle, lows, highs = signed_rank_interval(values, (*look_levels(tuple(looks)), _ONE_SIGMA))
    code = decide(lows[:, 0:1], highs[:, 0:1], margin)[0]
    effect, low, high = middle[0], lows[2, 0], highs[2, 0]
    if math.isinf(low) and signed_rank_cut(n, INTERVAL_ERROR):
        # the first looks spend less than so few pairs can show; no verdict ends a measurement here
        low, high = values.min(), values.max()
    sigma = (highs[3, 0] - lows[3, 0]) / 2
    return PairedResult(
        verdict=PAIRED_VERDICTS[code],
        pairs=n,
        effect=math.expm1(effect),
        low=None if math.isinf(low) else math.expm1(low),
        high=None if math.isinf(high) else math.expm1(high),
        smallest_effect=_smallest_effect(sigma, tuple(looks[:-1]), n),
        more_pairs=_more_pairs(effect, sigma, looks, margin) if code == 0 else 0,
    )


def decide(lows: Floats, highs: Floats, margin: float) -> NDArray[np.int8]:
    """Return (m,) verdicts, as indices of PAIRED_VERDICTS.

    lows, highs: bounds of m intervals as logarithms; row 0 at the level of a difference, row 1 at
        that of equality, as in `look_levels`
    """
    verdict = np.zeros(lows.shape[1], dtype=np.int8)
    verdict[highs[0] < 0] = PAIRED_VERDICTS.index("faster")
    verdict[lows[0] > 0] = PAIRED_VERDICTS.index("slower")
    is_same = (lows[1] > math.log1p(-margin)) & (highs[1] < math.log1p(margin))
    verdict[is_same] = PAIRED_VERDICTS.index("same")
    return verdict


def look_levels(looks: tuple[Look, ...]) -> tuple[float, float, float]:
    """Return the two-sided levels of three intervals at the last look: that of a difference, that
    of equality (two one-sided tests), and the reported one.
    """
    return (
        _level(looks, _SPENT * ERROR),
        _level(looks, _SPENT * 2 * ERROR),
        _level(looks, INTERVAL_ERROR),
    )


def _level(looks: tuple[Look, ...], error: float) -> float:
    """Return the nominal two-sided level of the last look; 0 if nothing is left to spend."""
    return 2 * NormalDist().cdf(-_spending(looks, error).boundary)


@dataclass(frozen=True, eq=False)
class _Spending:
    """The state after a look.

    boundary: of this look, in standard deviations; infinite if it may spend nothing
    spent: error of all looks so far
    density: of the standardised sum, without the paths that a boundary has stopped
    """

    boundary: float
    spent: float
    density: Floats


@lru_cache(maxsize=512)
def _spending(looks: tuple[Look, ...], error: float) -> _Spending:
    """Return the state after the last look, from that after the one before."""
    look, step = looks[-1], float(_GRID[1] - _GRID[0])
    if look.pairs < 1 or look.planned < look.pairs:
        raise ValueError("a look has at least one pair, and at most as many as planned")
    budget = error * (look.pairs / look.planned) ** _SPENDING
    if len(looks) == 1:
        spent, density = 0.0, _normal(_GRID)
    else:
        before = _spending(looks[:-1], error)
        part = looks[-2].pairs / look.pairs
        if part >= 1:
            raise ValueError("looks have growing numbers of pairs")
        spent = before.spent
        away = (_GRID[:, None] - math.sqrt(part) * _GRID) / math.sqrt(1 - part)
        density = _normal(away) @ before.density * step / math.sqrt(1 - part)
    boundary = _boundary(density * step, max(budget - spent, 0.0))
    # the cell of the boundary counts in part
    inside = np.clip((boundary - np.abs(_GRID)) / step + 0.5, 0.0, 1.0)
    return _Spending(boundary, max(spent, budget), density * inside)


def _boundary(masses: Floats, spend: float) -> float:
    """Return the boundary that a symmetric distribution on the grid exceeds with `spend`."""
    if spend <= 0:
        return math.inf
    above = np.cumsum(masses[::-1]) - masses[::-1] / 2
    return float(np.interp(spend / 2, above, _GRID[::-1]))


def _normal(values: Floats) -> Floats:
    return np.asarray(np.exp(-(values**2) / 2) / math.sqrt(2 * math.pi))


def _smallest_effect(sigma: float, before: tuple[Look, ...], n: int) -> float | None:
    level = look_levels((*before, Look(n, n)))[0]
    if not signed_rank_cut(n, level) or not math.isfinite(sigma):
        return None
    normal = NormalDist()
    return math.expm1((normal.inv_cdf(1 - level / 2) + normal.inv_cdf(_POWER)) * sigma)


def _more_pairs(effect: float, sigma: float, looks: Sequence[Look], margin: float) -> int | None:
    """Return about how many more pairs would decide; None if no number would.

    A standard error shrinks with the square root of the number of pairs. The nearer of both limits
    decides: 0 for a difference, the margin for equality.
    """
    n = looks[-1].pairs
    if not math.isfinite(sigma):
        return max(FIRST_LOOK - n, 1)
    numbers = []
    for error, distance in (
        (ERROR, abs(effect)),
        (2 * ERROR, math.log1p(margin) - abs(effect)),
    ):
        # the boundary of a last look is little above that of a single one
        boundary = _spending((Look(n, 2 * n), Look(2 * n, 2 * n)), error).boundary
        reach = (boundary + NormalDist().inv_cdf(_LIKELY)) * sigma
        if distance > 0:
            numbers.append(n * (reach / distance) ** 2)
    needed = min(numbers, default=math.inf)
    return None if needed > 1e6 else max(math.ceil(needed - n), 1)
