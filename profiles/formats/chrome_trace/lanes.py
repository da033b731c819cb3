"""Classify the lanes of a trace: Python's thread, the worker that launches kernels, devices."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.formats.chrome_trace.reader import LONGEST_TEXT, NONE, Trace, TraceTexts
from profiles.formats.chrome_trace.spans import Spans, spans_of

#: host: Python's thread, which dispatches operators; worker: MegEngine's thread that launches
#: kernels
Kind = Literal["host", "worker", "device", "other"]
Codes = NDArray[np.signedinteger]

#: names that MegEngine gives to its threads; 1.13 calls Python's thread `interpreter`, 1.1 had one
#: thread `host`, which launched kernels
_HOST, _WORKER = ("interpreter", "channel", "main"), ("worker", "host")
#: events that occur in one kind of lane only, for files without thread names: 1.13 writes the names
#: last, so a truncated file lacks them
_HOST_EVENTS = frozenset({"OpDispatch", "TensorWaitProp"})
_WORKER_EVENTS = frozenset({"Output", "StartProfile", "StopProfile"})


@dataclass(frozen=True, eq=False)
class Lane:
    """One thread or device of a trace, with its s spans; independent of the trace's columns.

    number: index in `Trace.lanes`; key: (process, thread)
    code: (s,) name of each span, index into `texts.names`
    operator, tensor: (s,) the operator or tensor that a span belongs to, or NONE: its number plus a
        multiple of `stride` for each further process, since each counts its own
    label, layout: (s,) name and layout of the tensor, indices into `texts`; NONE without one
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
    stride: int
    label: Codes
    layout: Codes

    def called(self, name: str) -> NDArray[np.intp]:
        """The indices of the spans with this name."""
        return np.flatnonzero(self.code == self.texts.name_code(name))


def lanes_of(trace: Trace) -> list[Lane]:
    """Return all lanes: hosts first, then workers, then devices, each in the order of the file."""
    lanes = []
    names = [name or str(key[1]) for key, name in zip(trace.lanes, trace.lane_names, strict=True)]
    kinds = [_kind(trace, number, name) for number, name in enumerate(names)]
    stride, firsts = _first_numbers(trace, kinds)
    for number, key in enumerate(trace.lanes):
        spans = spans_of(trace, number)
        # the end event of a span has the args of its tensor or operator, in 1.2 the begin event
        last = np.where(trace.ident[spans.last] == NONE, spans.first, spans.last)
        is_operator, ident = trace.is_operator[last], trace.ident[last]
        if first := firsts.get(key[0], 0):
            ident = np.where(ident == NONE, NONE, ident.astype(np.int64) + first)
        lane = Lane(
            number=number,
            key=key,
            name=names[number][:LONGEST_TEXT],
            kind=kinds[number],
            texts=trace.texts,
            spans=spans,
            code=trace.name[spans.first],
            operator=np.where(is_operator, ident, NONE).astype(ident.dtype),
            tensor=np.where(is_operator, NONE, ident).astype(ident.dtype),
            stride=stride,
            label=trace.label[last],
            layout=trace.layout[last],
        )
        lanes.append(lane)
    order = ("host", "worker", "device", "other")
    return sorted(lanes, key=lambda lane: order.index(lane.kind))


def _first_numbers(trace: Trace, kinds: list[Kind]) -> tuple[int, dict[int | str, int]]:
    """(`Lane.stride`, what is added to the numbers of each process).

    `merge_trace_events()` of MegEngine joins the traces of several processes, each of which numbers
    its operators and tensors from the same number on. A process has a worker of its own.
    """
    owners = [pid for (pid, _), kind in zip(trace.lanes, kinds, strict=True) if kind == "worker"]
    stride = int(trace.ident.max(initial=0)) + 1
    processes = list(dict.fromkeys(owners))
    # only a damaged file has numbers that do not fit
    is_fitting = stride * len(processes) < 2**63
    return stride, {pid: stride * place for place, pid in enumerate(processes) if is_fitting}


def _kind(trace: Trace, number: int, name: str) -> Kind:
    if name in _HOST:
        return "host"
    if name in _WORKER:
        return "worker"
    in_lane = trace.lane == number
    codes = set(np.unique(trace.name[in_lane]).tolist())
    events = {trace.texts.names[code] for code in codes}
    if _HOST_EVENTS & events:
        return "host"
    if _WORKER_EVENTS & events:
        return "worker"
    return "device" if bool(trace.is_operator[in_lane].any()) else "other"
