"""A trace over time: how busy each lane is and where events are, for selecting an excerpt, and the
curves of its counters, such as memory usage.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.analysis.downsampling import downsample
from profiles.formats.chrome_trace.lanes import Lane
from profiles.formats.chrome_trace.reader import COUNTER, LONGEST_TEXT, Trace
from profiles.formats.chrome_trace.spans import Spans
from profiles.presenters.described import means

#: number of equal time intervals
BUCKETS = 300
#: number of intervals with equally many events
SHARES = 300
#: maximum number of lanes in the overview; an excerpt without a selection includes the others too
LANES_LIMIT = 200
#: number of events from which the intervals are estimated
_SAMPLE = 200_000
#: maximum number of curves
COUNTERS_LIMIT = 64
#: maximum number of points of a curve
POINTS_LIMIT = 500
_S_PER_US = 1e-6


class LaneUse(Struct, frozen=True):
    """One thread or device over time."""

    number: Annotated[int, means("Number of the lane in requests for a part of the trace.")]
    name: Annotated[str, means("Name in the file.")]
    kind: Annotated[str, means("`host`, `worker`, `device` or `other`.")]
    spans: Annotated[int, means("Number of events with a begin and an end.")]
    busy: Annotated[
        tuple[int, ...],
        means("Percent of each of 300 equal parts of the time in which anything ran."),
    ]
    begun: Annotated[tuple[int, ...], means("Number of spans that begin in each part.")]


class Overview(Struct, frozen=True):
    """A trace over time, for choosing a cut."""

    begin_s: Annotated[float, means("Time of the first event, by the clock of the trace, s.")]
    end_s: Annotated[float, means("Time of the last end, s.")]
    events: Annotated[int, means("Number of spans and counters.")]
    size_bytes: Annotated[int, means("Size of the file.")]
    lanes: Annotated[tuple[LaneUse, ...], means("Threads and devices, at most 200.")]
    counters: Annotated[tuple[int, ...], means("Number of counters in each of the 300 parts.")]
    moments_s: Annotated[
        tuple[float, ...],
        means("301 times, s, that divide the events into 300 groups of equal size."),
    ]


def overview_of(trace: Trace, lanes: list[Lane]) -> Overview:
    """Return the overview of a trace; beyond the limit, the lanes with the most spans are kept."""
    used = [lane for lane in lanes if len(lane.spans)]
    kept = sorted(used, key=lambda lane: -len(lane.spans))[:LANES_LIMIT]
    counts = np.sort(trace.ts_us[trace.phase == COUNTER])
    begin = float(trace.ts_us.min())
    ends = [float(lane.spans.end_us.max()) for lane in used]
    end = max([begin, *ends, *counts[-1:].tolist()])
    edges = np.linspace(begin, end, BUCKETS + 1)
    return Overview(
        begin_s=begin * _S_PER_US,
        end_s=end * _S_PER_US,
        events=sum(len(lane.spans) for lane in used) + len(counts),
        size_bytes=trace.size_bytes,
        lanes=tuple(_use(lane, edges) for lane in used if lane in kept),
        counters=_spread(counts, edges),
        moments_s=_moments(trace.ts_us),
    )


def _use(lane: Lane, edges: NDArray[np.float64]) -> LaneUse:
    spans = lane.spans
    return LaneUse(
        number=lane.number,
        name=lane.name,
        kind=lane.kind,
        spans=len(spans),
        busy=_busy(spans, edges),
        begun=_spread(spans.begin_us, edges),
    )


def _busy(spans: Spans, edges: NDArray[np.float64]) -> tuple[int, ...]:
    """Percent of each interval in which a span is active, rounded up to at least 1 if not 0."""
    latest = np.maximum.accumulate(spans.end_us)
    begins = np.flatnonzero(np.concatenate([[True], spans.begin_us[1:] > latest[:-1]]))
    starts = spans.begin_us[begins]
    stops = latest[np.append(begins[1:] - 1, len(latest) - 1)]
    # the covered time up to each point is piecewise linear
    moments = np.column_stack([starts, stops]).ravel()
    covered = np.cumsum(stops - starts)
    grown = np.column_stack([covered - (stops - starts), covered]).ravel()
    covered_us = np.diff(np.interp(edges, moments, grown))
    width = (edges[-1] - edges[0]) / BUCKETS
    share = np.clip(covered_us / width, 0, 1) if width > 0 else np.ones(BUCKETS)
    return tuple(np.ceil(np.nan_to_num(share) * 100 - 1e-6).astype(int).tolist())


def _spread(times: NDArray[np.float64], edges: NDArray[np.float64]) -> tuple[int, ...]:
    """Number of times in each interval; times are ascending, and the last interval is closed."""
    before = np.searchsorted(times, edges, side="left")
    before[-1] = len(times)
    return tuple(np.diff(before).tolist())


def _moments(ts_us: NDArray[np.float64]) -> tuple[float, ...]:
    step = max(1, len(ts_us) // _SAMPLE)
    sample = np.sort(ts_us[::step])
    places = np.linspace(0, len(sample) - 1, SHARES + 1).astype(np.intp)
    return tuple((sample[places] * _S_PER_US).tolist())


class Curve(Struct, frozen=True):
    """One counter, at most 500 moments with the highest value up to the next one."""

    name: Annotated[str, means("Name in the file, after its process if several processes have it.")]
    at_s: Annotated[tuple[float, ...], means("Times, s.")]
    values: Annotated[tuple[float, ...], means("Values.")]
    lowest: Annotated[float, means("Lowest of all values in the file.")]
    highest: Annotated[float, means("Highest of all values in the file.")]


class CounterGap(Struct, frozen=True):
    """Values of one counter that its curve lacks."""

    name: Annotated[str, means("Name in the file, after its process if several processes have it.")]
    values: Annotated[int, means("Number of values that are missing, NaN or infinite.")]


def counter_gaps_of(trace: Trace) -> Iterator[CounterGap]:
    """Yield how many values the curves lack, in the order of `curves_of`."""
    for name, rows in islice(_counters(trace), COUNTERS_LIMIT):
        if missing := np.count_nonzero(~np.isfinite(trace.values(rows))):
            yield CounterGap(name, int(missing))


def _counters(trace: Trace) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Yield name and rows of the counters, in the order of their first appearance.

    Counters of several processes with one name are counters of their own.
    """
    counts = trace.phase == COUNTER
    processes = list(dict.fromkeys(pid for pid, _ in trace.lanes))
    place_of_lane = np.array([processes.index(pid) for pid, _ in trace.lanes], np.int32)
    for code in np.unique(trace.name[counts]).tolist():
        name = trace.texts.names[code]
        rows = np.flatnonzero(counts & (trace.name == code))
        place_of_row = place_of_lane[trace.lane[rows]]
        places = np.unique(place_of_row).tolist()
        for place in places:
            label = name if len(places) == 1 else f"{str(processes[place])[:LONGEST_TEXT]} {name}"
            yield label, rows[place_of_row == place]


def curves_of(trace: Trace) -> Iterator[Curve]:
    """Yield the counters of a trace, in the order of their first appearance."""
    for name, rows in islice(_counters(trace), COUNTERS_LIMIT):
        at, values = trace.ts_us[rows], trace.values(rows)
        # the finite values, sorted by time
        order = np.argsort(at, kind="stable")
        order = order[np.isfinite(values[order])]
        if not len(order):
            continue
        values = values[order]
        moments_us, highest = downsample(at[order], values, POINTS_LIMIT)
        yield Curve(
            name=name,
            at_s=tuple((moments_us * _S_PER_US).tolist()),
            values=tuple(highest.tolist()),
            lowest=float(values.min()),
            highest=float(values.max()),
        )
