"""Downsample a long curve for drawing without losing a peak."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def downsample(
    at: NDArray[Any], values: NDArray[Any], limit: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the times at which stretches of the curve start, at most `limit`, and their maxima.

    at, values: (m,) times in any unit, ascending, and the values from these on; m > 0

    All times are returned if they are few enough; the first and the last are always included. A
    stretch is drawn by its maximum, so the highest value is kept wherever it is.

    Stretches of equally many points alone would draw quiet times as high as the bursts next to
    them, because a stretch that ends one burst and begins the next also covers the seconds between.
    Therefore the time is also divided into equal intervals. Where no point lies at the border of an
    interval, the value there was set by the point before and lasts until the point after it: both
    start a stretch of their own.
    """
    number = len(at)
    if number <= limit:
        return at, values
    borders = np.linspace(float(at[0]), float(at[-1]), limit // 3, endpoint=False)
    behind = np.minimum(np.searchsorted(at, borders), number - 1)
    by_time = np.unique(np.concatenate([behind, np.maximum(behind - 1, 0), [number - 1]]))
    by_count = np.linspace(0, number, limit - len(by_time), endpoint=False).astype(np.intp)
    starts = np.unique(np.concatenate([by_time, by_count]))
    return at[starts], np.maximum.reduceat(values, starts)
