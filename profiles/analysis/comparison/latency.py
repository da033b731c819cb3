"""Whether the time of an iteration differs between two runs.

Iterations of one process follow each other and are not independent: a slow one is often followed
by another. So a clean pass is cut into BLOCKS pieces of equal length, the median of each is one
sample, and these are tested as samples of operators are. That takes care of what lasts shorter
than a piece; slower drifts remain, and make the interval too narrow.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.comparison.confidence import Judgement, judge

Floats = NDArray[np.float64]
BLOCKS = 10
#: iterations in a piece, at least
FEWEST_EACH = 2


def block_medians(times_ms: Sequence[float]) -> Floats:
    """Return (BLOCKS,) medians, ms, of iterations in order; the first ones that do not fit into
    equal pieces are left out. Of too few iterations (1,), their median; (0,) without any.
    """
    times = np.asarray(times_ms, dtype=np.float64)
    each = len(times) // BLOCKS
    if each < FEWEST_EACH:
        return np.median(times, keepdims=True) if len(times) else times
    return np.asarray(np.median(times[len(times) - each * BLOCKS :].reshape(BLOCKS, each), axis=1))


def judge_latency(base_ms: Sequence[float], other_ms: Sequence[float]) -> Judgement:
    """Test the iterations of two clean passes, in s as all tests."""
    a, b = block_medians(base_ms) / 1000, block_medians(other_ms) / 1000
    difference_s = np.nan
    if len(base_ms) and len(other_ms):
        difference_s = float(np.median(other_ms) - np.median(base_ms)) / 1000
    return judge(
        a.reshape(-1, 1),
        b.reshape(-1, 1),
        worth=np.array([True]),
        difference_s=np.array([difference_s]),
    )
