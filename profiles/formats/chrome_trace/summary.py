"""Summary of a trace in addition to its operators: lanes, phases, scopes, waits, counters.

The summary has a bounded size for any trace; whatever exceeds the limits is counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from profiles.formats.chrome_trace.lanes import Lane
from profiles.formats.chrome_trace.operators import TraceOperators
from profiles.formats.chrome_trace.overview import (
    CounterGap,
    Curve,
    Overview,
    counter_gaps_of,
    curves_of,
    overview_of,
)
from profiles.formats.chrome_trace.phases import NO_SCOPES, START, STOP, WAIT, PhaseRow, Phases
from profiles.formats.chrome_trace.reader import NONE, Trace
from profiles.formats.chrome_trace.spans import Floats, Spans, covered_us, in_rows
from profiles.formats.load_and_run.graph import Intervals
from profiles.presenters.described import means

#: maximum number of rows
SCOPES_LIMIT, WAITS_LIMIT, LANES_LIMIT = 5_000, 1_000, 200
#: maximum nesting of scopes; deeper scopes are attributed to the last one
DEPTH_LIMIT = 50

_S_PER_US = 1e-6


class LaneRow(Struct, frozen=True):
    """One thread or device."""

    name: Annotated[str, means("Name in the file.")]
    kind: Annotated[str, means("`host`, `worker`, `device` or `other`.")]
    spans: Annotated[int, means("Number of events with a begin and an end.")]
    busy_s: Annotated[
        float,
        means("Time in which anything ran, s; for Python's thread in modules and functions only."),
    ]
    share: Annotated[float, means("The same as a share of the recorded time.")]


class ScopeRow(Struct, frozen=True):
    """A module or function, by where it was called from."""

    path: Annotated[tuple[str, ...], means("Names of the modules and functions, outermost first.")]
    count: Annotated[int, means("Number of calls.")]
    host_s: Annotated[float, means("Time of Python's thread, with everything that it called, s.")]
    host_self_s: Annotated[float, means("The same without what it called, s.")]
    device_s: Annotated[
        float, means("Time of its kernels, with those of everything that it called, s.")
    ]
    device_self_s: Annotated[float, means("The same without what it called, s.")]
    operators: Annotated[int, means("Number of operators that it launched itself.")]


class WaitRow(Struct, frozen=True):
    """Python waited for a value that the device computed."""

    path: Annotated[
        tuple[str, ...], means("Modules and functions in which Python waited, outermost first.")
    ]
    tensor: Annotated[str, means("Name of the tensor.")]
    begin_s: Annotated[float, means("When the wait began, by the clock of the trace, s.")]
    wait_s: Annotated[float, means("Duration of MegEngine's event, s.")]
    after_s: Annotated[
        float,
        means(
            "Further time until the device had computed everything that had been launched, s; 0 if "
            "Python did something in that time."
        ),
    ]

    @property
    def all_s(self) -> float:
        """How long Python waited."""
        return self.wait_s + self.after_s


class SkippedRow(Struct, frozen=True):
    """A part of the list of events that could not be read."""

    at_byte: Annotated[int, means("Position in the file, from 0.")]
    reason: Annotated[str, means("The reason, in English.")]
    code: Annotated[str, means("`not_json`, `not_utf8`, `too_deep` or `bad_value`.")]


class TraceSummary(Struct, frozen=True):
    """A trace without its operators, which are those of the profile."""

    begin_s: Annotated[float, means("Where recording began, by the clock of the trace, s.")]
    end_s: Annotated[float, means("Where it ended, s.")]
    events: Annotated[int, means("Number of events in the file.")]
    lanes: Annotated[tuple[LaneRow, ...], means("Threads and devices.")]
    phases: Annotated[tuple[PhaseRow, ...], means("Phases of training steps.")]
    scopes: Annotated[tuple[ScopeRow, ...], means("The 5,000 scopes with the longest device time.")]
    scopes_left_out: Annotated[int, means("Number of scopes that are left out.")]
    waits: Annotated[tuple[WaitRow, ...], means("The 1,000 longest waits.")]
    waits_count: Annotated[int, means("Number of all waits.")]
    wait_s: Annotated[float, means("Sum of all waits by MegEngine's events, s.")]
    curves: Annotated[tuple[Curve, ...], means("Counters.")]
    unpaired: Annotated[int, means("Number of begins without an end and ends without a begin.")]
    out_of_order: Annotated[int, means("Number of threads whose events had to be sorted.")]
    broken: Annotated[int, means("Number of events without a time.")]
    is_cut: Annotated[bool, means("Whether the file ends in the middle of its list of events.")]
    overview: Annotated[Overview, means("The trace over time, for choosing a part of it.")]
    wait_after_s: Annotated[float, means("Sum of the further times (`after_s`) of all waits, s.")]
    copies: Annotated[
        int,
        means(
            "Number of operators on several devices. Their device time is the time in which all "
            "of these devices executed them."
        ),
    ]
    copies_waited_s: Annotated[
        float,
        means("Time in which one device waited for another in such operators, s."),
    ]
    repeated: Annotated[
        int,
        means(
            "Number of operators that were executed more than once, because their outputs had "
            "been freed (DTR). Their times are sums."
        ),
    ]
    again: Annotated[int, means("Number of their executions after the first.")]
    operators: Annotated[int, means("Number of operators; 0 if none was sent to a device.")]
    without_length: Annotated[
        int,
        means(
            "Number of complete events with a missing or impossible duration, which counts as 0."
        ),
    ]
    zero_us: Annotated[
        int,
        means(
            "Time by the clock of the trace that is 0 here, us. It is 0 unless the times are so "
            "large that float64 would round them."
        ),
    ]
    skipped_count: Annotated[
        int, means("Number of events that could not be read; no figure includes them.")
    ]
    skipped: Annotated[tuple[SkippedRow, ...], means("The first 20 events that could not be read.")]
    counter_gaps: Annotated[
        tuple[CounterGap, ...], means("Counters with values that their curves lack.")
    ]


def is_idle(lanes: list[Lane]) -> bool:
    """Whether the lanes have no spans but the Profiler's start and stop."""
    return not any(_works(lane).any() for lane in lanes)


def event_fields(trace: Trace, lanes: list[Lane]) -> dict[str, Any]:
    """Return the fields of the summary that come from events rather than spans."""
    return {
        "events": len(trace) + trace.dropped,
        "broken": trace.broken,
        "is_cut": trace.is_cut,
        "zero_us": trace.zero_us,
        "skipped_count": trace.skipped_count,
        "skipped": tuple(SkippedRow(row.at_byte, row.reason, row.code) for row in trace.skipped),
        "overview": overview_of(trace, lanes),
        "curves": tuple(curves_of(trace)),
        "counter_gaps": tuple(counter_gaps_of(trace)),
    }


@dataclass
class _Scope:
    path: tuple[str, ...]
    parent: int
    count: int = 0
    host_us: float = 0.0
    host_self_us: float = 0.0
    device_self_s: float = 0.0
    device_s: float = 0.0
    operators: int = 0


def summarize(facts: dict[str, Any], lanes: list[Lane], operators: TraceOperators) -> TraceSummary:
    """Return the summary of a trace; `facts` are its other fields (`event_fields`)."""
    ids, times = operators.columns.id_numbers, operators.times
    begin_us, end_us = _recording_range(lanes)
    hosts = [lane for lane in lanes if lane.kind == "host"]
    scopes, phases = _Scopes(), Phases()
    waits = list[WaitRow]()
    for lane in hosts:
        of_span = scopes.add(lane)
        dispatched = _dispatched_rows(lane, ids)
        scopes.charge(lane, of_span, dispatched, times.took_s)
        phases.add(lane, dispatched, times.took_s)
        # with several hosts, another thread or process may have launched the device's kernels
        device = operators.graph.device if len(hosts) == 1 else None
        waits += _waits(lane, of_span, scopes, device)
    rows = sorted(scopes.rows(), key=lambda row: (-row.device_s, -row.host_s, row.path))
    waits.sort(key=lambda wait: -wait.all_s)
    return TraceSummary(
        **facts,
        begin_s=begin_us * _S_PER_US,
        end_s=end_us * _S_PER_US,
        lanes=tuple(_lane_row(lane, begin_us, end_us) for lane in lanes[:LANES_LIMIT]),
        phases=phases.rows(),
        scopes=tuple(rows[:SCOPES_LIMIT]),
        scopes_left_out=max(0, len(rows) - SCOPES_LIMIT),
        waits=tuple(waits[:WAITS_LIMIT]),
        waits_count=len(waits),
        wait_s=sum(wait.wait_s for wait in waits),
        wait_after_s=sum(wait.after_s for wait in waits),
        unpaired=sum(lane.spans.unpaired for lane in lanes),
        without_length=sum(lane.spans.without_length for lane in lanes),
        out_of_order=sum(not lane.spans.was_sorted for lane in lanes),
        copies=times.copies,
        copies_waited_s=times.waited_s,
        repeated=operators.repeated,
        again=operators.again,
        operators=len(ids),
    )


def _recording_range(lanes: list[Lane]) -> tuple[float, float]:
    """(begin, end), us, of the recording: from the first to the last work of any lane.

    Only the worker records the start of the Profiler, and it does so late: Python continues in the
    meantime, and may have dispatched everything before.
    """
    begins, ends = list[float](), list[float]()
    for lane in lanes:
        spans, works = lane.spans, _works(lane)
        begins += spans.end_us[lane.called(START)].tolist()
        ends += spans.begin_us[lane.called(STOP)].tolist()
        if works.any():
            begins.append(float(spans.begin_us[works].min()))
            ends.append(float(spans.end_us[works].max()))
    begin = min(begins, default=0.0)
    return begin, max([begin, *ends])


def _works(lane: Lane) -> NDArray[np.bool_]:
    """(s,) which spans are work rather than the Profiler's start and stop."""
    works = np.ones(len(lane.spans), np.bool_)
    works[lane.called(START)] = works[lane.called(STOP)] = False
    return works


def _lane_row(lane: Lane, begin_us: float, end_us: float) -> LaneRow:
    spans, works = lane.spans, _works(lane)
    busy_us = covered_us(spans.begin_us, np.where(works, spans.end_us, spans.begin_us))
    whole_us = end_us - begin_us
    return LaneRow(
        name=lane.name,
        kind=lane.kind,
        spans=len(spans),
        busy_s=busy_us * _S_PER_US,
        share=busy_us / whole_us if whole_us > 0 else 0.0,
    )


def _dispatched_rows(lane: Lane, ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """(s,) the row of the operator that a span dispatched, NONE for other spans."""
    numbers = lane.operator
    if not len(ids):
        return np.full(len(numbers), NONE, np.int32)
    rows = np.searchsorted(ids, numbers)
    known = (rows < len(ids)) & (ids[np.minimum(rows, len(ids) - 1)] == numbers)
    return np.where(known, rows, NONE).astype(np.int32)


class _Scopes:
    """Call tree of the modules and functions in Python's lanes."""

    def __init__(self) -> None:
        self._all: list[_Scope] = []
        self._codes: dict[tuple[int, str], int] = {}

    def add(self, lane: Lane) -> list[int]:
        """Add a lane's spans; returns the scope of each span, or the enclosing one."""
        spans, names = lane.spans, lane.texts.names
        scopes: list[int] = []
        columns = (lane.code, spans.parent, spans.duration_us, spans.self_us)
        for code, parent, length, alone in in_rows(*columns):
            enclosing = scopes[parent] if parent >= 0 else NONE
            name = names[code]
            if name in NO_SCOPES:
                scopes.append(enclosing)
                # counts as self time of the enclosing scope
                if enclosing != NONE:
                    self._all[enclosing].host_self_us += alone
                continue
            number = self._code(enclosing, name)
            scope = self._all[number]
            scope.count += 1
            # beyond DEPTH_LIMIT, a scope includes the scopes inside it, whose time counts once
            scope.host_us += length if number != enclosing else 0.0
            scope.host_self_us += alone
            scopes.append(number)
        return scopes

    def charge(
        self, lane: Lane, of_span: list[int], rows: NDArray[np.int32], took_s: NDArray[np.float64]
    ) -> None:
        """Attribute the device time to the scopes that dispatched the operators."""
        for span in np.flatnonzero(rows != NONE).tolist():
            place, time_s = of_span[span], float(took_s[rows[span]])
            if place != NONE:
                self._all[place].device_self_s += time_s
                self._all[place].operators += 1
            while place != NONE:
                self._all[place].device_s += time_s
                place = self._all[place].parent

    def path(self, place: int) -> tuple[str, ...]:
        return self._all[place].path if place != NONE else ()

    def rows(self) -> Iterator[ScopeRow]:
        for scope in self._all:
            yield ScopeRow(
                path=scope.path,
                count=scope.count,
                host_s=scope.host_us * _S_PER_US,
                host_self_s=scope.host_self_us * _S_PER_US,
                device_s=scope.device_s,
                device_self_s=scope.device_self_s,
                operators=scope.operators,
            )

    def _code(self, enclosing: int, name: str) -> int:
        number = self._codes.get((enclosing, name))
        if number is None:
            path = self.path(enclosing)
            if len(path) >= DEPTH_LIMIT:
                return enclosing
            number = self._codes[enclosing, name] = len(self._all)
            self._all.append(_Scope((*path, name), enclosing))
        return number


def _waits(
    lane: Lane, of_span: list[int], scopes: _Scopes, device: Intervals | None
) -> Iterator[WaitRow]:
    spans, duration_us = lane.spans, lane.spans.duration_us
    waits = lane.called(WAIT)
    after_us = still_waited_us(spans, waits, device)
    for span, after in zip(waits.tolist(), after_us.tolist(), strict=True):
        label = int(lane.label[span])
        yield WaitRow(
            path=scopes.path(of_span[span]),
            tensor="" if label == NONE else lane.texts.labels[label],
            begin_s=float(spans.begin_us[span]) * _S_PER_US,
            wait_s=float(duration_us[span]) * _S_PER_US,
            after_s=after * _S_PER_US,
        )


_US_PER_S = 1e6


def still_waited_us(spans: Spans, waits: NDArray[np.intp], device: Intervals | None) -> Floats:
    """Return (w,) float64, us: how much longer Python waited after each wait event.

    waits: indices of the wait spans in Python's lane
    device: intervals of the kernels; None if other lanes dispatched kernels too
    """
    if not len(waits) or device is None or not len(device.row):
        return np.zeros(len(waits))
    moments = np.sort(np.concatenate([spans.begin_us, spans.end_us]))
    ended = spans.end_us[waits]
    # the first event after the end of the wait
    index = np.searchsorted(moments, ended, side="left") + 1
    follows = index < len(moments)
    continues_us = moments[np.minimum(index, len(moments) - 1)]
    order = np.argsort(device.start_s, kind="stable")
    starts_us = device.start_s[order] * _US_PER_S
    idle_us = np.maximum.accumulate(device.end_s[order]) * _US_PER_S
    # kernels that start before Python continues were dispatched before the wait
    begun = np.searchsorted(starts_us, continues_us, side="left")
    idle = np.where(begun > 0, idle_us[np.maximum(begun, 1) - 1], -np.inf)
    waited = follows & (idle > ended) & (idle <= continues_us)
    return np.where(waited, idle - ended, 0.0)
