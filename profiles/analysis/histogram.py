"""How iterations spread: a histogram that says something of 20 iterations and of 20,000.

Bins are as wide as Freedman and Diaconis advise (2 x interquartile range / cube root of n), but
5 to 60 of them. A few very slow iterations would leave all others in one bin: so bins end with
the 99th percentile, or with the last iteration that is no more than three interquartile ranges
above the third quartile if that is later. What is beyond is only counted.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

FEWEST_BINS, MOST_BINS = 5, 60
#: interquartile ranges above the third quartile; further away is an outlier by any rule
REACH = 3.0


@dataclass(frozen=True)
class Histogram:
    """edges_ms: b + 1 limits of the bins, ms, rising; counts: b iterations, the last bin includes
    its upper edge; above: iterations beyond the last edge.
    """

    edges_ms: tuple[float, ...]
    counts: tuple[int, ...]
    above: int


def histogram(times_ms: ArrayLike) -> Histogram | None:
    """Return the histogram of iterations; None without any, or if they do not differ.

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
    # float64 rounds the last edge, and the largest time must not fall out
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
