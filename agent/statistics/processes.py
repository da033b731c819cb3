"""Interval of the median iteration of a program, from the medians of several processes.

Iterations of one process are not independent, and a process is biased as a whole, so its median is
one sample (Kalibera and Jones 2013, whose bootstrap resamples processes and then iterations). On
logarithms:

- two to five processes: Student's t.
- from six: signed ranks (`ranks`). They keep their level for every symmetric distribution of
processes, and a single process that was slow does not widen the interval without limit.

docs/decisions/paired-statistics.md compares this with the bootstrap. One process has no interval;
neither have a few processes whose differences are too large for Student's t.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agent.statistics.ranks import signed_rank_cut, signed_rank_interval
from agent.statistics.significance import student_quantile

_ERROR = 0.05
#: two processes of 9 µs and 8 ms have an interval of 10^40, which no reader can use
_WIDEST = 100


@dataclass(frozen=True)
class MedianInterval:
    """The 95 % interval of the median iteration of a process, ms.

    processes: the number of processes that it is computed from
    """

    low_ms: float
    high_ms: float
    processes: int

    @property
    def half_width(self) -> float:
        """Half of its width, as a ratio of its middle: 0.01 is ±1 %."""
        return (self.high_ms - self.low_ms) / (self.high_ms + self.low_ms)


def median_interval(medians_ms: Sequence[float]) -> MedianInterval | None:
    """Return the interval; None if it is unknown.

    It is unknown for fewer than two processes, if a median is not positive, and if the bounds of
    Student's t differ by more than a factor of `_WIDEST`.

    medians_ms: the median iteration of each process
    """
    n = len(medians_ms)
    if n < 2 or min(medians_ms) <= 0:
        return None
    logs = np.log(np.array(medians_ms, dtype=np.float64))
    if signed_rank_cut(n, _ERROR):
        _, lows, highs = signed_rank_interval(logs[:, None], (_ERROR,))
        low, high = float(lows[0, 0]), float(highs[0, 0])
    else:
        middle = float(logs.mean())
        reach = student_quantile(_ERROR, n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
        if 2 * reach > math.log(_WIDEST):
            return None
        low, high = middle - reach, middle + reach
    return MedianInterval(low_ms=math.exp(low), high_ms=math.exp(high), processes=n)
