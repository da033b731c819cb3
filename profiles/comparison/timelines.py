"""The timelines of the baseline and of one other profile, with the rows that join their bars."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from profiles.analysis.durations import duration, unit_of
from profiles.analysis.timeline import MOST_BARS, Bars, Timeline, timeline
from profiles.comparison.comparison import Comparison
from profiles.comparison.export import plain_number
from profiles.comparison.loading import ComparisonResult
from profiles.comparison.messages import letter
from profiles.comparison.request import ComparisonRequest
from profiles.exports.originals import are_of_trace
from profiles.formats.columns import MISSING, Side
from profiles.presenters.charts import (
    BarColumns,
    LaneAnswer,
    bar_columns,
    lane_answer,
    timeline_notes,
)
from profiles.presenters.described import ChartText, means, unknown


class ComparedLane(LaneAnswer):
    """A lane of one of the two profiles."""

    letter: Annotated[str, means("The profile: `A` is the baseline.")]


class ComparedTimelines(ChartText, BarColumns):
    """The timelines of two profiles; `rows` are those of the comparison, -1 for none."""

    lanes: Annotated[Sequence[ComparedLane], means("Lanes of the baseline, then of the other.")]
    span: Annotated[float | None, unknown("From the first start to the last end of either, µs.")]
    merged: Annotated[bool, means("Whether a bar has several operators.")]
    numbers: Annotated[
        Sequence[int], means("Rows of the comparison that have a bar of their own, ascending.")
    ]
    names: Annotated[Sequence[str], means("What each of these rows is called after.")]
    baseline_s: Annotated[
        Sequence[float | None], unknown("Time of each of these rows in the baseline, s.")
    ]
    other_s: Annotated[Sequence[float | None], unknown("In the other profile, s.")]


def compared_timelines(
    compared: ComparisonResult, request: ComparisonRequest, window_us: tuple[float, float] | None
) -> ComparedTimelines:
    """Return the lanes of one side of the baseline and of `request.other`, each from its start.

    window_us: the range whose bars are returned, µs; by default all
    """
    comparison, side = compared.comparison, request.question.side
    profiles = (0, request.other)
    drawn = [
        timeline(
            compared.data[n].graph,
            compared.data[n].columns.types,
            window_us,
            one_clock=are_of_trace(compared.profiles[n], compared.data[n].passes),
            limit=MOST_BARS // len(profiles),
        )
        for n in profiles
    ]
    parts, lanes = list[Bars](), list[ComparedLane]()
    for n, own in zip(profiles, drawn, strict=True):
        parts.append(_of_side(own, side, _rows_of(comparison, n), first_lane=len(lanes)))
        lanes += [
            {**lane_answer(lane), "letter": letter(n)} for lane in own.lanes if lane.side == side
        ]
    bars = _joined(parts)
    single = bars.rows[np.repeat(bars.counts == 1, bars.counts)]
    rows = np.unique(single[single != MISSING]).tolist()
    times_s = comparison.side(side).time_s
    spans_s = [own.span_us / 1e6 for own in drawn]
    return {
        **bar_columns(bars),
        "lanes": lanes,
        "span": max(own.span_us for own in drawn),
        "merged": bool((bars.counts > 1).any()),
        "numbers": rows,
        "names": [comparison.label(row) for row in rows],
        "baseline_s": [plain_number(time_s) for time_s in times_s[0, rows]],
        "other_s": [plain_number(time_s) for time_s in times_s[request.other, rows]],
        "sentence": _sentence(letter(request.other), spans_s),
        "notes": [
            _("%(letter)s: %(note)s") % {"letter": letter(n), "note": note}
            for n, own in zip(profiles, drawn, strict=True)
            # one side has no lanes whose clocks differ
            for note in timeline_notes(replace(own, shift_us=None))
        ],
    }


def _sentence(other: str, spans_s: Sequence[float]) -> str:
    unit = unit_of(spans_s)
    return _("First profiled pass of each run. Span of A: %(base)s, of %(letter)s: %(other)s.") % {
        "letter": other,
        "base": duration(spans_s[0], unit),
        "other": duration(spans_s[1], unit),
    }


def _rows_of(comparison: Comparison, profile: int) -> NDArray[np.int32]:
    """Return (n,) the row of the comparison of each row of the profile's own table, or MISSING."""
    result = np.full(len(comparison.device.operators_s[profile]), MISSING, dtype=np.int32)
    rows = comparison.nodes[profile].rows
    for number, row in enumerate(comparison.rows):
        for node in row.members(profile):
            result[rows[node]] = number
    return result


def _of_side(drawn: Timeline, side: Side, rows: NDArray[np.int32], *, first_lane: int) -> Bars:
    """Return the bars of one side with other numbers of lanes and rows."""
    is_kept = np.array([lane.side == side for lane in drawn.lanes], dtype=bool)
    numbers = first_lane + np.cumsum(is_kept) - 1
    bars = drawn.bars
    kept = is_kept[bars.lane]
    return Bars(
        lane=numbers[bars.lane[kept]].astype(np.int32),
        start_us=bars.start_us[kept],
        end_us=bars.end_us[kept],
        wait_us=bars.wait_us[kept],
        work_us=bars.work_us[kept],
        copies=bars.copies[kept],
        counts=bars.counts[kept],
        rows=rows[bars.rows[np.repeat(kept, bars.counts)]],
    )


def _joined(parts: Sequence[Bars]) -> Bars:
    names = ("lane", "start_us", "end_us", "wait_us", "work_us", "copies", "counts", "rows")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return replace(parts[0], **columns)
