"""Which lane of a trace is whose: Python's thread, the worker that sends kernels, a device."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.reader import LONGEST_TEXT, NONE, Trace, TraceTexts
from profiles.formats.chrome_trace.spans import Spans, spans_of

#: host: Python's thread, which calls and dispatches; worker: MegEngine's, which sends kernels
Kind = Literal["host", "worker", "device", "other"]
Codes = NDArray[np.signedinteger]

#: names that MegEngine gives to its threads; 1.13 calls Python's thread `interpreter`
_HOST, _WORKER = ("interpreter", "channel", "main"), ("worker",)
#: events that one kind of lane alone has, where the threads have no names: 1.13 writes those last,
#: so a file that was cut off has none
_HOST_EVENTS = frozenset({"OpDispatch", "TensorWaitProp"})
_WORKER_EVENTS = frozenset({"Output", "StartProfile", "StopProfile"})


@dataclass(frozen=True, eq=False)
class Lane:
    """One thread or device of a trace, with its s spans. It needs the trace's columns no more.

    number: its place in `Trace.lanes`, where its key is (process, thread)
    code: (s,) what each span is called, into `texts.names`
    operator, tensor: (s,) the number of what a span is of; NONE for one of none
    label, layout: (s,) of the tensor, into `texts`; NONE without one
    """

    number: int
    key: tuple[int | str, int | str]
    name: str
    kind: Kind
    texts: TraceTexts
    spans: Spans
    code: Codes
    operator: Codes
    tensor: Codes
    label: Codes
    layout: Codes

    def called(self, name: str) -> NDArray[np.intp]:
        """Which spans have a name."""
        return np.flatnonzero(self.code == self.texts.name_code(name))


def lanes_of(trace: Trace) -> list[Lane]:
    """Return all lanes: hosts first, then workers, then devices, each in the order of the file."""
    found = []
    for number, key in enumerate(trace.lanes):
        name = trace.lane_names[number]
        spans = spans_of(trace, number)
        # what a tensor or an operator is, only the end of a span tells
        last = spans.last
        is_operator, ident = trace.is_operator[last], trace.ident[last]
        lane = Lane(
            number=number,
            key=key,
            name=name or str(key[1])[:LONGEST_TEXT],
            kind=_kind(trace, number, name),
            texts=trace.texts,
            spans=spans,
            code=trace.name[spans.first],
            operator=np.where(is_operator, ident, NONE).astype(ident.dtype),
            tensor=np.where(is_operator, NONE, ident).astype(ident.dtype),
            label=trace.label[last],
            layout=trace.layout[last],
        )
        found.append(lane)
    order = ("host", "worker", "device", "other")
    return sorted(found, key=lambda lane: order.index(lane.kind))


def _kind(trace: Trace, number: int, name: str) -> Kind:
    if name in _HOST:
        return "host"
    if name in _WORKER:
        return "worker"
    here = trace.lane == number
    codes = set(np.unique(trace.name[here]).tolist())
    events = {trace.texts.names[code] for code in codes}
    if _HOST_EVENTS & events:
        return "host"
    if _WORKER_EVENTS & events:
        return "worker"
    return "device" if bool(trace.is_operator[here].any()) else "other"
