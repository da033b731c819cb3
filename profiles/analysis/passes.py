"""Merge the profiled passes of one attempt: each pass contributes one sample per operator.

Passes are separate processes, so the order of operators in their files differs; ids, names and
types do not. A pass with different operators is not merged.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agent.statistics.summaries import percentile, sort_samples, variation_of_columns
from profiles.analysis.data import LeftOut, ProfileData, Spread
from profiles.formats.columns import ProfileColumns, SideTimes, empty_columns, take_rows
from profiles.formats.load_and_run.graph import ExecutedGraph, PassIntervals
from profiles.formats.load_and_run.graph_json import no_intervals

#: matches the name of a computing node, `CompNode("gpu0:0" from "xpux:0")`
_GPU = re.compile(r'(?:CompNode\(")?(?:gpu|cuda|rocm)')


@dataclass(frozen=True, eq=False)
class PassTimes:
    """The times of one pass, in the row order of the leading pass.

    order: (n,) int32, the leading pass's row for each row of this pass's own file
    intervals: None for the leading pass, whose graph has them
    """

    name: str
    order: NDArray[np.int32]
    device: SideTimes
    host: SideTimes
    intervals: PassIntervals | None = None


class OtherGraphError(ValueError):
    """Two passes executed different operators; the message describes the difference."""


def merge(passes: Sequence[tuple[str, ProfileColumns]], graph: ExecutedGraph) -> ProfileData:
    """Return the merged profile; the first pass leads, and `graph` is its graph.

    A pass with different operators is in `left_out`.
    """
    name, lead = passes[0]
    merged, unlike = [leading_pass(name, lead)], list[LeftOut]()
    for other_name, columns in passes[1:]:
        try:
            merged.append(align_pass(lead, other_name, columns))
        except OtherGraphError as error:
            unlike.append(LeftOut(other_name, "other_graph", str(error)))
    return merged_data(lead, merged, graph, unlike)


def merged_data(
    lead: ProfileColumns,
    passes: Sequence[PassTimes],
    graph: ExecutedGraph,
    left_out: Sequence[LeftOut],
) -> ProfileData:
    """Return the profile of aligned passes; the first of them is `leading_pass(..., lead)`."""
    device = spread_of([record.device for record in passes])
    host = spread_of([record.host for record in passes])
    return ProfileData(
        columns=with_medians(lead, device, host),
        load_graph=lambda: graph,
        load_intervals=lambda number: passes[number].intervals or no_intervals(),
        device=device,
        host=host,
        on_gpu=_on_gpu(graph, len(lead)),
        order=np.stack([record.order for record in passes]),
        passes=tuple(record.name for record in passes),
        left_out=tuple(left_out),
    )


def without_operators(graph: ExecutedGraph, left_out: Sequence[LeftOut]) -> ProfileData:
    """Return the profile of a run without operators in any file; `graph` is an empty graph."""
    columns = empty_columns()
    alone = merged_data(columns, [leading_pass("", columns)], graph, left_out)
    return replace(alone, passes=())


def leading_pass(name: str, columns: ProfileColumns) -> PassTimes:
    """Return the times of the leading pass, whose row order all other passes are aligned to."""
    order = np.arange(len(columns), dtype=np.int32)
    return PassTimes(name, order, columns.device, columns.host)


def align_pass(
    lead: ProfileColumns, name: str, columns: ProfileColumns, intervals: PassIntervals | None = None
) -> PassTimes:
    """Reorder a pass to the rows of the leading one. Raises OtherGraphError.

    intervals: of the pass, for its timeline
    """
    if len(columns) != len(lead):
        raise OtherGraphError(
            f"It has {len(columns)} operators, the pass it is compared with has {len(lead)}."
        )
    # duplicate ids, which no known writer produces, keep their order
    own = np.argsort(columns.id_numbers, kind="stable")
    target = np.argsort(lead.id_numbers, kind="stable")
    _check_same(lead, target.tolist(), columns, own.tolist())
    rows = np.empty(len(lead), dtype=np.int32)  # row of the pass for each row of the leading pass
    rows[target] = own
    order = np.empty(len(lead), dtype=np.int32)
    order[own] = target
    return PassTimes(
        name,
        order,
        take_rows(columns.device, rows),
        take_rows(columns.host, rows),
        intervals
        and PassIntervals(
            replace(intervals.device, row=order[intervals.device.row]),
            replace(intervals.host, row=order[intervals.host.row]),
        ),
    )


def _check_same(
    lead: ProfileColumns, lead_rows: list[int], other: ProfileColumns, other_rows: list[int]
) -> None:
    for field in ("ids", "names"):
        ours, theirs = getattr(lead, field), getattr(other, field)
        if [ours[row] for row in lead_rows] != [theirs[row] for row in other_rows]:
            raise OtherGraphError(f"The {field} of its operators are others.")
    known: dict[str | None, int] = {}
    codes = [
        np.array([known.setdefault(text, len(known)) for text in (*types.values, None)])[
            types.codes  # MISSING is -1 and selects the last element
        ]
        for types in (lead.types, other.types)
    ]
    if not np.array_equal(codes[0][lead_rows], codes[1][other_rows]):
        raise OtherGraphError("The types of its operators are others.")


def with_medians(lead: ProfileColumns, device: Spread, host: Spread) -> ProfileColumns:
    """Return the leading pass's columns with medians over the passes; those of a single pass are
    unchanged.
    """
    if len(device.end_s) == 1:
        return lead
    return replace(lead, device=_median_times(device), host=_median_times(host))


def _median_times(spread: Spread) -> SideTimes:
    return SideTimes(
        present=spread.count > 0,
        end_s=spread.median_s,
        kern_s=percentile(*sort_samples(spread.kern_s), 0.5),
    )


def spread_of(passes: Sequence[SideTimes]) -> Spread:
    """Return the spread of the same operators over k passes."""
    present = np.stack([record.present for record in passes])
    end_s = np.stack([record.end_s for record in passes])
    ordered, known = sort_samples(end_s)
    return Spread(
        present=present,
        end_s=end_s,
        kern_s=np.stack([record.kern_s for record in passes]),
        count=present.sum(axis=0, dtype=np.int64),
        median_s=percentile(ordered, known, 0.5),
        p10_s=percentile(ordered, known, 0.1),
        p90_s=percentile(ordered, known, 0.9),
        min_s=np.ascontiguousarray(ordered[:, 0]),
        cv=variation_of_columns(end_s, known),
    )


def _on_gpu(graph: ExecutedGraph, rows: int) -> NDArray[np.bool_]:
    on_gpu = np.zeros(rows, dtype=np.bool_)
    on_gpu[graph.device.row[graph.device.lanes.where(_GPU.match)]] = True
    return on_gpu
