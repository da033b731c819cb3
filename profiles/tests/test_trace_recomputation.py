"""Operators of a trace that were computed repeatedly because DTR had freed their outputs."""

import pytest

from profiles.tests.imports import make_import
from profiles.tests.traces import DEVICE, HOST, WORKER, enclose, operator, read, span, to_trace


def executed(number, name, at, took, *, reads, makes):
    """Return the events of worker and device for an execution, as MegEngine 1.13 writes them.

    The worker sends it at `at`, and the device computes it 10 us later for `took` us.
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
    sent = enclose(span(WORKER, name, at, at + 3, **arguments), *inner)
    return sent, span(DEVICE, name, at + 10, at + 10 + took, **arguments)


def again(at, tensor, sent):
    """Put the events of a repeated execution into the worker's span that regenerates `tensor`."""
    return enclose(span(WORKER, f"ReGen {tensor}", at, at + 4), *sent)


def trace_of_dtr():
    """Return a trace with a convolution that is computed three times, and its two readers."""
    arguments = {"__id__": 10, "__name__": "Convolution", "__device__": "invalid"}
    runs = [
        executed(10, "Convolution", at, took, reads=(1, 2), makes=3)
        for at, took in ((0, 40), (100, 30), (200, 20))
    ]
    first, *more = runs
    readers = [executed(20, "RELU", 150, 5, reads=(3,), makes=4)]
    readers += [executed(30, "ADD", 250, 7, reads=(3, 4), makes=5)]
    events = [*span(HOST, "OpDispatch", 0, 0, **arguments), *first[0]]
    for (sent, _), (reader, _), at in zip(more, readers, (100, 200), strict=True):
        events += [*again(at, 3, sent), *reader]
    for _, computed in sorted([*runs, *readers], key=lambda run: run[1][0]["ts"]):
        events += computed
    return to_trace(*events)


def test_what_is_computed_again_has_its_own_inputs_and_outputs_and_all_its_time(tmp_path):
    profile = read(tmp_path, trace_of_dtr())
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
def test_the_page_and_the_report_say_how_often(client, alice):
    profile = make_import(alice, trace_of_dtr()).profile
    for address in ("", "export/report/"):
        text = client.get(f"/profiles/{profile.pk}/{address}").content.decode()
        assert "1 operator was computed more than once, 2 times more in all" in text
    page = client.get(f"/profiles/{profile.pk}/").content.decode()
    assert "Each row is one operator of the trace with all of its executions" in page
    once = make_import(alice, to_trace(*operator(10, "ADD", 0, 5, "a:0"))).profile
    assert "more than once" not in client.get(f"/profiles/{once.pk}/").content.decode()
