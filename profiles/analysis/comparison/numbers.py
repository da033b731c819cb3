"""Times of the rows of a comparison, their differences, and how sure these are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.comparison.confidence import LEAST_SHARE, Judgement, judge
from profiles.analysis.comparison.nodes import Nodes
from profiles.analysis.comparison.rows import Row
from profiles.analysis.data import ProfileData
from profiles.parsers.columns import Side

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SideNumbers:
    """One side, device or host, of r rows in p profiles.

    time_s: (p, r) sum of the medians of a row's operators, s; nan if none of them was timed
    delta_s: (p - 1, r) time - time of the baseline, where what is missing counts as 0
    judgements: p - 1 times r tests; totals: p - 1 times one test, of the sums of passes
    total_s: (p,) as the result pages show it, nan without times; total_samples: k sums each, s
    samples: p times (k, r) sums over each row's operators in each pass, s
    operators_s: p times (n,) self times of single operators, s, by row of the profile's columns
    """

    time_s: Floats
    delta_s: Floats
    judgements: tuple[Judgement, ...]
    total_s: Floats
    total_samples: tuple[Floats, ...]
    totals: tuple[Judgement, ...]
    samples: tuple[Floats, ...]
    operators_s: tuple[Floats, ...]

    def total_delta_s(self, other: int) -> float:
        """Total of a profile, counted from 1, minus that of the baseline, s; nan if unknown."""
        return float(self.total_s[other]) - float(self.total_s[0])


def side_numbers(
    profiles: Sequence[ProfileData], nodes: Sequence[Nodes], rows: Sequence[Row], side: Side
) -> SideNumbers:
    """Sum up the times of rows on one side and test the differences."""
    members = [_Members(each, rows, number) for number, each in enumerate(nodes)]
    time_s = np.stack(
        [
            member.sums(data.columns.times(side).end_s[None])[0]
            for member, data in zip(members, profiles, strict=True)
        ]
    )
    samples = [
        member.sums(data.spread(side).end_s) for member, data in zip(members, profiles, strict=True)
    ]
    passes = [_pass_totals(data.spread(side).end_s) for data in profiles]
    totals = [data.columns.times(side).total_s() for data in profiles]
    total_s = np.array([np.nan if total is None else total for total in totals])
    known_s = np.where(np.isnan(time_s), 0.0, time_s)
    with np.errstate(invalid="ignore"):  # inf - inf
        delta_s = known_s[1:] - known_s[0]
    worth = _worth(known_s, total_s)
    return SideNumbers(
        time_s=time_s,
        delta_s=delta_s,
        judgements=tuple(
            judge(samples[0], other, worth=worth[number], difference_s=delta_s[number])
            for number, other in enumerate(samples[1:])
        ),
        total_s=total_s,
        total_samples=tuple(passes),
        totals=tuple(
            _judge_one(passes[0], other, float(total) - float(total_s[0]))
            for other, total in zip(passes[1:], total_s[1:], strict=True)
        ),
        samples=tuple(samples),
        operators_s=tuple(data.columns.times(side).end_s for data in profiles),
    )


def _worth(known_s: Floats, total_s: Floats) -> NDArray[np.bool_]:
    """Return (p - 1, r): which rows have LEAST_SHARE of the larger total on either side."""
    largest_s = np.maximum(known_s[1:], known_s[0])
    return np.asarray(largest_s >= LEAST_SHARE * np.fmax(total_s[1:, None], total_s[0]))


class _Members:
    """The operators of all rows in one profile, flat."""

    def __init__(self, nodes: Nodes, rows: Sequence[Row], profile: int) -> None:
        lists = [[nodes.rows[x] for x in row.members(profile)] for row in rows]
        self.counts = np.array([len(each) for each in lists], dtype=np.intp)
        self.flat = np.array([each for row in lists for each in row], dtype=np.intp)
        self.filled = np.flatnonzero(self.counts)
        self.starts = (np.cumsum(self.counts) - self.counts)[self.filled]

    def sums(self, times_s: Floats) -> Floats:
        """Return (k, r) sums of (k, n) times over each row's operators; nan where none is known."""
        found = np.full((len(times_s), len(self.counts)), np.nan)
        if len(self.filled):
            picked = times_s[:, self.flat]
            absent = np.isnan(picked)
            with np.errstate(invalid="ignore", over="ignore"):  # inf - inf
                sums = np.add.reduceat(np.where(absent, 0.0, picked), self.starts, axis=1)
            known = np.logical_or.reduceat(~absent, self.starts, axis=1)
            found[:, self.filled] = np.where(known, sums, np.nan)
        return found


def _pass_totals(end_s: Floats) -> Floats:
    """Return (k,): the sum of all operators in each pass; nan for a pass that timed none."""
    known = ~np.isnan(end_s)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf
        sums = np.where(known, end_s, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), sums, np.nan)


def _judge_one(base: Floats, other: Floats, difference_s: float) -> Judgement:
    return judge(
        base[:, None],
        other[:, None],
        worth=np.array([True]),
        difference_s=np.array([difference_s]),
    )
