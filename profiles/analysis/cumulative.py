"""How many of the slowest operators make up most of the time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import SideTimes
from profiles.formats.load_and_run.graph import Index

#: upper limit of a plausible time (30 million years); sums of larger values overflow float64
LONGEST_S = 1e15
#: shares that the summary sentence and the chart mention
MILESTONES = (0.5, 0.8, 0.95)


@dataclass(frozen=True, eq=False)
class Cumulative:
    """The n operators of one side, slowest first; equal times keep the order of the file.

    rows: (n,) int32, rows of `ProfileColumns`
    times_s: (n,) float64, self times, s
    shares: (n,) float64, time of the operators up to and including this one / total; 0 for a total
        of 0
    milestones: (share, number of operators that reach it)
    left_out: operators whose time is negative, nan, or beyond LONGEST_S
    """

    rows: Index
    times_s: NDArray[np.float64]
    shares: NDArray[np.float64]
    total_s: float
    milestones: tuple[tuple[float, int], ...]
    left_out: int


def cumulative(times: SideTimes) -> Cumulative:
    """Sort the operators of one side by self time and accumulate the times."""
    sound, left_out = sound_rows(times)
    order = np.argsort(-times.end_s[sound], kind="stable")
    rows = sound[order]
    values = times.end_s[rows]
    sums = np.cumsum(values)
    total = float(sums[-1]) if len(sums) else 0.0
    shares = sums / total if total else np.zeros(len(sums))
    # tolerance for rounding: ten times 0.1 counts as 1
    reached = [int(np.searchsorted(shares, share - 1e-9)) + 1 for share in MILESTONES]
    return Cumulative(
        rows=rows.astype(np.int32),
        times_s=values,
        shares=shares,
        total_s=total,
        milestones=tuple(zip(MILESTONES, reached, strict=True)) if total else (),
        left_out=left_out,
    )


def sound_rows(times: SideTimes) -> tuple[NDArray[np.int64], int]:
    """Return the rows with a valid self time, and the number of timed rows without one."""
    with np.errstate(invalid="ignore"):
        sound = times.present & (times.end_s <= LONGEST_S) & (times.end_s >= 0)
    return np.flatnonzero(sound), int(times.present.sum() - sound.sum())
