"""Device and host total, the first lines that `profile_analyze` prints."""

from dataclasses import dataclass

from profiles.analysis.errors import AnalysisError
from profiles.formats.columns import ProfileColumns, Side


@dataclass(frozen=True)
class Totals:
    """Sums of self times over all operators, s; None (`N/A` in `profile_analyze`) if nothing was
    timed.

    This is a sum of work and not elapsed time, because nodes and threads overlap.
    """

    device_s: float | None
    host_s: float | None

    def side_s(self, side: Side) -> float | None:
        """Return the total of one side."""
        return self.device_s if side == "device" else self.host_s


def totals(columns: ProfileColumns) -> Totals:
    """Return both totals: the `end` times of all operators, whatever the query selects.

    The device total is 0 if each operator took less than the resolution of the clock; ratios are
    then undefined. Raises AnalysisError if it is 0 for another reason: OpenCL profiling was not
    enabled, or negative times cancel others.
    """
    device_s = columns.device.total_s()
    if device_s == 0:
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
    return Totals(device_s=device_s, host_s=columns.host.total_s())
