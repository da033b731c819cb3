"""Pairs of begin and end become spans: what ran when, within what, and how long by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.reader import BEGIN, COMPLETE, COUNTER, LATEST_US, Trace

Index = NDArray[np.int32]
Floats = NDArray[np.float64]
_AT_ONCE = 500
#: MegEngine 1.13 rounds times of a device twice: an end may stand 1 ns before its begin
_ROUNDING_US = 0.01


@dataclass(frozen=True, eq=False)
class Spans:
    """The s spans of one lane, by their begin; what contains others comes before them.

    first, last: (s,) int32, the events that begin and end it; equal for a COMPLETE one, and for
        one whose end is missing: that is taken to be the last moment of the lane
    begin_us, end_us: (s,) float64
    parent: (s,) int32, the span around it, -1 for none
    self_us: (s,) float64, its time without that of the spans within it; never below 0
    unpaired: events without their other half
    was_sorted: the events were in order already, but for a clock's rounding
    """

    first: Index
    last: Index
    begin_us: Floats
    end_us: Floats
    parent: Index
    self_us: Floats
    unpaired: int
    was_sorted: bool

    def __len__(self) -> int:
        return len(self.first)

    @property
    def duration_us(self) -> Floats:
        """(s,) float64, with what lies within."""
        return self.end_us - self.begin_us


def covered_us(begin: Floats, end: Floats) -> float:
    """How long at least one of some spans lasted, for spans by their begin."""
    if not len(begin):
        return 0.0
    # from when on each is alone, and then for how long: one block, for a lane may have millions
    alone = np.empty(len(begin))
    alone[0] = -np.inf
    np.maximum.accumulate(end[:-1], out=alone[1:])
    np.maximum(begin, alone, out=alone)
    np.subtract(end, alone, out=alone)
    return float(np.maximum(alone, 0.0, out=alone).sum())


def spans_of(trace: Trace, lane: int) -> Spans:
    """Return the spans of one lane."""
    events = np.flatnonzero((trace.lane == lane) & (trace.phase != COUNTER)).astype(np.int32)
    ts = trace.ts_us[events]
    was_sorted = bool((ts[1:] >= ts[:-1] - _ROUNDING_US).all())
    if not was_sorted:
        # stable: of two at one moment the file's order tells which contains the other
        events = events[np.argsort(ts, kind="stable")]
    phase = trace.phase[events]
    complete = events[phase == COMPLETE]
    halves = events[phase != COMPLETE]
    first, last, unpaired = _pairs(trace, halves)
    begin = np.concatenate([trace.ts_us[first], trace.ts_us[complete]])
    latest = float(trace.ts_us[events].max()) if len(events) else 0.0
    is_open = first == last
    ends = np.where(is_open, latest, trace.ts_us[last])
    length = np.nan_to_num(trace.values(complete), nan=0.0, posinf=0.0, neginf=0.0)
    end = np.concatenate([ends, trace.ts_us[complete] + np.clip(length, 0.0, LATEST_US)])
    first, last = np.concatenate([first, complete]), np.concatenate([last, complete])
    # outer ones first: by begin, the longer one first, else as in the file
    order = np.lexsort((first, -end, begin))
    return _nested(
        first[order], last[order], begin[order], np.maximum(end, begin)[order], unpaired, was_sorted
    )


def _pairs(trace: Trace, events: Index) -> tuple[Index, Index, int]:
    """(events that begin, events that end them or themselves, how many have no other half)."""
    step = np.where(trace.phase[events] == BEGIN, 1, -1).astype(np.int32)
    depth = np.cumsum(step, dtype=np.int32)
    # what ends more than was begun
    lowest = np.minimum.accumulate(np.concatenate([[0], depth])).astype(np.int32)
    stray = (step < 0) & (depth < lowest[:-1])
    strays, every = int(stray.sum()), events
    if strays:
        events, step = events[~stray], step[~stray]
        depth = np.cumsum(step, dtype=np.int32)
    level = np.where(step > 0, depth, depth + 1)
    order = np.argsort(level, kind="stable")
    ordered, sign = events[order], step[order]
    # at each level begin and end take turns; only the last begin may have no end
    begins = np.flatnonzero(sign > 0)
    after = np.minimum(begins + 1, len(ordered) - 1) if len(ordered) else begins
    has_end = (after > begins) & (sign[after] < 0) & (level[order][after] == level[order][begins])
    first = ordered[begins]
    last = np.where(has_end, ordered[after], first) if len(first) else first
    if (trace.name[first] != trace.name[last]).any():
        return _pairs_by_name(trace, every)
    return first, last, strays + int((~has_end).sum())


def _pairs_by_name(trace: Trace, events: Index) -> tuple[Index, Index, int]:
    """As `_pairs` where halves are missing in between: an end belongs to the innermost of its name.

    What was begun within that and not ended ends there as well.
    """
    unpaired = 0
    stack: list[int] = []
    # how many of each name are open
    names: dict[int, int] = {}
    first, last = [], []
    codes = trace.name[events].tolist()
    phases = trace.phase[events].tolist()
    places = events.tolist()
    for place, event in enumerate(places):
        if phases[place] == BEGIN:
            stack.append(place)
            names[codes[place]] = names.get(codes[place], 0) + 1
            continue
        if not names.get(codes[place]):
            unpaired += 1
            continue
        while True:
            begun = stack.pop()
            names[codes[begun]] -= 1
            first.append(places[begun])
            last.append(event)
            if codes[begun] == codes[place]:
                break
            unpaired += 1
    for begun in stack:
        unpaired += 1
        first.append(places[begun])
        last.append(places[begun])
    return np.array(first, np.int32), np.array(last, np.int32), unpaired


def _nested(
    first: Index, last: Index, begin: Floats, end: Floats, unpaired: int, was_sorted: bool
) -> Spans:
    parent = _parents(begin, end)
    duration = end - begin
    inside = np.bincount(parent[parent >= 0], duration[parent >= 0], minlength=len(first))
    # what only touches its neighbour's end by rounding takes nothing from it
    self_us = np.maximum(duration - inside, 0.0)
    return Spans(first, last, begin, end, parent, self_us, unpaired, was_sorted)


def in_rows(*columns: NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows as Python's numbers by pieces: all at once take four times the memory."""
    for start in range(0, len(columns[0]), _AT_ONCE):
        pieces = (column[start : start + _AT_ONCE].tolist() for column in columns)
        yield from zip(*pieces, strict=True)


def _parents(begin: Floats, end: Floats) -> Index:
    """(s,) the span around each, for spans by begin and outer ones first."""
    found = np.empty(len(begin), np.int32)
    around: list[tuple[float, int]] = []
    for place, (start, stop) in enumerate(in_rows(begin, end)):
        while around and around[-1][0] < stop:
            around.pop()
        # one that began before, and ends where this one begins, does not contain it
        while around and around[-1][0] <= start and stop > start:
            around.pop()
        found[place] = around[-1][1] if around else -1
        around.append((stop, place))
    return found
