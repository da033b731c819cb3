"""Traces that tests make by hand, as MegEngine's Profiler writes them."""

import json
from pathlib import Path
from typing import Any

from profiles.formats.chrome_trace.reading import DynamicProfile, read_dynamic
from testdata import DATA

MLP = DATA / "traces/dynamic_train_mlp_scopes/profile.chrome_timeline.json"
RESNET = DATA / "traces/dynamic_train_resnet/profile.chrome_timeline.json"
HOST, WORKER, DEVICE = 1, 0, 2
NAMES = {HOST: "interpreter", WORKER: "worker", DEVICE: "xpux:0"}


def span(lane: int, name: str, begin: float, end: float, /, **args: Any) -> list[dict[str, Any]]:
    """Begin and end; what belongs in between is to be put there."""
    where = {"name": name, "pid": 1, "tid": lane}
    return [{"ph": "B", "ts": begin, **where}, {"ph": "E", "ts": end, "args": args, **where}]


def around(outer: list[dict[str, Any]], *inner: dict[str, Any]) -> list[dict[str, Any]]:
    return [outer[0], *inner, outer[1]]


def operator(number: int, name: str, at: float, took: float, output: str) -> list[dict[str, Any]]:
    """One operator: dispatched at `at`, sent 1 us later, computed 10 us later for `took` us."""
    arguments = {"__id__": number, "__name__": name, "__device__": "invalid"}
    tensor = {"id": number + 1, "name": output, "dtype": "Float32", "shape": "{2,3}"}
    made = span(WORKER, f"Output {number + 1}", at + 2, at + 2, **tensor)
    return [
        *span(HOST, "OpDispatch", at, at, **arguments),
        *around(span(WORKER, name, at + 1, at + 3, **arguments), *made),
        *span(DEVICE, name, at + 10, at + 10 + took, **arguments),
    ]


#: two operators, the second one after a pause
TWO = [*operator(10, "MatrixMul", 0, 5, "fc.linear.MatrixMul:0"), *operator(20, "ADD", 30, 2, "")]

#: of tensors so small that the host computes them, 1.13 sends no operator to the worker; nor of a
#: function that trace() compiled
ON_THE_HOST = [
    *span(WORKER, "StartProfile", 0, 1),
    *around(
        span(HOST, "fc", 2, 9),
        *span(HOST, "OpDispatch", 3, 3, __id__=11, __name__="ADD"),
        *span(HOST, "TensorWaitProp", 5, 8, id=12, name="", dtype="Float32", shape="{1}"),
    ),
    *span(DEVICE, "HostToDevice", 3, 4),
    *span(WORKER, "StopProfile", 15, 16),
]


#: 1.13 writes names of threads last, so a trace that was cut off has none; nor a worker or device
#: that did anything
CUT_OFF = json.dumps({"traceEvents": [e for e in ON_THE_HOST if e["tid"] == HOST]}).encode()[:-3]


def names(lanes: dict[int, str] | None = None) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
        for lane, name in (lanes or NAMES).items()
    ]


def to_trace(*events: dict[str, Any], **more: Any) -> bytes:
    document = {"traceEvents": [*events, *names()], "metadata": {"localTime": "1"}, **more}
    return json.dumps(document, separators=(",", ":")).encode()


def repeated(path: Path, times: int) -> bytes:
    """A real trace, one copy after the other in time."""
    events = json.loads(path.read_bytes())["traceEvents"]
    took = max(event.get("ts", 0) for event in events) + 100
    copies = [
        event | ({"ts": round(event["ts"] + copy * took, 3)} if "ts" in event else {})
        for copy in range(times)
        for event in events
        if copy == 0 or event["ph"] != "M"
    ]
    return json.dumps({"traceEvents": copies}, separators=(",", ":")).encode()


def read(folder: Path, data: bytes) -> DynamicProfile:
    path = folder / "chrome_timeline.json"
    path.write_bytes(data)
    return read_dynamic(path)
