"""Compare profiles: rows, their times on both sides, and how much the profiles have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from agent.statistics.unpaired import VERDICTS, Basis
from profiles.analysis.data import ProfileData
from profiles.comparison.nodes import Nodes, nodes_of
from profiles.comparison.numbers import SideNumbers, side_numbers
from profiles.comparison.rows import ComparisonRow, comparison_rows
from profiles.formats.columns import Side

Bases = Mapping[Side, Sequence[Basis]]
#: fewest and most profiles in one comparison
FEWEST, MOST = 2, 8


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two to eight profiles, the first of which is the baseline.

    nodes: one object per profile; members of rows are indices into it
    common: for each other profile, the number of rows that it shares with the baseline, without
        constants and the model's inputs and outputs
    main: for each row (profile, node) of the operator that names it: the slowest computing one on
        the device, in the first profile that has any
    """

    nodes: tuple[Nodes, ...]
    rows: tuple[ComparisonRow, ...]
    device: SideNumbers
    host: SideNumbers
    common: tuple[int, ...]
    main: tuple[tuple[int, int], ...]

    def side(self, side: Side) -> SideNumbers:
        """Return the times of one side."""
        return self.device if side == "device" else self.host

    def label(self, row: int) -> str:
        """Return the name of a row, in every table and chart: of its operator in the baseline, or
        in the first profile that has any.
        """
        profile, node = self.main[row]
        return self.nodes[profile].labels[node]


def align_profiles(profiles: Sequence[ProfileData]) -> Comparison:
    """Compare two to eight profiles with the first of them, without verdicts.

    Raises ValueError for another number of profiles.
    """
    if not FEWEST <= len(profiles) <= MOST:
        raise ValueError(f"{len(profiles)} profiles")
    nodes = tuple(nodes_of(data) for data in profiles)
    rows = comparison_rows(nodes)
    device = side_numbers(profiles, nodes, rows, "device")
    times_s = [np.nan_to_num(data.columns.device.end_s, nan=-1.0).tolist() for data in profiles]
    return Comparison(
        nodes=nodes,
        rows=rows,
        device=device,
        host=side_numbers(profiles, nodes, rows, "host"),
        common=tuple(_common(rows, nodes[0], other) for other in range(len(profiles) - 1)),
        main=tuple(_main(row, nodes, times_s) for row in rows),
    )


def judged(comparison: Comparison, bases: Bases) -> Comparison:
    """Return the result of `align_profiles` with verdicts.

    bases: for each side, one basis for each profile but the baseline; without them, no difference
        gets a verdict
    """
    unknown = (Basis(),) * len(comparison.common)
    device = comparison.device.judged(bases.get("device", unknown))
    return replace(
        comparison,
        rows=_with_times(comparison.rows, device),
        device=device,
        host=comparison.host.judged(bases.get("host", unknown)),
    )


def _main(
    row: ComparisonRow, nodes: Sequence[Nodes], times_s: Sequence[list[float]]
) -> tuple[int, int]:
    profile = next(number for number in range(len(nodes)) if row.members(number))
    its = nodes[profile]
    computing = its.computing(row.members(profile))
    return profile, max(computing, key=lambda x: times_s[profile][its.rows[x]])


def _with_times(rows: Sequence[ComparisonRow], device: SideNumbers) -> tuple[ComparisonRow, ...]:
    """Mark rows as changed that differ only in their times on the device."""
    clear = [
        set(np.flatnonzero(judgement.verdict >= VERDICTS.index("faster")).tolist())
        for judgement in device.judgements
    ]
    made = list(rows)
    for number in set().union(*clear):
        row = rows[number]
        cells = tuple(
            replace(cell, status="changed", reasons=(*cell.reasons, "time"))
            if cell and cell.status in ("same", "changed") and number in clear[other]
            else cell
            for other, cell in enumerate(row.cells)
        )
        made[number] = replace(row, cells=cells)
    return tuple(made)


def _common(rows: Sequence[ComparisonRow], baseline: Nodes, other: int) -> int:
    """Count the computing rows that both have; for a model that computes nothing, all rows."""
    shared = [row for row in rows if row.baseline and (cell := row.cells[other]) and cell.members]
    computing = [row for row in shared if any(map(baseline.computes, row.baseline))]
    has_any = any(map(baseline.computes, range(len(baseline))))
    return len(computing if has_any else shared)
