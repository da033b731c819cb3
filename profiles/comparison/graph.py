"""Colour the graph of one compared profile by the time differences of its operators."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from agent.statistics.unpaired import VERDICTS
from profiles.analysis.data import ProfileData
from profiles.analysis.netron.colours import Colouring
from profiles.analysis.netron.document import netron_document
from profiles.comparison.comparison import Comparison
from profiles.comparison.loading import ComparisonResult
from profiles.comparison.messages import letter
from profiles.comparison.paired_operators import ArmChanges, parts_of, row_differences
from profiles.comparison.request import ComparisonRequest
from profiles.formats.columns import Side
from profiles.presenters.charts import chart_side, microseconds_of
from profiles.presenters.described import means, unknown
from profiles.presenters.viewers import drawn_place

Floats = NDArray[np.float64]


class BaselineChart(TypedDict):
    """Differences to the pinned baseline, by row: of device times, or else of host times."""

    us: Annotated[
        Sequence[float | None],
        unknown(
            "Self time minus that of the corresponding operators of the baseline, µs; the "
            "difference of fused operators is distributed in proportion to their times."
        ),
    ]
    clear: Annotated[Sequence[bool], means("Whether comparison gives a verdict.")]


def graph_document(
    compared: ComparisonResult, request: ComparisonRequest, *, scope: str, row: int | None
) -> bytes:
    """Return one view of the graph of the drawn profile.

    scope, row: as for the graph of a single profile; row is one of its own table
    Raises DomainError operator_not_drawn if no view shows the row.
    """
    data, side = compared.data[request.drawn], request.question.side
    place = drawn_place(data, scope, row)
    change_s = changes(compared.comparison, profile=request.drawn, other=request.other, side=side)
    return netron_document(data, side=side, place=place, colours=Colouring("change", change_s))


def changes(comparison: Comparison, *, profile: int, other: int, side: Side) -> Floats:
    """Return the `differences` of each row of the table of `profile`; 0 without a verdict."""
    against = (profile or other) - 1
    is_clear = comparison.side(side).judgements[against].verdict >= VERDICTS.index("faster")
    return differences(comparison, is_clear, profile=profile, other=other, side=side)


def differences(
    comparison: Comparison, counts: NDArray[np.bool_], *, profile: int, other: int, side: Side
) -> Floats:
    """Return (n,), s, the share of the difference of each row of the table of `profile`.

    counts: (r,), the rows of the comparison whose difference is not 0
    profile: the drawn profile, counted from 0; for a third profile, its own difference is shown
    other: the profile that is compared with the baseline, counted from 1

    The difference of a group is distributed over its operators in proportion to their times, so
    that sums over any part of the graph are correct. Operators that the drawn profile lacks cannot
    be shown.
    """
    nodes, numbers = comparison.nodes[profile], comparison.side(side)
    against = (profile or other) - 1
    delta_s = np.where(counts, numbers.delta_s[against], 0.0)
    result = np.full(len(numbers.operators_s[profile]), np.nan)
    for number, row in enumerate(comparison.rows):
        members = row.members(profile)
        if not members:
            continue
        rows = np.array([nodes.rows[x] for x in members])
        result[rows] = delta_s[number] * parts_of(numbers.operators_s[profile][rows])
    return result


def baseline_data(compared: ComparisonResult) -> BaselineChart:
    """Return the differences of a result to its baseline, the first of the two."""
    comparison = compared.comparison
    side = chart_side(compared.data[1])
    every = np.ones(len(comparison.rows), dtype=np.bool_)
    delta_s = differences(comparison, every, profile=1, other=1, side=side)
    clear_s = changes(comparison, profile=1, other=1, side=side)
    return {"us": microseconds_of(delta_s), "clear": (np.nan_to_num(clear_s) != 0).tolist()}


def paired_data(data: ProfileData, changes: ArmChanges) -> BaselineChart:
    """Return the differences of an arm to the baseline, whose profile is `data`."""
    delta_us, differs = row_differences(changes, data.columns.device.end_s)
    return {
        "us": [None if np.isnan(us) else us for us in delta_us.tolist()],
        "clear": differs.tolist(),
    }


def row_at(comparison: Comparison, profile: int, at: int) -> int | None:
    """Return the row of the comparison that contains row `at` of a profile's own table."""
    rows = comparison.nodes[profile].rows
    return next(
        (
            number
            for number, row in enumerate(comparison.rows)
            if any(rows[x] == at for x in row.members(profile))
        ),
        None,
    )


def graph_view(request: ComparisonRequest) -> list[dict[str, Any]]:
    """Return the profiles whose graph can be drawn: the baseline and the one compared with it."""
    return [
        {
            "letter": letter(profile),
            # the other profile may change, and the graph with it
            "address": replace(request, graph=None if profile else 0).address(),
            "is_current": profile == request.drawn,
        }
        for profile in (0, request.other)
    ]
