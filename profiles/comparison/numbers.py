"""Times of the rows of a comparison, their differences, and the verdicts on these."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agent.statistics.unpaired import LEAST_SHARE, Basis, Judgement, judge_rows, judge_total
from profiles.analysis.cumulative import LONGEST_S
from profiles.analysis.data import ProfileData
from profiles.analysis.totals import plausible
from profiles.comparison.nodes import Nodes
from profiles.comparison.rows import ComparisonRow
from profiles.formats.columns import Side

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SideNumbers:
    """One side (device or host) of r rows in p profiles.

    time_s: (p, r) sum of the medians of a row's operators, s; nan if none of them was timed, or the
        time of one of them is not finite
    delta_s: (p - 1, r) time - time of the baseline, where a missing row counts as 0; nan if a time
        is not finite
    total_s: (p,) as on the result pages, nan without times or if one is not finite
    total_samples: k sums per profile, s
    samples: p arrays (k, r), sums over each row's operators in each pass, s
    operators_s: p arrays (n,), self times of single operators, s, by row of the profile's columns
    judgements: p - 1 arrays of r verdicts
    totals: p - 1 verdicts on the sums of passes
    bases: what these verdicts are based on
    """

    time_s: Floats
    delta_s: Floats
    total_s: Floats
    total_samples: tuple[Floats, ...]
    samples: tuple[Floats, ...]
    operators_s: tuple[Floats, ...]
    judgements: tuple[Judgement, ...] = ()
    totals: tuple[Judgement, ...] = ()
    bases: tuple[Basis, ...] = ()

    def judged(self, bases: Sequence[Basis]) -> "SideNumbers":
        """Return the same numbers with verdicts; bases: one per profile but the baseline."""
        known_s = np.where(np.isnan(self.time_s), 0.0, self.time_s)
        # rows with at least LEAST_SHARE of the larger total on either side
        largest_s = np.maximum(known_s[1:], known_s[0])
        worth = largest_s >= LEAST_SHARE * np.fmax(self.total_s[1:, None], self.total_s[0])
        others = range(1, len(self.time_s))
        return replace(
            self,
            judgements=tuple(
                judge_rows(
                    self.samples[0],
                    self.samples[n],
                    worth=worth[n - 1],
                    displayed=_ratio(self.time_s[n], self.time_s[0]),
                    basis=bases[n - 1],
                )
                for n in others
            ),
            totals=tuple(
                judge_total(
                    self.total_samples[0],
                    self.total_samples[n],
                    displayed=float(_ratio(self.total_s[n : n + 1], self.total_s[:1])[0]),
                    basis=bases[n - 1],
                )
                for n in others
            ),
            bases=tuple(bases),
        )

    def judge_groups(self, other: int, groups: Sequence[Sequence[int]]) -> Judgement:
        """Return one verdict per group of rows; other: the profile, counted from 1."""
        base, changed = (
            np.stack([_known_sums(self.samples[n][:, rows]) for rows in groups], axis=1)
            for n in (0, other)
        )
        time_s = [_known_sums(self.time_s[[0, other]][:, rows]) for rows in groups]
        ratios = np.array([float(_ratio(both[1:], both[:1])[0]) for both in time_s])
        worth = np.ones(len(groups), dtype=bool)
        basis = self.bases[other - 1]
        return judge_rows(base, changed, worth=worth, displayed=ratios, basis=basis)


def side_numbers(
    profiles: Sequence[ProfileData],
    nodes: Sequence[Nodes],
    rows: Sequence[ComparisonRow],
    side: Side,
) -> SideNumbers:
    """Sum the times of rows on one side, without verdicts (see `judged`)."""
    members = [_Members(node, rows, number) for number, node in enumerate(nodes)]
    times = [data.columns.times(side) for data in profiles]
    time_s = np.stack(
        [
            member.sums(_times(own.end_s[None], own.present))[0]
            for member, own in zip(members, times, strict=True)
        ]
    )
    spreads = [data.spread(side) for data in profiles]
    sample_s = [_times(spread.end_s, spread.present) for spread in spreads]
    samples = [member.sums(own) for member, own in zip(members, sample_s, strict=True)]
    passes = [_known_sums(own) for own in sample_s]
    totals = [plausible(own.total_s()) for own in times]
    total_s = np.array([np.nan if total is None else total for total in totals])
    known_s = np.where(np.isnan(time_s), 0.0, time_s)
    # inf - inf is nan
    with np.errstate(invalid="ignore"):
        delta_s = _finite(known_s[1:] - known_s[0])
    time_s, total_samples = _finite(time_s), tuple(map(_finite, passes))
    return SideNumbers(
        time_s=time_s,
        delta_s=delta_s,
        total_s=total_s,
        total_samples=total_samples,
        samples=tuple(map(_finite, samples)),
        operators_s=tuple(data.columns.times(side).end_s for data in profiles),
    )


def _times(end_s: Floats, present: NDArray[np.bool_]) -> Floats:
    """Return times with nan where there is none, and inf where the file has no possible time."""
    with np.errstate(invalid="ignore"):
        is_time = np.abs(end_s) <= LONGEST_S
    return np.where(present, np.where(is_time, end_s, np.inf), np.nan)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


class _Members:
    """The operators of all rows in one profile, as flat arrays."""

    def __init__(self, nodes: Nodes, rows: Sequence[ComparisonRow], profile: int) -> None:
        lists = [[nodes.rows[x] for x in row.members(profile)] for row in rows]
        self.counts = np.array([len(members) for members in lists], dtype=np.intp)
        self.flat = np.array([member for row in lists for member in row], dtype=np.intp)
        self.filled = np.flatnonzero(self.counts)
        self.starts = (np.cumsum(self.counts) - self.counts)[self.filled]

    def sums(self, times_s: Floats) -> Floats:
        """Return (k, r) sums of (k, n) times over each row's operators; nan if none is known."""
        totals = np.full((len(times_s), len(self.counts)), np.nan)
        if len(self.filled):
            picked = times_s[:, self.flat]
            absent = np.isnan(picked)
            with np.errstate(invalid="ignore", over="ignore"):  # inf - inf
                sums = np.add.reduceat(np.where(absent, 0.0, picked), self.starts, axis=1)
            known = np.logical_or.reduceat(~absent, self.starts, axis=1)
            totals[:, self.filled] = np.where(known, sums, np.nan)
        return totals


def _known_sums(times_s: Floats) -> Floats:
    """Return (k,) sums of (k, n) times; nan if none is known."""
    known = ~np.isnan(times_s)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf
        sums = np.where(known, times_s, 0.0).sum(axis=1)
    return np.where(known.any(axis=1), sums, np.nan)


def _ratio(time_s: Floats, base_s: Floats) -> Floats:
    """Return (m,) ratios; inf for a baseline of 0, nan if either number is unknown or negative."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where((time_s >= 0) & (base_s > 0), time_s / base_s, np.nan)
    return np.where((time_s >= 0) & (base_s == 0), np.inf, ratio)
