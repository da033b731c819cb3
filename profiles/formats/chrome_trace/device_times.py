"""Device times of operators, and the waiting time of copies between devices.

MegEngine 1.13 records a copy as a span on the lane of each device involved: the first device enters
its span and waits until the other one reaches the copy. A span therefore shows how long the copy
occupied that device, and the copy itself only takes the time in which all of them are active.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.load_and_run.graph import Intervals

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DeviceTimes:
    """Times of n operators.

    took_s: (n,) float64, for an operator on one device the sum over its kernels, 0 without any; for
        an operator on several devices the time in which all of them execute it
    copies: number of operators on several devices; waited_s: their time on all lanes beyond that
    """

    took_s: Floats
    copies: int
    waited_s: float


def summed_s(intervals: Intervals, rows: int) -> Floats:
    """(n,) total duration of the intervals of each operator, s."""
    length_s = intervals.end_s - intervals.start_s
    return np.bincount(intervals.row, length_s, minlength=rows).astype(np.float64)


def on_several_lanes(intervals: Intervals, rows: int) -> NDArray[np.bool_]:
    """(n,) which operators have intervals on more than one lane."""
    row, lane = intervals.row, intervals.lanes.codes
    one_lane = np.zeros(rows, np.int32)
    one_lane[row] = lane
    is_shared = np.zeros(rows, np.bool_)
    is_shared[row[lane != one_lane[row]]] = True
    return is_shared


def device_times(intervals: Intervals, rows: int) -> DeviceTimes:
    """Return the times of n operators; intervals of one operator on one lane do not overlap."""
    took_s = summed_s(intervals, rows)
    row, lane = intervals.row, intervals.lanes.codes
    is_shared = on_several_lanes(intervals, rows)
    if not is_shared.any():
        return DeviceTimes(took_s, 0, 0.0)
    selected = is_shared[row]
    copies, operator = np.unique(row[selected], return_inverse=True)
    size = int(lane.max()) + 1
    lanes = np.bincount(np.unique(operator * size + lane[selected]) // size)
    both_s = _together_s(operator, intervals.start_s[selected], intervals.end_s[selected], lanes)
    waited_s = took_s[is_shared].sum() - (both_s * lanes).sum()
    took_s[copies] = both_s
    return DeviceTimes(took_s, len(copies), max(0.0, float(waited_s)))


def _together_s(
    operator: NDArray[np.intp], start_s: Floats, end_s: Floats, lanes: NDArray[np.intp]
) -> Floats:
    """The time in which all lanes of an operator are active simultaneously, s, by operator."""
    operators = np.concatenate([operator, operator])
    times = np.concatenate([start_s, end_s])
    order = np.lexsort((times, operators))
    operators, times = operators[order], times[order]
    # begins and ends of an operator cancel out, so the count starts at 0 for the next one
    active = np.cumsum(np.repeat([1, -1], len(operator))[order])
    is_all = (active >= lanes[operators])[:-1]
    took_s = np.diff(times)
    simultaneous_s = np.bincount(operators[:-1][is_all], took_s[is_all], minlength=len(lanes))
    return simultaneous_s.astype(np.float64)
