"""Traces without operators on a device: the host computed them, or trace() compiled them."""

import pytest

from profiles.tests.traces import CUT_OFF, HOST, ON_THE_HOST, WORKER, read, span, to_trace


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
def test_without_operators_and_names_of_threads_there_are_modules_all_the_same(tmp_path, data):
    summary = read(tmp_path, data).summary
    assert [(lane.kind, lane.name) for lane in summary.lanes] == [("host", "1")]
    assert [row.path for row in summary.scopes] == [("fc",)]


def test_what_the_host_computed_outside_of_modules_is_no_idle_trace(tmp_path):
    """`a + a` of a single number, as MegEngine 1.13 writes it."""
    dispatched = span(HOST, "OpDispatch", 2, 2, __id__=11, __name__="ADD")
    events = [*span(WORKER, "StartProfile", 0, 1), *dispatched, *span(WORKER, "Put", 3, 3)]
    summary = read(tmp_path, to_trace(*events)).summary
    assert summary.operators == 0
    assert {lane.name: lane.spans for lane in summary.lanes} == {"interpreter": 1, "worker": 2}
