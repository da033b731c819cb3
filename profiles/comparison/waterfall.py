"""Waterfall chart of two totals: contributions that add up exactly to their difference."""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from agent.statistics.unpaired import Verdict
from profiles.comparison.comparison import Comparison
from profiles.comparison.numbers import SideNumbers
from profiles.formats.columns import Side

By = Literal["row", "type", "scope"]
BYS: tuple[By, ...] = get_args(By)
#: most contributions that are listed by name
MOST_STEPS = 12
#: tolerance as share of the totals, for sums in a different order
ROUNDING = 1e-9
#: key of a contribution: (name, row or 0)
_Key = tuple[str, int]


@dataclass(frozen=True)
class WaterfallStep:
    """A bar of a waterfall.

    kind: `start` and `end` are the totals, `rest` is the sum of everything without a step of its
        own
    name: of the row's operator, type or scope; empty for start, end, rest, and for no scope
    delta_s: what it adds to the total, for start and end the total itself; negative is faster
    from_s, to_s: where its bar begins and ends, s
    rows: number of rows that it represents
    row: its number if it is a single one
    verdict: on its difference; `absent` for totals and the rest
    """

    kind: Literal["start", "step", "rest", "end"]
    name: str
    delta_s: float
    from_s: float
    to_s: float
    rows: int = 0
    row: int | None = None
    verdict: Verdict = "absent"


def waterfall(
    comparison: Comparison, other: int, *, side: Side = "device", by: By = "row"
) -> tuple[WaterfallStep, ...]:
    """Return the steps from the baseline's total to that of profile `other`, counted from 1.

    The largest contributions come first; the last one, the rest, is the remaining difference of the
    totals. Empty if either total is unknown or not finite.
    """
    numbers = comparison.side(side)
    start_s, end_s = float(numbers.total_s[0]), float(numbers.total_s[other])
    delta_s = numbers.delta_s[other - 1]
    if not np.isfinite([start_s, end_s]).all() or not np.isfinite(delta_s).all():
        return ()
    groups = _groups(comparison, by)
    deltas_s = delta_s.tolist()
    sums = {key: math.fsum(deltas_s[row] for row in rows) for key, rows in groups.items()}
    ordered = sorted((key for key in groups if sums[key]), key=lambda key: -abs(sums[key]))
    steps = [WaterfallStep("start", "", start_s, 0.0, start_s)]
    at_s = start_s
    verdicts = _verdicts(numbers, other, groups, by)
    for key in ordered[:MOST_STEPS]:
        rows, to_s = groups[key], at_s + sums[key]
        single = rows[0] if by == "row" else None
        steps.append(
            WaterfallStep("step", key[0], sums[key], at_s, to_s, len(rows), single, verdicts[key])
        )
        at_s = to_s
    left = len(comparison.rows) - sum(step.rows for step in steps)
    if left or abs(end_s - at_s) > ROUNDING * max(abs(start_s), abs(end_s)):
        steps.append(WaterfallStep("rest", "", end_s - at_s, at_s, end_s, left))
    return (*steps, WaterfallStep("end", "", end_s, 0.0, end_s))


def _verdicts(
    numbers: SideNumbers, other: int, groups: dict[_Key, list[int]], by: By
) -> dict[_Key, Verdict]:
    """Return {key: verdict}: a single row's own, or that on the sums of several per pass."""
    if by == "row":
        rows = numbers.judgements[other - 1]
        return {key: rows.code(members[0]) for key, members in groups.items()}
    judged = numbers.judge_groups(other, list(groups.values()))
    return {key: judged.code(n) for n, key in enumerate(groups)}


def scope_of(name: str) -> str:
    """Return the two outer parts of a dotted name: `layer1.0` of `layer1.0.conv1.Convolution`."""
    parts = name.split(".")
    return ".".join(parts[:-1][:2])


def _groups(comparison: Comparison, by: By) -> dict[_Key, list[int]]:
    """Return {(name, row or 0): numbers of rows}."""
    groups: defaultdict[_Key, list[int]] = defaultdict(list)
    for number, (profile, x) in enumerate(comparison.main):
        nodes = comparison.nodes[profile]
        value_name = nodes.value_names[x][0] if nodes.is_named(x) else ""
        if by == "row":
            groups[comparison.label(number), number].append(number)
        elif by == "type":
            groups[nodes.kinds[x], 0].append(number)
        else:
            groups[scope_of(value_name), 0].append(number)
    return dict(groups)
