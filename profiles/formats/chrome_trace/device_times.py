"""How long operators took on devices, and what copies between devices waited for each other.

A copy is a span on the lane of each of its devices (MegEngine 1.13): the one that is told to copy
first enters its own and waits there until the other one comes so far. So what each lane has of it
says how long that device was kept, and only the time in which all of them were in it that it
copied.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.formats.load_and_run.graph import Intervals

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DeviceTimes:
    """Times of n operators.

    took_s: (n,) float64, of an operator on one device the sum over its kernels, 0 without any; of
        one on several devices the time in which all of them were in it
    copies: how many are on several devices; waited_s: what these have on lanes beside that time
    """

    took_s: Floats
    copies: int
    waited_s: float


def summed_s(intervals: Intervals, rows: int) -> Floats:
    """(n,) sums over all intervals of an operator."""
    length_s = intervals.end_s - intervals.start_s
    return np.bincount(intervals.row, length_s, minlength=rows).astype(np.float64)


def on_several_lanes(intervals: Intervals, rows: int) -> NDArray[np.bool_]:
    """(n,) which operators have intervals on more than one lane."""
    row, lane = intervals.row, intervals.lanes.codes
    a_lane = np.zeros(rows, np.int32)
    a_lane[row] = lane
    found = np.zeros(rows, np.bool_)
    found[row[lane != a_lane[row]]] = True
    return found


def device_times(intervals: Intervals, process: NDArray[np.int32], rows: int) -> DeviceTimes:
    """Return the times of n operators; intervals of one operator on one lane do not overlap.

    process: (m,) whose lane each interval is on. Processes whose traces were merged number their
        operators by themselves: those of one number are different ones, and no copy.
    """
    took_s = summed_s(intervals, rows)
    row, lane = intervals.row, intervals.lanes.codes
    is_shared = on_several_lanes(intervals, rows)
    if not is_shared.any():
        return DeviceTimes(took_s, 0, 0.0)
    here = is_shared[row]
    whose, operator = _numbered(row[here], process[here])
    pairs, _ = _numbered(operator, lane[here])
    lanes = np.bincount(pairs)
    both_s = _together_s(operator, intervals.start_s[here], intervals.end_s[here], lanes)
    waited_s = took_s[is_shared].sum() - (both_s * lanes).sum()
    took_s[is_shared] = np.bincount(whose, both_s, minlength=rows)[is_shared]
    return DeviceTimes(took_s, int((lanes > 1).sum()), max(0.0, float(waited_s)))


def _numbered(
    first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The different pairs of two numbers, of each its first one; and which of them each is."""
    size = int(second.max()) + 1
    pairs, places = np.unique(first.astype(np.int64) * size + second, return_inverse=True)
    return pairs // size, places


def _together_s(
    operator: NDArray[np.intp], start_s: Floats, end_s: Floats, lanes: NDArray[np.intp]
) -> Floats:
    """How long each operator has as many intervals at once as it has lanes."""
    operators = np.concatenate([operator, operator])
    times = np.concatenate([start_s, end_s])
    order = np.lexsort((times, operators))
    operators, times = operators[order], times[order]
    # each operator ends as many as it begins, so the next one begins at 0
    active = np.cumsum(np.repeat([1, -1], len(operator))[order])
    is_all = (active >= lanes[operators])[:-1]
    took_s = np.diff(times)
    found = np.bincount(operators[:-1][is_all], took_s[is_all], minlength=len(lanes))
    return found.astype(np.float64)
