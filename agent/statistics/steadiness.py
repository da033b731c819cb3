"""Find from which iteration on a process runs at a steady speed, and whether it has several speeds.

Change points: binary segmentation (Scott and Knott 1974) for changes of the mean of logarithms. A
segment of m iterations is split where the residual sum of squares falls most, if m * log(before /
after) > 15 * log(n). This penalty is the one of Barrett et al. (2017, Virtual Machine Warmup Blows
Hot and Cold): it is high, because iterations of one process are not independent, and a penalty for
independent ones finds changes in every series. Values are clipped at 10 standard deviations, so
that no single slow iteration is a change.

Steady state: the level is the median of the second half. The steady part starts at the first
segment whose median is within the tolerance of that level, if at most a tenth of the iterations
from there on are in segments at another level. A process that only starts to be steady in its
second half, or has more excursions, is never steady. The tolerance is 1 %, or the standard
deviation of iterations around their segments where that is larger: a smaller change of the level
does not matter next to it.

Modes: peaks of a kernel density of logarithms (Silverman 1986) with valleys of at most half the
height of the lower peak between them, each with at least a tenth of the iterations and at least 3 %
apart. At least 30 iterations are needed.

Limits: a change of less than the tolerance is not found, nor a slow drift in fewer than about 50
iterations, nor two modes that overlap (nearer than about three standard deviations).
"""

import heapq
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
#: fewest iterations to detect a steady state, and modes
LEAST_ITERATIONS, LEAST_FOR_MODES = 10, 30
_PENALTY = 15.0
#: shortest segment, and most segments
_SHORTEST, _MOST_SEGMENTS = 2, 64
#: standard deviations beyond which values are clipped
_CLIPPED = 10.0
#: smallest change of the level that matters, as a log ratio
_TOLERANCE = 0.01
#: the same in standard deviations of iterations around their segments
_TOLERATED = 1.0
#: largest part of the steady iterations that may run at another level
_EXCURSIONS = 0.1
#: a MAD of normal values is this part of their standard deviation
_MAD = 0.6745
#: half of the resolution of MegEngine's clock, ms
_HALF_TICK_MS = 5e-4
_MODE_SHARE, _MODE_DISTANCE, _VALLEY = 0.1, 0.03, 0.5
_GRID = 1024


@dataclass(frozen=True)
class Steadiness:
    """Whether n iterations of a process reach a steady state.

    is_steady: whether they do
    start: number of iterations before it; 0 if it is steady from the first one, n if it never is
    """

    is_steady: bool
    start: int


@dataclass(frozen=True)
class Mode:
    """A speed at which a process often runs: the median of its iterations, and their share."""

    median_ms: float
    share: float


def steadiness(times_ms: ArrayLike) -> Steadiness | None:
    """Return whether the iterations of one process reach a steady state; None for too few.

    times_ms: (n,) finite, from 0, in the order of time
    """
    logs = _logarithms(times_ms)
    n = len(logs)
    if n < LEAST_ITERATIONS:
        return None
    level = float(np.median(logs[n // 2 :]))
    reach = max(_CLIPPED * _sigma(logs[n // 2 :] - level), 5 * _TOLERANCE)
    starts = change_points(np.clip(logs, level - reach, level + reach))
    segments = [logs[start:end] for start, end in pairwise([*starts, n])]
    medians = [float(np.median(segment)) for segment in segments]
    sigma = _sigma(
        np.concatenate([own - median for own, median in zip(segments, medians, strict=True)])
    )
    tolerance = max(_TOLERANCE, _TOLERATED * sigma)
    away = [abs(median - level) > tolerance for median in medians]
    sizes = [len(own) if is_away else 0 for own, is_away in zip(segments, away, strict=True)]
    # iterations at another level, from each segment on
    left = np.cumsum(sizes[::-1])[::-1].tolist()
    for start, is_away, total in zip(starts, away, left, strict=True):
        if not is_away and start <= n // 2 and total <= _EXCURSIONS * (n - start):
            return Steadiness(is_steady=True, start=start)
    return Steadiness(is_steady=False, start=n)


def change_points(values: Floats) -> list[int]:
    """Return where segments of equal mean start, from 0, in order.

    values: (n,) finite, without extreme outliers
    """
    limit = _PENALTY * math.log(len(values))
    starts = {0}
    # the largest gain first
    waiting: list[tuple[float, int, int, int]] = []
    _add_split(waiting, values, 0, len(values), limit)
    while waiting and len(starts) < _MOST_SEGMENTS:
        _, start, split, end = heapq.heappop(waiting)
        starts.add(split)
        _add_split(waiting, values, start, split, limit)
        _add_split(waiting, values, split, end, limit)
    return sorted(starts)


def modes(times_ms: ArrayLike) -> tuple[Mode, ...]:
    """Return the modes, fastest first: one, or several that are clearly apart; none for too few.

    times_ms: (n,) finite, from 0; iterations of one or several processes
    """
    times = np.sort(np.asarray(times_ms, dtype=np.float64))
    logs = _logarithms(times)
    if len(logs) < LEAST_FOR_MODES:
        return ()
    first, third = np.percentile(logs, (25, 75)).tolist()
    spread = min(float(logs.std()), (third - first) / 1.349) or float(logs.std())
    # neither the clock's resolution nor a quarter of a per cent makes modes
    width = max(
        0.9 * spread * len(logs) ** -0.2, 2 * _HALF_TICK_MS / math.exp(first), _TOLERANCE / 4
    )
    # few slow iterations far away would leave a coarse grid for all others
    low, high = np.percentile(logs, (0.5, 99.5)).tolist()
    edges = np.linspace(low - 4 * width, high + 4 * width, _GRID + 1)
    counts, _ = np.histogram(logs, edges)
    step = float(edges[1] - edges[0])
    reach = min(math.ceil(4 * width / step), _GRID // 2 - 1)
    kernel = np.exp(-((np.arange(-reach, reach + 1) * step / width) ** 2) / 2)
    density = np.convolve(counts, kernel, mode="same")
    valleys = _valleys(logs, density, (edges[1:] + edges[:-1]) / 2)
    cuts = [0, *np.searchsorted(logs, valleys, side="right").tolist(), len(logs)]
    return tuple(
        Mode(median_ms=float(np.median(times[first:last])), share=(last - first) / len(times))
        for first, last in pairwise(cuts)
    )


def _add_split(
    waiting: list[tuple[float, int, int, int]], values: Floats, start: int, end: int, limit: float
) -> None:
    """Add the best split of a segment to the heap, if it is worth its penalty."""
    part = values[start:end] - values[start:end].mean()
    m = len(part)
    if m < 2 * _SHORTEST:
        return
    sizes = np.arange(_SHORTEST, m - _SHORTEST + 1)
    sums = np.cumsum(part)[_SHORTEST - 1 : m - _SHORTEST]
    # the sum of squares between both parts; their sums are opposite
    between = sums**2 * (1 / sizes + 1 / (m - sizes))
    best = int(np.argmax(between))
    total = float((part**2).sum())
    # rounding leaves a little of equal values
    rest = max(total - float(between[best]), 1e-12 * m)
    if total > rest and m * math.log(total / rest) > limit:
        heapq.heappush(waiting, (-m * math.log(total / rest), start, start + int(sizes[best]), end))


def _valleys(logs: Floats, density: Floats, centres: Floats) -> list[float]:
    """Return the places between modes, removing the shallowest valley until all modes count."""
    rises = np.sign(np.diff(density))
    rises = rises[rises != 0]
    places = np.flatnonzero(np.diff(density) != 0)
    turns = np.flatnonzero(np.diff(rises))
    peaks = [int(places[turn]) + 1 for turn in turns if rises[turn] > 0]
    valleys = [
        first + int(np.argmin(density[first : second + 1])) for first, second in pairwise(peaks)
    ]
    while valleys:
        borders = np.searchsorted(logs, centres[valleys], side="right")
        sizes = np.diff([0, *borders.tolist(), len(logs)])
        depths = [
            1.0
            if min(sizes[i], sizes[i + 1]) < _MODE_SHARE * len(logs)
            or centres[peaks[i + 1]] - centres[peaks[i]] < _MODE_DISTANCE
            else float(density[valley] / min(density[peaks[i]], density[peaks[i + 1]]))
            for i, valley in enumerate(valleys)
        ]
        worst = int(np.argmax(depths))
        if depths[worst] <= _VALLEY:
            break
        del valleys[worst]
        lower = worst if density[peaks[worst]] < density[peaks[worst + 1]] else worst + 1
        del peaks[lower]
    return [float(centres[valley]) for valley in valleys]


def _logarithms(times_ms: ArrayLike) -> Floats:
    times = np.asarray(times_ms, dtype=np.float64)
    return np.log(np.maximum(times, _HALF_TICK_MS))


def _sigma(differences: Floats) -> float:
    """Return the standard deviation by the median of absolute differences from a median."""
    return float(np.median(np.abs(differences))) / _MAD
