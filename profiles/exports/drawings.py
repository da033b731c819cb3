"""Charts of the report: numbers from which a template draws SVG without a script."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.by_type import time_by_type
from profiles.analysis.cumulative import cumulative
from profiles.analysis.data import ProfileData
from profiles.analysis.timeline import FINEST_US, Timeline, timeline
from profiles.formats.memory_flow.summary import MemoryFlowSummary
from profiles.presenters.charts import lane_name
from profiles.presenters.time_axis import time_axis

#: maximum number of bars; the remaining types share one more bar
MOST_TYPES = 15
CURVE_POINTS = 400
#: maximum number of bars of a timeline, and of those with a tooltip
MOST_BARS, MOST_NAMED = 3_000, 150
WIDTH, LANE_HEIGHT = 1_000.0, 26.0
CURVE_WIDTH, CURVE_HEIGHT = 1_000.0, 260.0
MEMORY_HEIGHT = 200.0


def type_bars(data: ProfileData) -> list[dict[str, Any]]:
    """Return the device time by operator type, longest first; types beyond MOST_TYPES share one
    bar.

    share: of the total
    width: of WIDTH for the longest bar
    """
    types = time_by_type(data.columns.types, data.columns.device)
    longest = float(types.times_s.max(initial=0.0))
    total = types.total_s

    def bar(name: str, operators: int, time_s: float, *, is_rest: bool = False) -> dict[str, Any]:
        width = min(1.0, max(0.0, time_s / longest)) * WIDTH if longest > 0 else 0.0
        return {
            "name": name,
            "operators": operators,
            "time_s": time_s,
            "share": time_s / total if total > 0 else 0.0,
            "width": round(width, 2),
            "is_rest": is_rest,
        }

    names = data.columns.types.values
    rows = zip(types.codes.tolist(), types.operators.tolist(), types.times_s.tolist(), strict=True)
    bars = [bar(names[code], count, time_s) for code, count, time_s in rows]
    first, rest = bars[:MOST_TYPES], bars[MOST_TYPES:]
    if rest:
        operators = sum(row["operators"] for row in rest)
        time_s = sum(row["time_s"] for row in rest)
        first.append(bar("", operators, time_s, is_rest=True))
    return first


def curve(data: ProfileData) -> dict[str, Any] | None:
    """Return the cumulative share of the device time by number of operators; None if nothing took
    any time.

    path: in a box of CURVE_WIDTH x CURVE_HEIGHT
    milestones: `operators` take `percent` of the time, with the position of that point
    """
    curve = cumulative(data.columns.device)
    count = len(curve.rows)
    if not count or curve.total_s <= 0:
        return None
    places = np.unique(np.linspace(0, count - 1, min(count, CURVE_POINTS)).round().astype(int))

    def point(place: int) -> tuple[float, float]:
        share = float(np.clip(curve.shares[place], 0, 1))
        return round((place + 1) / count * CURVE_WIDTH, 2), round((1 - share) * CURVE_HEIGHT, 2)

    points = [(0.0, CURVE_HEIGHT), *map(point, places.tolist())]
    milestones = []
    for share, operators in curve.milestones:
        x, y = point(min(operators, count) - 1)
        milestones.append({"percent": round(share * 100), "operators": operators, "x": x, "y": y})
    return {
        "path": "M" + "L".join(f"{x:g} {y:g}" for x, y in points),
        "milestones": milestones,
        "operators": count,
    }


def timeline_drawing(
    data: ProfileData, place: int = 0, *, of_trace: bool = False
) -> dict[str, Any] | None:
    """Return the lanes of host and device in the pass at `place`; None if nothing can be drawn.

    of_trace: whether the operators come from a trace

    lanes: LANE_HEIGHT high at `y`; paths of bars in a box of width WIDTH, and the bars whose
        tooltips name their operators
    left_out: number of invalid intervals
    """
    graph = data.graph_of_pass(place)
    drawn = timeline(graph, data.columns.types, one_clock=of_trace, limit=MOST_BARS)
    if not len(drawn.bars) or drawn.span_us < FINEST_US:
        return None
    named = _named_bars(data, drawn)
    lanes = []
    for number, lane in enumerate(drawn.lanes):
        y = number * 2 * LANE_HEIGHT
        bars = np.flatnonzero(drawn.bars.lane == number)
        work, wait, copy = _paths(drawn, bars, y + LANE_HEIGHT)
        lanes.append(
            {
                "side": lane.side,
                "name": lane_name(lane),
                "operators": lane.operators,
                "y": y + LANE_HEIGHT,
                "text_y": y + LANE_HEIGHT - 6,
                "work": work,
                "wait": wait,
                "copy": copy,
                "named": named.get(number, []),
            }
        )
    return {
        "lanes": lanes,
        "height": len(lanes) * 2 * LANE_HEIGHT,
        "ticks": time_axis(0.0, drawn.span_us / 1e6),
        "left_out": sum(drawn.odd.values()),
    }


def _paths(drawn: Timeline, places: NDArray[np.intp], y: float) -> tuple[str, str, str]:
    """Return paths of rectangles: computing, waiting, copying; side by side in a merged bar."""
    bars, scale = drawn.bars, WIDTH / drawn.span_us
    work, wait, copy = list[str](), list[str](), list[str]()
    for place in places.tolist():
        x, end = bars.start_us[place] * scale, bars.end_us[place] * scale
        waits, works = float(bars.wait_us[place]), float(bars.work_us[place])
        split = x + (end - x) * (waits / (waits + works) if waits + works > 0 else 0.0)
        if split > x:
            wait.append(_box(x, split, y))
        (copy if bars.copies[place] else work).append(_box(split, end, y))
    return "".join(work), "".join(wait), "".join(copy)


def _box(x: float, end: float, y: float) -> str:
    return f"M{x:.2f} {y:g}h{max(end - x, 0.1):.2f}v{LANE_HEIGHT - 6:g}H{x:.2f}z"


def _named_bars(data: ProfileData, drawn: Timeline) -> dict[int, list[dict[str, Any]]]:
    """Return the longest bars of single operators, by lane."""
    bars, columns, scale = drawn.bars, data.columns, WIDTH / drawn.span_us
    single = np.flatnonzero(bars.counts == 1)
    spans = (bars.end_us - bars.start_us)[single]
    longest = single[np.argsort(-spans, kind="stable")][:MOST_NAMED]
    first_rows = np.cumsum(bars.counts) - bars.counts
    rows = bars.rows[first_rows[longest]]
    made: dict[int, list[dict[str, Any]]] = {}
    for place, row in zip(longest.tolist(), rows.tolist(), strict=True):
        start, end = float(bars.start_us[place]), float(bars.end_us[place])
        bar = {
            "name": columns.names[row],
            "type": columns.types[row] or "",
            "time_us": end - start,
            "x": round(start * scale, 2),
            "width": round(max((end - start) * scale, 0.1), 2),
        }
        made.setdefault(int(bars.lane[place]), []).append(bar)
    return made


def memory_drawing(summary: MemoryFlowSummary) -> dict[str, Any] | None:
    """Return the bytes held over time, scaled to the peak; None if nothing was ever held.

    path: a line of steps in a box of WIDTH x MEMORY_HEIGHT
    area: the same, closed down to the axis
    peak_x: start of the peak
    """
    curve = summary.curve
    length_s = summary.end_s - summary.begin_s
    if not curve.at_s or length_s <= 0 or summary.peak_bytes <= 0:
        return None

    def x(at_s: float) -> float:
        return min(WIDTH, max(0.0, (at_s - summary.begin_s) / length_s * WIDTH))

    path = ""
    for at_s, held in zip(curve.at_s, curve.held_bytes, strict=True):
        y = MEMORY_HEIGHT * (1 - held / summary.peak_bytes)
        path += f"H{x(at_s):.2f}V{y:.2f}" if path else f"M{x(at_s):.2f} {y:.2f}"
    path += f"H{WIDTH:g}"
    return {
        "path": path,
        "area": f"{path}V{MEMORY_HEIGHT:g}H{x(curve.at_s[0]):.2f}z",
        "peak_x": round(x(summary.peak_s or summary.begin_s), 2),
        "ticks": time_axis(summary.begin_s, summary.end_s),
    }
