"""Which operators make an arm of a paired comparison slower or faster than the baseline.

The operators are aligned as in every comparison; their times are those of the profiled turns, one
for each pair. Effects, intervals and the false discovery rate: `agent.statistics.paired`. Operators
that take less than LEAST_SHARE of both totals are not tested, so that they do not cost the others
power. The contribution of an operator is the median of its differences, in µs.
"""

from collections.abc import Sequence
from typing import Annotated, TypedDict

import numpy as np
from numpy.typing import NDArray

from agent.protocol.pairs import ArmOperators, OperatorTimes
from agent.statistics.paired import compare_operators
from agent.statistics.unpaired import LEAST_SHARE
from profiles.analysis.data import ProfileData
from profiles.comparison.comparison import Comparison, align_profiles
from profiles.comparison.rows import Status
from profiles.formats.columns import MISSING
from profiles.presenters.described import means, unknown

Floats = NDArray[np.float64]
#: most operators of an arm that are kept, those with the largest differences first
MOST_KEPT = 500
#: most operators that an explanation names
MOST_NAMED = 5
#: most rows of the baseline's table that are kept for one group of operators
_MOST_ROWS = 100


class OperatorChange(TypedDict):
    """An operator of an arm, or a group of fused ones, compared with the baseline."""

    name: Annotated[str, means("Its name in the baseline, or else in the arm.")]
    type: Annotated[str, means("Its type.")]
    status: Annotated[Status, means("What became of it, as in comparisons.")]
    rows: Annotated[
        list[int],
        means("Rows of the table of the baseline's profile; empty if it lacks the operator."),
    ]
    base_us: Annotated[
        float | None, unknown("Device time in the baseline, median over the pairs, µs.")
    ]
    other_us: Annotated[float | None, unknown("The same in the arm, µs.")]
    delta_us: Annotated[float, unknown("Median of the differences, µs.")]
    effect: Annotated[
        float | None,
        unknown(
            "Time in the arm / time in the baseline - 1; null for an operator that one of them "
            "lacks."
        ),
    ]
    low: Annotated[float | None, unknown("Lower bound of its 95 % interval.")]
    high: Annotated[float | None, unknown("Upper bound of its 95 % interval.")]
    q: Annotated[
        float | None,
        unknown(
            "False discovery rate if this operator and all with a smaller rate are called "
            "different."
        ),
    ]
    differs: Annotated[bool, means("Whether the rate is at most 0.05, or an arm lacks it.")]


class ArmChanges(TypedDict):
    """The operators of an arm, compared with the baseline.

    pairs: number of pairs with times; tested: number of operators that were compared
    iteration_us: of the baseline without the profiler, as the verdict on the total counts it
    operators: at most MOST_KEPT; those that differ first, then by the size of `delta_us`
    """

    arm: int
    pairs: int
    tested: int
    iteration_us: float
    operators: list[OperatorChange]


def operator_changes(
    profiles: Sequence[ProfileData], times: OperatorTimes, iteration_us: float
) -> list[ArmChanges]:
    """Compare the operators of each arm with those of the first one, the baseline.

    profiles: one for each arm
    iteration_us: as in `ArmChanges`
    """
    comparison = align_profiles(profiles)
    us = [
        _times_of_rows(comparison, number, data, arm)
        for number, (data, arm) in enumerate(zip(profiles, times.arms, strict=True))
    ]
    return [
        _changes(comparison, arm, us[0], us[arm], iteration_us) for arm in range(1, len(profiles))
    ]


def _times_of_rows(
    comparison: Comparison, profile: int, data: ProfileData, arm: ArmOperators
) -> Floats:
    """Return (n, r): times of each row in each of n pairs, µs; nan where there is none."""
    columns = {key: place for place, key in enumerate(arm.ids)}
    # operators that a damaged graph lacks have no id
    places = [columns.get(key) for key in data.graph.operators.ids]
    us = np.array(arm.us, dtype=np.float64).reshape(len(arm.us), len(arm.ids))
    sums = np.full((len(us), len(comparison.rows)), np.nan)
    for number, row in enumerate(comparison.rows):
        nodes = [x for x in row.members(profile) if x < len(places)]
        known = [place for x in nodes if (place := places[x]) is not None]
        if known and not row.constant:
            picked = us[:, known]
            sums[:, number] = np.where(
                np.isnan(picked).all(axis=1), np.nan, np.nansum(picked, axis=1)
            )
    return sums


def _changes(
    comparison: Comparison, arm: int, base: Floats, other: Floats, iteration_us: float
) -> ArmChanges:
    """Compare one arm; base, other: (n, r) times in µs."""
    rows = comparison.rows
    is_only = np.array([not row.members(0) or not row.members(arm) for row in rows])
    base_us, other_us = _medians(base), _medians(other)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where((base > 0) & (other > 0), np.log(other / base), np.nan)
    delta_us = np.where(
        is_only, np.nan_to_num(other_us) - np.nan_to_num(base_us), _medians(other - base)
    )
    least_us = LEAST_SHARE * max(np.nansum(base_us), np.nansum(other_us))
    is_worth = np.fmax(base_us, other_us) >= least_us
    tested = np.flatnonzero(is_worth & ~is_only & ~np.isnan(ratios).all(axis=0))
    compared = compare_operators(ratios[:, tested])
    rows_kept = [*tested.tolist(), *np.flatnonzero(is_worth & is_only).tolist()]
    operators = [_change(comparison, row, arm, base_us, other_us, delta_us) for row in rows_kept]
    for place, change in enumerate(operators[: len(tested)]):
        change["effect"], change["q"] = float(compared.effect[place]), float(compared.q[place])
        change["low"], change["high"] = _finite(compared.low[place]), _finite(compared.high[place])
        change["differs"] = bool(compared.is_different[place])
    operators.sort(key=lambda change: (not change["differs"], -abs(change["delta_us"])))
    return {
        "arm": arm,
        "pairs": len(base),
        "tested": len(tested),
        "iteration_us": iteration_us,
        "operators": operators[:MOST_KEPT],
    }


def _change(
    comparison: Comparison,
    number: int,
    arm: int,
    base_us: Floats,
    other_us: Floats,
    delta_us: Floats,
) -> OperatorChange:
    """Return an operator without a test, as one that an arm lacks."""
    row, nodes = comparison.rows[number], comparison.nodes[0]
    profile, main = comparison.main[number]
    cell = row.cells[arm - 1]
    return {
        "rows": [nodes.rows[x] for x in row.baseline if nodes.rows[x] != MISSING][:_MOST_ROWS],
        "name": comparison.label(number),
        "type": comparison.nodes[profile].kinds[main],
        "status": cell.status if cell else "gone",
        "base_us": _finite(base_us[number]),
        "other_us": _finite(other_us[number]),
        "delta_us": float(delta_us[number]),
        "effect": None,
        "low": None,
        "high": None,
        "q": None,
        "differs": True,
    }


def _medians(times: Floats) -> Floats:
    """Return (r,) medians of the pairs that have a time; nan without any."""
    result = np.full(times.shape[1], np.nan)
    known = np.flatnonzero(~np.isnan(times).all(axis=0))
    if len(known):
        result[known] = np.nanmedian(times[:, known], axis=0)
    return result


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def explanation(
    changes: ArmChanges, verdict: str, effect: float | None
) -> tuple[list[OperatorChange], float | None]:
    """Return the operators that make an arm slower or faster, and the share that they explain.

    effect: of the arm, as in `ArmVerdict`
    With another verdict, these are the operators that differ most. The share is the sum of their
    differences / that of an iteration; None with another verdict, or if no operator differs.
    """
    sign = {"slower": 1, "faster": -1}.get(verdict)
    named = [
        change
        for change in changes["operators"]
        if change["differs"] and (sign is None or sign * change["delta_us"] > 0)
    ][:MOST_NAMED]
    difference_us = changes["iteration_us"] * (effect or 0.0)
    if sign is None or not named or not difference_us:
        return named, None
    return named, sum(change["delta_us"] for change in named) / difference_us


def row_differences(changes: ArmChanges, times_s: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (n,), µs, the difference of each row of the baseline's table, and whether it differs.

    times_s: (n,) the times of the rows, in proportion to which the difference of a group is
        distributed
    nan for a row whose operator was not compared. Operators that the baseline lacks are left out.
    """
    delta_us, differs = np.full(len(times_s), np.nan), np.zeros(len(times_s), dtype=np.bool_)
    for change in changes["operators"]:
        rows = np.array([row for row in change["rows"] if row < len(times_s)], dtype=np.intp)
        if not len(rows):
            continue
        delta_us[rows] = change["delta_us"] * parts_of(times_s[rows])
        differs[rows] = change["differs"]
    return delta_us, differs


def parts_of(times_s: Floats) -> Floats:
    """Return the share of each operator of a group in their time; equal shares without times."""
    known_s = np.maximum(np.nan_to_num(times_s), 0.0)
    total_s = known_s.sum()
    return known_s / total_s if total_s > 0 else np.full(len(known_s), 1 / len(known_s))
