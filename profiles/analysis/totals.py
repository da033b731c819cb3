"""Faults of the totals of device and host, and of the times that they add up."""

from dataclasses import dataclass

import numpy as np

from profiles.analysis.cumulative import LONGEST_S
from profiles.analysis.errors import AnalysisError
from profiles.formats.columns import ProfileColumns, SideTimes


def check_device_total(columns: ProfileColumns) -> None:
    """Check the sum of the device times of all operators, whatever the query selects.

    It is 0 if each operator took less than the resolution of the clock; ratios are then undefined.
    Raises AnalysisError if it is 0 for another reason: OpenCL profiling was not enabled, or
    negative times cancel others.
    """
    if columns.device.total_s() == 0:
        if columns.mentions_opencl:
            raise AnalysisError(
                "device_total_zero_opencl",
                "The device total is 0. For OpenCL, call "
                "mgb::CompNode::enable_opencl_profile(true) before profiling.",
            )
        if columns.device.end_s[columns.device.present].any():
            raise AnalysisError(
                "device_total_zero", "The device total is 0, since times below 0 cancel others."
            )


def plausible(total_s: float | None) -> float | None:
    """Return a total; None if it is not finite, or so large that it is no time."""
    return total_s if total_s is not None and abs(total_s) <= LONGEST_S else None


@dataclass(frozen=True)
class TimeFaults:
    """Operators of one side with invalid times, of which the total is made.

    not_finite: NaN, infinite or beyond LONGEST_S, so that there is no total
    negative: the end is before the start; the total includes the negative time
    """

    not_finite: int
    negative: int


def time_faults(times: SideTimes) -> TimeFaults:
    end_s = times.end_s[times.present]
    with np.errstate(invalid="ignore"):
        is_time = np.abs(end_s) <= LONGEST_S
        negative = is_time & (end_s < 0)
    return TimeFaults(not_finite=int((~is_time).sum()), negative=int(negative.sum()))
