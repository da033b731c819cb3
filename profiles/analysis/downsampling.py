"""Which moments of a long curve are kept: busy times and quiet ones, and no peak is lost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def thinned(at: NDArray[Any], limit: int) -> NDArray[np.intp]:
    """Return which of m > 0 moments begin a stretch of the curve: at most `limit`, ascending.

    at: (m,) times in any unit, ascending. All of them if they are few enough; the first and the
    last are among them. The most of each stretch stands for it (`np.maximum.reduceat`), so the
    highest value is kept wherever it is.

    Stretches of equally many moments alone would draw quiet times as high as the busy ones beside
    them: one that ends a burst and begins the next has the seconds between, too. So the time is
    divided into equal parts as well. Where nothing changes at a border of them, what held then
    began with the moment before, and ends with the one behind: both begin stretches of their own.
    """
    number = len(at)
    if number <= limit:
        return np.arange(number)
    borders = np.linspace(float(at[0]), float(at[-1]), limit // 3, endpoint=False)
    behind = np.minimum(np.searchsorted(at, borders), number - 1)
    by_time = np.unique(np.concatenate([behind, np.maximum(behind - 1, 0), [number - 1]]))
    by_count = np.linspace(0, number, limit - len(by_time), endpoint=False).astype(np.intp)
    return np.unique(np.concatenate([by_time, by_count]))
