"""Factories of traces in the format of MegEngine's Profiler."""

import json
from pathlib import Path
from typing import Any

from profiles.formats.chrome_trace.dynamic_profile import DynamicProfile, read_dynamic
from testdata import DATA

MLP = DATA / "traces/dynamic_train_mlp_scopes/profile.chrome_timeline.json"
RESNET = DATA / "traces/dynamic_train_resnet/profile.chrome_timeline.json"
HOST, WORKER, DEVICE = 1, 0, 2
NAMES = {HOST: "interpreter", WORKER: "worker", DEVICE: "xpux:0"}


def span(lane: int, name: str, begin: float, end: float, /, **args: Any) -> list[dict[str, Any]]:
    """Return the begin and the end event of a span; `enclose` puts events between them."""
    where = {"name": name, "pid": 1, "tid": lane}
    return [{"ph": "B", "ts": begin, **where}, {"ph": "E", "ts": end, "args": args, **where}]


def enclose(outer: list[dict[str, Any]], *inner: dict[str, Any]) -> list[dict[str, Any]]:
    return [outer[0], *inner, outer[1]]


def operator(number: int, name: str, at: float, length: float, output: str) -> list[dict[str, Any]]:
    """Return the events of an operator.

    The host dispatches it at `at`, the worker sends it 1 us later, and the device computes it
    10 us later for `length` us.
    """
    arguments = {"__id__": number, "__name__": name, "__device__": "invalid"}
    tensor = {"id": number + 1, "name": output, "dtype": "Float32", "shape": "{2,3}"}
    output_span = span(WORKER, f"Output {number + 1}", at + 2, at + 2, **tensor)
    return [
        *span(HOST, "OpDispatch", at, at, **arguments),
        *enclose(span(WORKER, name, at + 1, at + 3, **arguments), *output_span),
        *span(DEVICE, name, at + 10, at + 10 + length, **arguments),
    ]


#: two operators with a pause between them
TWO_OPERATORS = [
    *operator(10, "MatrixMul", 0, 5, "fc.linear.MatrixMul:0"),
    *operator(20, "ADD", 30, 2, ""),
]

#: a trace without operators: MegEngine 1.13 sends none to the worker where tensors are so small
#: that the host computes them, nor for a function that trace() compiled
ON_THE_HOST = [
    *span(WORKER, "StartProfile", 0, 1),
    *enclose(
        span(HOST, "fc", 2, 9),
        *span(HOST, "OpDispatch", 3, 3, __id__=11, __name__="ADD"),
        *span(HOST, "TensorWaitProp", 5, 8, id=12, name="", dtype="Float32", shape="{1}"),
    ),
    *span(DEVICE, "HostToDevice", 3, 4),
    *span(WORKER, "StopProfile", 15, 16),
]


#: the beginning of a trace: it has no names of threads, which 1.13 writes last, and no event of
#: the worker or the device
CUT_OFF = json.dumps({"traceEvents": [e for e in ON_THE_HOST if e["tid"] == HOST]}).encode()[:-3]


def thread_names(lanes: dict[int, str] | None = None) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
        for lane, name in (lanes or NAMES).items()
    ]


def to_trace(*events: dict[str, Any], **more: Any) -> bytes:
    document = {"traceEvents": [*events, *thread_names()], "metadata": {"localTime": "1"}, **more}
    return json.dumps(document, separators=(",", ":")).encode()


def repeat_trace(path: Path, times: int) -> bytes:
    """Return a real trace repeated `times` times, each copy after the one before it."""
    events = json.loads(path.read_bytes())["traceEvents"]
    duration_us = max(event.get("ts", 0) for event in events) + 100
    copies = [
        event | ({"ts": round(event["ts"] + copy * duration_us, 3)} if "ts" in event else {})
        for copy in range(times)
        for event in events
        if copy == 0 or event["ph"] != "M"
    ]
    return json.dumps({"traceEvents": copies}, separators=(",", ":")).encode()


def read(folder: Path, data: bytes) -> DynamicProfile:
    path = folder / "chrome_timeline.json"
    path.write_bytes(data)
    return read_dynamic(path)
