"""Export a profile in Chrome's trace event format for Perfetto and chrome://tracing.

Format: the document "Trace Event Format" of the Chromium project; Perfetto reads it as described on
    perfetto.dev/docs/getting-started/other-formats.
"""

from collections.abc import Iterator, Mapping
from heapq import heappush, heapreplace
from itertools import count
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.analysis.data import ProfileData
from profiles.formats.columns import MISSING, Side
from profiles.formats.load_and_run.graph import Intervals

#: largest time that fits into Perfetto's clock of 64-bit ns
_LATEST_S = 9e9
#: viewers take a thread with the id of its process for the main thread, so ids start elsewhere
_THREADS = 10_000_000
PROCESSES: tuple[tuple[int, Side, str], ...] = ((1, "device", "Device"), (2, "host", "Host"))


def to_trace(data: ProfileData, meta: Mapping[str, Any], place: int = 0) -> bytes:
    """Return a JSON object of the last iteration of the pass at `place`, for Perfetto.

    Process 1 is the device with one thread per computing node, process 2 the host with its threads.
    Each operator is a complete event (`X`, µs, to the ns). It contains `wait`, until its first
    kernel is launched, and `compute`. Operators that overlap on one node are put into additional
    threads of the same name. In profiles of load_and_run the two processes have separate clocks,
    and the file does not relate their origins. Invalid intervals (not finite, negative, reversed)
    are left out and counted in `otherData`.
    """
    events: list[dict[str, Any]] = []
    left_out, graph = 0, data.graph_of_pass(place)
    for pid, side, title in PROCESSES:
        intervals = graph.device if side == "device" else graph.host
        events += _name("process_name", pid, 0, title)
        sound, start_ns, kern_ns, end_ns = _nanoseconds(intervals)
        left_out += int((~sound).sum())
        args = _args(data, side)
        threads = _threads(intervals, sound, start_ns, end_ns, first=pid * _THREADS)
        events += _thread_names(pid, intervals, threads)
        for place, thread in threads.items():
            row = int(intervals.row[place])
            span = (int(start_ns[place]), int(kern_ns[place]), int(end_ns[place]))
            events += _slices(data, row, args.get(row, {}), (pid, thread[1]), span)
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {**_flat(meta), "left_out_intervals": str(left_out)},
    }
    return msgspec.json.encode(document)


def _nanoseconds(
    intervals: Intervals,
) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return which intervals are valid, and start, kern (or start), end as (m,) int64 ns."""
    start, kern, end = intervals.start_s, intervals.kern_s, intervals.end_s
    with np.errstate(invalid="ignore"):
        sound = (start >= 0) & (end >= start) & (end < _LATEST_S)
        kern = np.where((kern >= start) & (kern <= end), kern, start)

    def whole(times: NDArray[np.float64]) -> NDArray[Any]:
        return np.rint(np.where(sound, times, 0.0) * 1e9).astype(np.int64)

    return sound, whole(start), whole(kern), whole(end)


def _threads(
    intervals: Intervals,
    sound: NDArray[np.bool_],
    start_ns: NDArray[Any],
    end_ns: NDArray[Any],
    *,
    first: int,
) -> dict[int, tuple[int, int]]:
    """Return (lane, thread id) of each interval, by start, without overlaps within a thread.

    An interval is put into the thread of its lane that became free first.
    """
    spans: dict[int, tuple[int, int]] = {}
    free: dict[int, list[tuple[int, int]]] = {}
    numbers = count(first)
    places = np.flatnonzero(sound)
    for place in places[np.lexsort((end_ns[places], start_ns[places]))].tolist():
        lane = int(intervals.lanes.codes[place])
        threads = free.setdefault(lane, [])
        start, end = int(start_ns[place]), int(end_ns[place])
        if threads and threads[0][0] <= start:
            number = threads[0][1]
            heapreplace(threads, (end, number))
        else:
            number = next(numbers)
            heappush(threads, (end, number))
        spans[place] = (lane, number)
    return spans


def _thread_names(
    pid: int, intervals: Intervals, threads: Mapping[int, tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    for lane, number in sorted(set(threads.values())):
        name = intervals.lanes.values[lane] if lane != MISSING else "?"
        yield from _name("thread_name", pid, number, name)
        sort = {"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": number}
        yield sort | {"args": {"sort_index": lane * 1000 + number}}


def _name(kind: str, pid: int, tid: int, name: str) -> Iterator[dict[str, Any]]:
    yield {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _slices(
    data: ProfileData,
    row: int,
    args: dict[str, Any],
    place: tuple[int, int],
    span_ns: tuple[int, int, int],
) -> Iterator[dict[str, Any]]:
    """Return the operator, and inside it the wait and the computation if both take time."""
    start, kern, end = span_ns
    kind = data.columns.types[row] or ""
    yield _slice(data.columns.names[row] or kind or "?", kind, place, (start, end)) | {"args": args}
    if start < kern:
        yield _slice("wait", "wait", place, (start, kern))
        if kern < end:
            yield _slice("compute", "compute", place, (kern, end))


def _slice(
    name: str, category: str, place: tuple[int, int], span_ns: tuple[int, int]
) -> dict[str, Any]:
    pid, tid = place
    start, end = span_ns
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": start / 1000,
        "dur": (end - start) / 1000,
    }


def _args(data: ProfileData, side: Side) -> dict[int, dict[str, Any]]:
    """Return the properties of each operator, by row; costs only on the device."""
    columns = data.columns
    flo, size = columns.computation, columns.memory
    made = {}
    for row in range(len(columns)):
        args: dict[str, Any] = {"id": columns.ids[row], "type": columns.types[row], "row": row}
        if side == "device":
            args["in_shapes"] = columns.in_shapes[row]
            args["out_shapes"] = columns.out_shapes[row]
            if flo.present[row]:
                args["computation_flo"] = float(flo.values[row])
            if size.present[row]:
                args["memory_bytes"] = float(size.values[row])
        made[row] = {key: value for key, value in args.items() if value is not None}
    return made


def _flat(meta: Mapping[str, Any]) -> dict[str, str]:
    """Return texts only: viewers show nothing else of `otherData`."""
    return {
        key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for key, value in meta.items()
    }
