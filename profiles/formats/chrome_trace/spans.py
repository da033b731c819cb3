"""Pair begin and end events to spans, and compute their nesting and self times."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.reader import BEGIN, COMPLETE, COUNTER, LATEST_US, Trace

Index = NDArray[np.int32]
Floats = NDArray[np.float64]
_AT_ONCE = 500
#: MegEngine 1.13 rounds device times twice, so an end may precede its begin by 1 ns
_ROUNDING_US = 0.01


@dataclass(frozen=True, eq=False)
class Spans:
    """The s spans of one lane, sorted by begin, outer spans before inner ones.

    first, last: (s,) int32, rows of the begin and end events; equal for a COMPLETE event and for a
        span without an end, which lasts until the last event of the lane
    begin_us, end_us: (s,) float64
    parent: (s,) int32, the enclosing span, -1 for none
    self_us: (s,) float64, duration without that of the enclosed spans; never below 0
    unpaired: number of events without a counterpart
    without_length: number of COMPLETE events whose duration is missing, negative or too long; it
        counts as 0
    was_sorted: whether the events were in order, apart from clock rounding
    """

    first: Index
    last: Index
    begin_us: Floats
    end_us: Floats
    parent: Index
    self_us: Floats
    unpaired: int
    without_length: int
    was_sorted: bool

    def __len__(self) -> int:
        return len(self.first)

    @property
    def duration_us(self) -> Floats:
        """(s,) float64, including enclosed spans."""
        return self.end_us - self.begin_us


def covered_us(begin: Floats, end: Floats) -> float:
    """The length of the union of some spans, us, which must be sorted by begin."""
    if not len(begin):
        return 0.0
    # the time from which each span adds to the union, then how much; in one array to save memory
    alone = np.empty(len(begin))
    alone[0] = -np.inf
    np.maximum.accumulate(end[:-1], out=alone[1:])
    np.maximum(begin, alone, out=alone)
    np.subtract(end, alone, out=alone)
    return float(np.maximum(alone, 0.0, out=alone).sum())


def spans_of(trace: Trace, lane: int) -> Spans:
    events = np.flatnonzero((trace.lane == lane) & (trace.phase != COUNTER)).astype(np.int32)
    ts = trace.ts_us[events]
    was_sorted = bool((ts[1:] >= ts[:-1] - _ROUNDING_US).all())
    if not was_sorted:
        # stable: for equal times, the order of the file decides which span contains the other
        events = events[np.argsort(ts, kind="stable")]
    phase = trace.phase[events]
    complete = events[phase == COMPLETE]
    halves = events[phase != COMPLETE]
    first, last, unpaired = _pairs(trace, halves)
    begin = np.concatenate([trace.ts_us[first], trace.ts_us[complete]])
    latest = float(trace.ts_us[events].max()) if len(events) else 0.0
    is_open = first == last
    ends = np.where(is_open, latest, trace.ts_us[last])
    length = trace.values(complete)
    without_length = int(np.count_nonzero(~((length >= 0) & (length <= LATEST_US))))
    length = np.where((length >= 0) & (length <= LATEST_US), length, 0.0)
    end = np.concatenate([ends, trace.ts_us[complete] + length])
    first, last = np.concatenate([first, complete]), np.concatenate([last, complete])
    # outer spans first: by begin, then longest first, then as in the file
    order = np.lexsort((first, -end, begin))
    return _nest(
        first[order],
        last[order],
        begin[order],
        np.maximum(end, begin)[order],
        unpaired=unpaired,
        without_length=without_length,
        was_sorted=was_sorted,
    )


def _pairs(trace: Trace, events: Index) -> tuple[Index, Index, int]:
    """(begin events, end events or the begin event itself, number of unpaired events)."""
    step = np.where(trace.phase[events] == BEGIN, 1, -1).astype(np.int32)
    depth = np.cumsum(step, dtype=np.int32)
    # end events without a begin event
    lowest = np.minimum.accumulate(np.concatenate([[0], depth])).astype(np.int32)
    is_unmatched = (step < 0) & (depth < lowest[:-1])
    unmatched, all_events = int(is_unmatched.sum()), events
    if unmatched:
        events, step = events[~is_unmatched], step[~is_unmatched]
        depth = np.cumsum(step, dtype=np.int32)
    level = np.where(step > 0, depth, depth + 1)
    order = np.argsort(level, kind="stable")
    ordered, sign = events[order], step[order]
    # at each level, begins and ends alternate; only the last begin may have no end
    begins = np.flatnonzero(sign > 0)
    after = np.minimum(begins + 1, len(ordered) - 1) if len(ordered) else begins
    has_end = (after > begins) & (sign[after] < 0) & (level[order][after] == level[order][begins])
    first = ordered[begins]
    last = np.where(has_end, ordered[after], first) if len(first) else first
    if (trace.name[first] != trace.name[last]).any():
        return _pairs_by_name(trace, all_events)
    return first, last, unmatched + int((~has_end).sum())


def _pairs_by_name(trace: Trace, events: Index) -> tuple[Index, Index, int]:
    """As `_pairs`, for lanes with missing events: an end belongs to the innermost open begin of its
    name.

    Spans that began inside that span and have no end of their own end there as well.
    """
    unpaired = 0
    stack: list[int] = []
    # number of open spans by name
    names: dict[int, int] = {}
    first, last = [], []
    codes = trace.name[events].tolist()
    phases = trace.phase[events].tolist()
    rows = events.tolist()
    for index, event in enumerate(rows):
        if phases[index] == BEGIN:
            stack.append(index)
            names[codes[index]] = names.get(codes[index], 0) + 1
            continue
        if not names.get(codes[index]):
            unpaired += 1
            continue
        while True:
            opened = stack.pop()
            names[codes[opened]] -= 1
            first.append(rows[opened])
            last.append(event)
            if codes[opened] == codes[index]:
                break
            unpaired += 1
    for opened in stack:
        unpaired += 1
        first.append(rows[opened])
        last.append(rows[opened])
    return np.array(first, np.int32), np.array(last, np.int32), unpaired


def _nest(first: Index, last: Index, begin: Floats, end: Floats, **counts: Any) -> Spans:
    """Return spans in their order; counts: the other fields of `Spans`"""
    parent = _parents(begin, end)
    duration = end - begin
    inside = np.bincount(parent[parent >= 0], duration[parent >= 0], minlength=len(first))
    # rounding may make the sum of the enclosed spans exceed the duration
    self_us = np.maximum(duration - inside, 0.0)
    return Spans(first, last, begin, end, parent, self_us, **counts)


def in_rows(*columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows as Python numbers, converted in batches to save memory."""
    for start in range(0, len(columns[0]), _AT_ONCE):
        pieces = (column[start : start + _AT_ONCE].tolist() for column in columns)
        yield from zip(*pieces, strict=True)


def _parents(begin: Floats, end: Floats) -> Index:
    """(s,) the enclosing span of each span, for spans sorted by begin, outer ones first."""
    parents = np.empty(len(begin), np.int32)
    open_spans: list[tuple[float, int]] = []
    for index, (start, stop) in enumerate(in_rows(begin, end)):
        while open_spans and open_spans[-1][0] < stop:
            open_spans.pop()
        # a span that ends exactly where this one begins does not contain it
        while open_spans and open_spans[-1][0] <= start and stop > start:
            open_spans.pop()
        parents[index] = open_spans[-1][1] if open_spans else -1
        open_spans.append((stop, index))
    return parents
