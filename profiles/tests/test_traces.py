"""Traces of dynamic graphs: times compared with sums over the file, and unusual files."""

import json
from collections import defaultdict

import numpy as np
import pytest

from profiles.analysis.passes import merge
from profiles.exports.fields import FIELDS, values_of
from profiles.formats.chrome_trace import dynamic_profile, events
from profiles.formats.chrome_trace.dynamic_profile import read_dynamic
from profiles.tests.traces import (
    CUT_OFF,
    DEVICE,
    HOST,
    MLP,
    NAMES,
    ON_THE_HOST,
    RESNET,
    TWO_OPERATORS,
    WORKER,
    enclose,
    operator,
    read,
    span,
    thread_names,
    to_trace,
)


def sum_times(path):
    """Return device and host times, us, types and waits of operators, read from the JSON."""
    document = json.loads(path.read_text())
    lanes = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"}
    open_spans = defaultdict(list)
    device, host, types, waits = defaultdict(float), defaultdict(float), {}, []
    for event in document["traceEvents"]:
        if event["ph"] == "B":
            open_spans[event["tid"]].append(event)
        elif event["ph"] == "E":
            begin_event = open_spans[event["tid"]].pop()
            assert begin_event["name"] == event["name"]
            duration_us, lane = event["ts"] - begin_event["ts"], lanes[event["tid"]]
            number = event.get("args", {}).get("__id__")
            if number is not None and lane != "interpreter":
                (host if lane == "worker" else device)[number] += duration_us
                types[number] = event["name"]
            if event["name"] == "TensorWaitProp":
                waits.append(duration_us)
    return device, host, types, waits


@pytest.mark.parametrize("path", [MLP, RESNET], ids=["mlp", "resnet"])
def test_times_of_operators_equal_sums_over_the_file(path):
    device, host, types, waits = sum_times(path)
    profile = read_dynamic(path)
    columns = profile.columns
    assert columns.ids == tuple(str(number) for number in sorted(types))
    assert list(columns.types) == [types[number] for number in sorted(types)]
    for times, expected in ((columns.device, device), (columns.host, host)):
        times_us = {
            int(number): time * 1e6
            for number, time, known in zip(columns.ids, times.end_s, times.present, strict=True)
            if known
        }
        assert times_us == pytest.approx(dict(expected))
    assert columns.device.total_s() == pytest.approx(sum(device.values()) / 1e6)
    assert profile.summary.wait_s == pytest.approx(sum(waits) / 1e6)
    assert profile.summary.waits_count == len(waits) == 1


def test_operators_have_the_name_and_the_shape_of_their_output():
    columns = read_dynamic(MLP).columns
    first = (columns.names[0], columns.in_shapes[0], columns.out_shapes[0], columns.in_dtypes[0])
    assert first == (
        "fc1.linear.MatrixMul", "[[32,64],[96,64]]", "[[32,96]]", '["Float32","Float32"]',
    )  # fmt: skip


def test_operators_are_linked_by_their_tensors():
    graph = read_dynamic(MLP).graph
    operators, producer = graph.operators, graph.variables.producer
    relu = operators.names.index("relu.RELU")
    producers = [operators.names[producer[var]] for var in operators.inputs[relu]]
    assert producers == ["fc1.linear[1].tensor.__iadd__.ADD"]


def test_phases_divide_the_time_of_all_kernels(tmp_path):
    events = [
        *enclose(span(HOST, "conv1", 0, 20), *operator(10, "Convolution", 1, 5, "conv1.out:0")),
        *enclose(span(HOST, "backward", 20, 50), *operator(20, "MUL", 21, 7, "g:0")),
        *enclose(span(HOST, "step", 50, 60), *operator(30, "SUB", 51, 5, "w:0")),
        *span(HOST, "clear_grad", 60, 61),
    ]
    summary = read(tmp_path, to_trace(*events)).summary
    assert [
        (p.name, p.count, round(p.host_s * 1e6), round(p.device_s * 1e6)) for p in summary.phases
    ] == [
        ("forward", 1, 20, 5),
        ("backward", 1, 30, 7),
        ("step", 1, 10, 5),
        ("clear_grad", 1, 1, 0),
    ]


def test_a_trace_does_not_tell_the_time_to_the_first_kernel(tmp_path):
    profile = read(tmp_path, to_trace(*TWO_OPERATORS))
    data = merge([("chrome_timeline.json", profile.columns)], profile.graph)
    values = dict(zip([field.key for field in FIELDS], values_of(data, np.arange(2)), strict=True))
    assert values["device.time_s"] == pytest.approx([5e-6, 2e-6])
    assert values["device.kern_s"] == values["host.kern_s"] == [None, None]


def test_a_scope_has_self_and_total_times(tmp_path):
    inner = enclose(span(HOST, "conv", 10, 40), *operator(10, "Convolution", 15, 100, "a.conv:0"))
    events = enclose(span(HOST, "a", 0, 100), *inner, *operator(20, "ADD", 50, 7, "a.ADD:0"))
    scopes = {row.path: row for row in read(tmp_path, to_trace(*events)).summary.scopes}
    outer, nested = scopes["a",], scopes["a", "conv"]
    times = ("host_s", "host_self_s", "device_s", "device_self_s")
    assert [round(getattr(outer, name) * 1e6) for name in times] == [100, 70, 107, 7]
    assert [round(getattr(nested, name) * 1e6) for name in times] == [30, 30, 100, 100]
    assert (outer.operators, nested.operators) == (1, 1)


def test_a_wait_has_its_scope_and_tensor(tmp_path):
    tensor = {"id": 5, "name": "loss:0", "dtype": "Float32", "shape": "{1}"}
    wait = span(HOST, "TensorWaitProp", 40, 90, **tensor)
    check = enclose(span(HOST, "check", 30, 95), *wait)
    summary = read(tmp_path, to_trace(*TWO_OPERATORS, *check)).summary
    assert [(w.path, w.tensor, round(w.wait_s * 1e6)) for w in summary.waits] == [
        (("check",), "loss:0", 50)
    ]


@pytest.mark.parametrize(
    ("next_at", "after_us"),
    [(125, 50), (105, 0), (None, 0)],
    ids=["when the device is idle", "before", "never"],
)
def test_a_wait_is_extended_until_the_device_is_idle(tmp_path, next_at, after_us):
    events = [
        *operator(10, "ADD", 0, 40, "a:0"),  # on the device from 10 to 50 us
        *operator(20, "MUL", 50, 60, "b:0"),  # on the device from 60 to 120 us
        *span(HOST, "TensorWaitProp", 55, 70),
        *(operator(30, "SUB", next_at, 5, "c:0") if next_at else ()),
    ]
    summary = read(tmp_path, to_trace(*events)).summary
    (wait,) = summary.waits
    assert round(wait.wait_s * 1e6) == 15
    assert round(wait.after_s * 1e6) == round(summary.wait_after_s * 1e6) == after_us
    # another thread may have sent the operators of the device and need not wait for this one
    threads = {**NAMES, 9: "interpreter"}
    more = [*events, *span(9, "other", 0, 1), *thread_names(threads)]
    summary = read(tmp_path, json.dumps({"traceEvents": more}).encode()).summary
    assert [round(wait.after_s * 1e6) for wait in summary.waits] == [0]


def test_a_lane_is_busy_while_anything_runs_on_it(tmp_path):
    events = [
        *span(WORKER, "StartProfile", 0, 100),
        *operator(10, "ADD", 100, 20, "a:0"),  # on the device from 110 to 130 us
        *operator(20, "MUL", 140, 30, "b:0"),  # on the device from 150 to 180 us
        *span(WORKER, "StopProfile", 200, 300),
    ]
    summary = read(tmp_path, to_trace(*events)).summary
    assert (summary.begin_s, summary.end_s) == pytest.approx((100e-6, 200e-6))
    device = next(lane for lane in summary.lanes if lane.kind == "device")
    assert (device.name, round(device.busy_s * 1e6), round(device.share, 9)) == ("xpux:0", 50, 0.5)


def test_python_is_not_idle_while_the_worker_still_starts_the_profiler(tmp_path):
    """The code of the guide: Python issues everything during the worker's StartProfile."""
    data = to_trace(
        *span(WORKER, "StartProfile", 0, 800),
        *span(HOST, "forward", 10, 110),
        *operator(1, "Conv", 900, 60, "y"),
        *span(WORKER, "StopProfile", 980, 1_000),
    )
    summary = read(tmp_path, data).summary
    assert (summary.begin_s, summary.end_s) == (pytest.approx(10e-6), pytest.approx(980e-6))
    busy = {lane.kind: round(lane.busy_s * 1e6) for lane in summary.lanes}
    # the Profiler's own spans do not count as work of the worker
    assert busy == {"host": 100, "worker": 2, "device": 60}
    host = next(lane for lane in summary.lanes if lane.kind == "host")
    assert host.share == pytest.approx(100 / 970)


def test_a_curve_keeps_its_peaks(tmp_path):
    values = [0.0] * 10_000
    values[7_777] = 99.0
    counts = [
        {"ph": "C", "name": "gpu0:0_alloc_mem", "pid": 1, "tid": 0, "ts": at, "args": {"value": v}}
        for at, v in enumerate(values)
    ]
    (curve,) = read(tmp_path, to_trace(*TWO_OPERATORS, *counts)).summary.curves
    assert len(curve.values) <= 500
    assert (curve.highest, max(curve.values), curve.lowest) == (99, 99, 0)


def test_a_curve_keeps_the_pauses_between_busy_times(tmp_path):
    # ten bursts of 1,000 counts within 10 ms each, with a pause of 4 s behind each of them
    at = [4e6 * burst + 10.0 * n for burst in range(10) for n in range(1_000)]
    values = [0.0 if n % 1_000 == 999 else n % 40 for n in range(10_000)]
    counts = [
        {"ph": "C", "name": "nr_op_pending", "pid": 1, "tid": 0, "ts": at, "args": {"value": v}}
        for at, v in zip(at, values, strict=True)
    ]
    (curve,) = read(tmp_path, to_trace(*TWO_OPERATORS, *counts)).summary.curves
    assert len(curve.values) <= 500
    assert max(curve.values) == curve.highest == 39
    for burst in range(9):
        middle_s = 4 * burst + 2
        drawn = [v for at_s, v in zip(curve.at_s, curve.values, strict=True) if at_s < middle_s]
        assert drawn[-1] == 0
    assert curve.at_s[-1] == pytest.approx(at[-1] / 1e6)


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 5_000])
def test_the_result_does_not_depend_on_the_piece_size(tmp_path, monkeypatch, piece_bytes):
    name = 'hostile},{"ph":"B"]},\\"traceEvents\\":[{'
    data = to_trace(*TWO_OPERATORS, *span(HOST, name, 70, 80), metadata={"list": ["]", "},{"]})
    whole = read(tmp_path, data)
    monkeypatch.setattr(events, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(events, "_START_WITHIN_BYTES", 40)
    parts = read(tmp_path, data)
    assert parts.summary == whole.summary
    assert (name,) in {scope.path for scope in parts.summary.scopes}
    assert np.array_equal(parts.columns.device.end_s, whole.columns.device.end_s)


def test_indented_and_bare_lists_of_events_are_read(tmp_path):
    events = [*TWO_OPERATORS, *thread_names()]
    whole = read(tmp_path, to_trace(*TWO_OPERATORS)).columns
    for data in (json.dumps(events, indent=2), json.dumps(events)[:-1]):
        assert read(tmp_path, data.encode()).columns.ids == whole.ids


def test_a_truncated_file_has_the_operators_before_its_end(tmp_path):
    data = RESNET.read_bytes()
    truncated = read(tmp_path, data[: len(data) // 2])
    assert truncated.summary.is_cut
    assert not read(tmp_path, data).summary.is_cut
    whole = read_dynamic(RESNET).columns
    assert 0 < len(truncated.columns) < len(whole)
    assert set(truncated.columns.ids) <= set(whole.ids)


@pytest.mark.parametrize("lost", ["B", "E"])
def test_an_unpaired_event_does_not_affect_others(tmp_path, lost):
    inner = span(HOST, "inner", 10, 20)
    remaining = inner[1:] if lost == "B" else inner[:1]
    outer = enclose(span(HOST, "outer", 0, 50), *remaining, *operator(10, "ADD", 30, 3, "a:0"))
    summary = read(tmp_path, to_trace(*outer)).summary
    assert summary.unpaired == 1
    row = next(row for row in summary.scopes if row.path == ("outer",))
    assert round(row.host_s * 1e6) == 50
    assert round(row.device_s * 1e6) == 3


def test_events_out_of_order_are_sorted_and_counted(tmp_path):
    events = TWO_OPERATORS[::-1]
    profile = read(tmp_path, to_trace(*events))
    assert profile.summary.out_of_order == 3
    assert profile.columns.device.total_s() == pytest.approx(7e-6)


def test_an_end_that_is_rounded_before_its_begin_is_paired(tmp_path):
    short = operator(10, "COPY", 0, 0, "a:0")
    short[-1]["ts"] -= 0.001
    profile = read(tmp_path, to_trace(*short, *operator(20, "ADD", 50, 7, "b:0")))
    assert (profile.summary.out_of_order, profile.summary.unpaired) == (0, 0)
    assert profile.columns.device.total_s() == pytest.approx(7e-6)
    assert [
        round(lane.busy_s * 1e6) for lane in profile.summary.lanes if lane.kind == "device"
    ] == [7]


def test_threads_without_names_are_identified_by_their_events(tmp_path):
    data = json.dumps({"traceEvents": TWO_OPERATORS}).encode()
    kinds = [lane.kind for lane in read(tmp_path, data).summary.lanes]
    assert kinds == ["host", "worker", "device"]


def test_unknown_phases_and_invalid_times_are_ignored(tmp_path):
    unusual = [
        {"ph": "Q", "name": "?", "ts": 1},
        {"ph": "s", "name": "flow", "ts": 1, "id": 3, "cat": "x"},
        {"ph": "B", "name": "no time", "pid": 1, "tid": HOST},
        {"ph": "X", "name": "no length", "pid": 1, "tid": HOST, "ts": 5},
        {"ph": "X", "name": "below zero", "pid": 1, "tid": HOST, "ts": 6, "dur": -7},
        {"ph": "C", "name": "text", "pid": 1, "tid": HOST, "ts": 6, "args": {"value": "many"}},
        {"ph": "B", "name": "huge", "pid": 1, "tid": HOST, "ts": 1e300},
        {"ph": "E", "name": "x", "pid": 1, "tid": DEVICE, "ts": 9, "args": {"__id__": -4}},
        {"ph": "E", "name": "x", "pid": 1, "tid": DEVICE, "ts": 9, "args": {"__id__": 1 << 70}},
    ]
    profile = read(tmp_path, to_trace(*TWO_OPERATORS, *unusual))
    assert profile.columns.ids == ("10", "20")
    assert profile.summary.broken == 2  # an event without a time, and one beyond any clock


def test_an_unreadable_trace_leaves_no_index(tmp_path, monkeypatch):
    def raise_memory_error(*_):
        raise MemoryError

    monkeypatch.setattr(dynamic_profile, "summarize", raise_memory_error)
    index = tmp_path / "spans.bin"
    with pytest.raises(MemoryError):
        read_dynamic(MLP, index=index)
    assert not index.exists()


def test_a_trace_is_read_though_its_index_cannot_be_written(tmp_path):
    index = tmp_path / "nowhere/spans.bin"
    assert len(read_dynamic(MLP, index=index).columns) == len(read_dynamic(MLP).columns)
    assert not index.exists()


# -- traces without operators on a device ----------------------------------------------------------


def test_a_trace_without_operators_has_modules_and_waits(tmp_path):
    profile = read(tmp_path, to_trace(*ON_THE_HOST))
    assert len(profile.columns) == 0
    assert len(profile.graph.variables.ids) == 0
    summary = profile.summary
    assert summary.operators == 0
    assert [(row.path, row.host_s, row.operators) for row in summary.scopes] == [
        (("fc",), pytest.approx(7e-6), 0)
    ]
    assert summary.waits_count == 1
    assert summary.wait_s == pytest.approx(3e-6)
    assert summary.wait_after_s == 0


@pytest.mark.parametrize("data", [CUT_OFF, CUT_OFF + b"]}"], ids=["cut", "whole"])
def test_a_trace_without_operators_and_thread_names_has_modules(tmp_path, data):
    summary = read(tmp_path, data).summary
    assert [(lane.kind, lane.name) for lane in summary.lanes] == [("host", "1")]
    assert [row.path for row in summary.scopes] == [("fc",)]


def test_a_trace_of_host_computations_without_modules_is_valid(tmp_path):
    """`a + a` of a single number, as MegEngine 1.13 writes it."""
    dispatched = span(HOST, "OpDispatch", 2, 2, __id__=11, __name__="ADD")
    events = [*span(WORKER, "StartProfile", 0, 1), *dispatched, *span(WORKER, "Put", 3, 3)]
    summary = read(tmp_path, to_trace(*events)).summary
    assert summary.operators == 0
    assert {lane.name: lane.spans for lane in summary.lanes} == {"interpreter": 1, "worker": 2}
