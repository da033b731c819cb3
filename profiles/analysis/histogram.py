"""Histogram of iteration times that is useful for 20 iterations and for 20,000.

The bin width follows the Freedman-Diaconis rule (2 x interquartile range / cube root of n), with 5
to 60 bins. A few very slow iterations would put all others into one bin, so the bins end at the
99th percentile, or at the last iteration within three interquartile ranges above the third quartile
if that is later. Iterations beyond this are only counted.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FEWEST_BINS, MOST_BINS = 5, 60
#: interquartile ranges above the third quartile; values beyond this are outliers by any rule
REACH = 3.0


@dataclass(frozen=True)
class Histogram:
    """Counts of iterations in b bins.

    edges_ms: b + 1 limits of the bins, ms, ascending
    counts: b numbers of iterations; the last bin includes its upper edge
    above: iterations beyond the last edge
    """

    edges_ms: tuple[float, ...]
    counts: tuple[int, ...]
    above: int


def histogram(times_ms: ArrayLike) -> Histogram | None:
    """Return the histogram of iterations; None without iterations, or if all are equal.

    times_ms: (n,) finite, ms
    """
    times = np.asarray(times_ms, dtype=np.float64)
    if not times.size:
        return None
    first, third, p99 = np.percentile(times, (25, 75, 99)).tolist()
    low = float(times.min())
    reach = max(p99, third + REACH * (third - first))
    high = max(p99, float(times[times <= reach].max()))
    edges = np.linspace(low, high, _bins(times.size, third - first, high - low) + 1)
    if not (np.diff(edges) > 0).all():
        return None
    # float64 rounds the last edge, and the largest time must remain in the last bin
    edges[-1] = high
    counts, _ = np.histogram(times, edges)
    return Histogram(
        edges_ms=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        above=int((times > high).sum()),
    )


def _bins(iterations: int, quartiles_ms: float, range_ms: float) -> int:
    width = 2 * quartiles_ms / math.cbrt(iterations)
    count = range_ms / width if width > 0 else math.inf
    return int(min(max(math.ceil(min(count, MOST_BINS)), FEWEST_BINS), MOST_BINS))
