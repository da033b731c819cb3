"""Operators of a trace that were recomputed because DTR had freed their outputs."""

import pytest

from profiles.tests.imports import make_import
from profiles.tests.pages import whole_page
from profiles.tests.traces import DEVICE, HOST, WORKER, enclose, operator, read, span, to_trace


def execution_events(number, name, at, duration_us, *, reads, makes):
    """Return the events of worker and device for an execution, as MegEngine 1.13 writes them.

    The worker sends it at `at`, and the device computes it 10 us later for `duration_us`.
    """
    arguments = {"__id__": number, "__name__": name, "__device__": "invalid"}
    tensors = [("Input", tensor) for tensor in reads] + [("Output", makes)]
    inner = [
        event
        for place, (kind, tensor) in enumerate(tensors)
        for event in span(
            WORKER,
            f"{kind} {tensor}",
            at + 0.5 * place,
            at + 0.5 * place + 0.2,
            **{"id": tensor, "name": f"t{tensor}:0", "dtype": "Float32", "shape": f"{{{tensor}}}"},
        )
    ]
    worker_events = enclose(span(WORKER, name, at, at + 3, **arguments), *inner)
    return worker_events, span(DEVICE, name, at + 10, at + 10 + duration_us, **arguments)


def regenerate(at, tensor, worker_events):
    """Put the events of a recomputation into the span of the worker that regenerates `tensor`."""
    return enclose(span(WORKER, f"ReGen {tensor}", at, at + 4), *worker_events)


def make_dtr_trace():
    """Return a trace with a convolution that is computed three times, and its two readers."""
    arguments = {"__id__": 10, "__name__": "Convolution", "__device__": "invalid"}
    runs = [
        execution_events(10, "Convolution", at, duration_us, reads=(1, 2), makes=3)
        for at, duration_us in ((0, 40), (100, 30), (200, 20))
    ]
    first, *repetitions = runs
    readers = [execution_events(20, "RELU", 150, 5, reads=(3,), makes=4)]
    readers += [execution_events(30, "ADD", 250, 7, reads=(3, 4), makes=5)]
    events = [*span(HOST, "OpDispatch", 0, 0, **arguments), *first[0]]
    for (worker_events, _), (reader, _), at in zip(repetitions, readers, (100, 200), strict=True):
        events += [*regenerate(at, 3, worker_events), *reader]
    for _, device_events in sorted([*runs, *readers], key=lambda run: run[1][0]["ts"]):
        events += device_events
    return to_trace(*events)


def test_recomputed_operators_keep_their_wiring_and_sum_their_times(tmp_path):
    profile = read(tmp_path, make_dtr_trace())
    columns, graph = profile.columns, profile.graph
    rows = [
        (columns.names[row], columns.in_shapes[row], columns.out_shapes[row])
        for row in range(len(columns))
    ]
    assert rows == [
        ("t3", "[[1],[2]]", "[[3]]"),
        ("t4", "[[3]]", "[[4]]"),
        ("t5", "[[3],[4]]", "[[5]]"),
    ]
    assert columns.in_dtypes[0] == '["Float32","Float32"]'
    assert [round(time_s * 1e6) for time_s in columns.device.end_s] == [90, 5, 7]
    assert [round(time_s * 1e6) for time_s in columns.host.end_s] == [9, 3, 3]
    operators, variables = graph.operators, graph.variables
    wired = [
        ([variables.ids[variable] for variable in operators.inputs[row]],
         [variables.ids[variable] for variable in operators.outputs[row]])
        for row in range(3)
    ]  # fmt: skip
    assert wired == [(["1", "2"], ["3"]), (["3"], ["4"]), (["3", "4"], ["5"])]
    assert (profile.summary.repeated, profile.summary.again) == (1, 2)


@pytest.mark.django_db
@pytest.mark.usefixtures("storage")
def test_page_and_report_count_recomputations(client, alice):
    profile = make_import(alice, make_dtr_trace()).profile
    for address in ("", "export/report/"):
        text = whole_page(client, f"/profiles/{profile.pk}/{address}")
        assert "1 operator was recomputed 2 times" in text
    page = whole_page(client, f"/profiles/{profile.pk}/")
    assert "One row per operator with all of its executions" in page
    once = make_import(alice, to_trace(*operator(10, "ADD", 0, 5, "a:0"))).profile
    assert "more than once" not in whole_page(client, f"/profiles/{once.pk}/")
