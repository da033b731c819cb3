"""Timeline of operators as bars in lanes, few enough to be drawn, whatever the size of the profile.

Source of the clocks: MegEngine `src/plugin/impl/profiler.cpp`. Device times count from an event
that each comp node records before the first operator; host times count from the creation of the
profiler, which is earlier. The file does not state the difference, so `Timeline.shift_us` is the
smallest shift with which no operator starts on the device before the host began to issue it. The
times of a trace are of one clock (`one_clock`).
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.cumulative import LONGEST_S
from profiles.formats.columns import Side, TextColumn, take_rows
from profiles.formats.load_and_run.graph import ExecutedGraph, Index, Intervals

Floats = NDArray[np.float64]
Odd = Literal["not_finite", "negative", "reversed"]

#: operators that move data or change its layout or dtype, without computing
COPY_TYPES = frozenset({"Copy", "Host2DeviceCopy", "TypeCvt", "RelayoutFormat", "Dimshuffle"})
#: most bars that a browser draws and zooms smoothly
MOST_BARS = 8000
#: narrowest window; clocks have a resolution of 1 ns at best
FINEST_US = 1e-3
#: most lanes of each side; more threads come from a damaged file or cannot be drawn
MOST_LANES = 16


@dataclass(frozen=True)
class TimelineLane:
    """A comp node of the device or a thread of the host, with its total times in µs."""

    side: Side
    name: str
    operators: int
    wait_us: float
    work_us: float


@dataclass(frozen=True, eq=False)
class Bars:
    """b bars, ordered by lane and start.

    lane: (b,) int32, index into `Timeline.lanes`
    start_us, end_us: (b,) float64, µs from the beginning of the timeline
    wait_us: (b,) float64, µs from `start` to `kern`; 0 if no kernel was recorded
    work_us: (b,) float64, µs from `kern` to `end`; for a merged bar, both are sums
    copies: (b,) bool, whether the bar copies or converts data
    counts: (b,) int64, operators in the bar; more than one if bars were merged
    rows: (sum of counts,) int32, rows of `ProfileColumns`, bar after bar, by start
    """

    lane: Index
    start_us: Floats
    end_us: Floats
    wait_us: Floats
    work_us: Floats
    copies: NDArray[np.bool_]
    counts: NDArray[np.int64]
    rows: Index

    def __len__(self) -> int:
        return len(self.lane)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Lanes and bars of one iteration.

    span_us: from the first start to the last end
    shift_us: how far device times were moved to the right; None if no operator has times of both
        sides, or both are of one clock
    odd: number of intervals that were left out, by reason
    more_lanes: lanes beyond MOST_LANES that were left out, which are those with the least time
    """

    lanes: tuple[TimelineLane, ...]
    bars: Bars
    span_us: float
    shift_us: float | None
    odd: dict[Odd, int]
    more_lanes: int


@dataclass(frozen=True, eq=False)
class _Track:
    """The intervals with valid times of all lanes, µs."""

    lane: Index
    row: Index
    start: Floats
    kern: Floats
    end: Floats


def timeline(
    graph: ExecutedGraph,
    types: TextColumn,
    window_us: tuple[float, float] | None = None,
    *,
    one_clock: bool = False,
    limit: int = MOST_BARS,
) -> Timeline:
    """Return the bars that overlap `window_us`, by default all bars.

    one_clock: whether the times of device and host are of the same clock, as in a trace

    If there are more than `limit`, short operators that start close together in one lane are merged
    into one bar, copies separately from other operators. No more are merged than necessary, so a
    narrower window shows finer bars.
    """
    odd: dict[Odd, int] = {}
    host, device = _sound(graph.host, odd), _sound(graph.device, odd)
    shift_us = None if one_clock else _shift_us(host, device, len(types))
    drawn_host = _busiest(host)
    drawn_device = _busiest(_shift(device, shift_us or 0.0))
    lanes = (
        *_lanes("host", graph.host, drawn_host),
        *_lanes("device", graph.device, drawn_device),
    )
    whole = _concatenate(_renumber(drawn_host, 0), _renumber(drawn_device, _count(drawn_host)))
    origin = float(whole.start.min(initial=np.inf)) if len(whole.row) else 0.0
    whole = _shift(whole, -origin)
    span = float(whole.end.max(initial=0.0))
    low, high = window_us or (0.0, span)
    touching = take_rows(whole, (whole.end >= low) & (whole.start <= high))
    copies = types.where(COPY_TYPES.__contains__)
    return Timeline(
        lanes=lanes,
        bars=_bars(touching, copies, (low, high), limit),
        span_us=span,
        shift_us=shift_us,
        odd=odd,
        more_lanes=_count(host) + _count(device) - len(lanes),
    )


def _sound(intervals: Intervals, odd: dict[Odd, int]) -> _Track:
    """Return the intervals that can be drawn, in µs; the others are counted in `odd`."""
    with np.errstate(over="ignore", invalid="ignore"):
        start, kern, end = (
            times * 1e6 for times in (intervals.start_s, intervals.kern_s, intervals.end_s)
        )
        finite = (np.abs(start) <= LONGEST_S * 1e6) & (np.abs(end) <= LONGEST_S * 1e6)
        negative = finite & ((start < 0) | (end < 0))
        backwards = finite & ~negative & (end < start)
        # without a recorded kernel, the whole interval counts as work
        kern = np.where((kern >= start) & (kern <= end), kern, start)
    reasons: tuple[tuple[Odd, NDArray[np.bool_]], ...] = (
        ("not_finite", ~finite),
        ("negative", negative),
        ("reversed", backwards),
    )
    for reason, places in reasons:
        if places.any():
            odd[reason] = odd.get(reason, 0) + int(places.sum())
    track = _Track(intervals.lanes.codes, intervals.row, start, kern, end)
    return take_rows(track, finite & ~negative & ~backwards)


def _shift(track: _Track, by_us: float) -> _Track:
    return replace(track, start=track.start + by_us, kern=track.kern + by_us, end=track.end + by_us)


def _concatenate(one: _Track, other: _Track) -> _Track:
    columns = zip(vars(one).values(), vars(other).values(), strict=True)
    return _Track(*map(np.concatenate, columns))


def _count(track: _Track) -> int:
    return len(np.unique(track.lane))


def _busiest(track: _Track) -> _Track:
    """Return the track without the lanes that have the least time, if there are too many lanes."""
    if not len(track.lane):
        return track
    time = np.bincount(track.lane, weights=track.end - track.start)
    has = np.unique(track.lane)
    kept = has[np.argsort(-time[has], kind="stable")][:MOST_LANES]
    return take_rows(track, np.isin(track.lane, kept))


def _renumber(track: _Track, first: int) -> _Track:
    """Return the track with its lanes renumbered from `first`, without gaps."""
    lane = np.unique(track.lane, return_inverse=True)[1].astype(np.int32) + np.int32(first)
    return replace(track, lane=lane)


def _shift_us(host: _Track, device: _Track, rows: int) -> float | None:
    """Return the smallest shift of device times with which no operator starts before it was issued.

    The shift is never negative, because the device's clock starts later.
    """
    issued = np.full(rows, np.inf)
    np.minimum.at(issued, host.row, host.start)
    early = issued[device.row] - device.start
    early = early[np.isfinite(early)]
    return max(float(early.max()), 0.0) if len(early) else None


def _lanes(side: Side, intervals: Intervals, track: _Track) -> list[TimelineLane]:
    lanes = []
    for code in np.unique(track.lane).tolist():
        in_lane = track.lane == code
        lanes.append(
            TimelineLane(
                side=side,
                name=intervals.lanes.values[code],
                operators=int(in_lane.sum()),
                wait_us=float((track.kern - track.start)[in_lane].sum()),
                work_us=float((track.end - track.kern)[in_lane].sum()),
            )
        )
    return lanes


def _bars(
    track: _Track, copies: NDArray[np.bool_], window: tuple[float, float], limit: int
) -> Bars:
    track = take_rows(track, np.lexsort((track.end, track.start, track.lane)))
    copying = copies[track.row]
    group = np.arange(len(track.row))
    width = max((window[1] - window[0]) / limit / 4, FINEST_US)
    while len(group) and group.max() >= max(limit, 2 * MOST_LANES):
        group = _groups(track, copying, window[0], width)
        width *= 1.5
    by_group = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    starts = np.cumsum(counts) - counts

    def reduced(ufunc: np.ufunc, values: Floats) -> Floats:
        return np.asarray(ufunc.reduceat(values[by_group], starts)) if len(starts) else values[:0]

    return Bars(
        lane=track.lane[by_group[starts]],
        start_us=reduced(np.minimum, track.start),
        end_us=reduced(np.maximum, track.end),
        wait_us=reduced(np.add, track.kern - track.start),
        work_us=reduced(np.add, track.end - track.kern),
        copies=copying[by_group[starts]],
        counts=counts,
        rows=track.row[by_group],
    )


def _groups(
    track: _Track, copying: NDArray[np.bool_], low: float, width: float
) -> NDArray[np.int64]:
    """Return a number for each interval, equal for intervals of the same bar, in order of the
    first.
    """
    short = track.end - track.start < width
    bucket = np.floor(np.maximum(track.start - low, 0.0) / width).astype(np.int64)
    shared = (track.lane.astype(np.int64) * 2 + copying) * (bucket.max() + 1) + bucket
    alone = np.arange(len(short)) + (shared.max() + 1)
    _, first, group = np.unique(
        np.where(short, shared, alone), return_index=True, return_inverse=True
    )
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[group]
