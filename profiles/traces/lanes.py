"""Which lane of a trace is whose: Python's thread, the worker that sends kernels, a device."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.traces.reader import LONGEST_TEXT, NONE, Trace
from profiles.traces.spans import Spans, spans_of

#: host: Python's thread, which calls and dispatches; worker: MegEngine's, which sends kernels
Kind = Literal["host", "worker", "device", "other"]

#: names that MegEngine gives to its threads; 1.13 calls Python's thread `interpreter`
_HOST, _WORKER = ("interpreter", "channel", "main"), ("worker",)
#: events that one kind of lane alone has, where the threads have no names
_HOST_EVENT, _WORKER_EVENT = "OpDispatch", "Output"


@dataclass(frozen=True, eq=False)
class Lane:
    """One thread or device of a trace.

    number: its place in `Trace.lanes`
    """

    trace: Trace
    number: int
    name: str
    kind: Kind

    @cached_property
    def spans(self) -> Spans:
        """Its spans, made when they are first asked for."""
        return spans_of(self.trace, self.number)

    def names(self) -> NDArray[np.signedinteger]:
        """(s,) what each span is called, into `Trace.names`."""
        return self.trace.name[self.spans.first]

    def operators(self) -> NDArray[np.signedinteger]:
        """(s,) the number of the operator that a span is; NONE for one that is none."""
        last = self.spans.last
        return np.where(self.trace.is_operator[last], self.trace.ident[last], NONE)


def lanes_of(trace: Trace) -> list[Lane]:
    """Return all lanes: hosts first, then workers, then devices, each in the order of the file."""
    found = []
    for number, key in enumerate(trace.lanes):
        name = trace.lane_names[number]
        called = name or str(key[1])[:LONGEST_TEXT]
        found.append(Lane(trace, number, called, _kind(trace, number, name)))
    order = ("host", "worker", "device", "other")
    return sorted(found, key=lambda lane: order.index(lane.kind))


def _kind(trace: Trace, number: int, name: str) -> Kind:
    if name in _HOST:
        return "host"
    if name in _WORKER:
        return "worker"
    here = trace.lane == number
    codes = set(np.unique(trace.name[here]).tolist())
    events = {trace.names[code] for code in codes}
    if _HOST_EVENT in events:
        return "host"
    if _WORKER_EVENT in events:
        return "worker"
    return "device" if bool(trace.is_operator[here].any()) else "other"
