"""Hostile traces: foreign files, long texts, large numbers, missing begins and ends."""

import re
from itertools import chain

import pytest

from profiles.formats.chrome_trace import reader
from profiles.formats.errors import ProfileFormatError
from profiles.tests.traces import HOST, TWO_OPERATORS, WORKER, operator, read, span, to_trace

BAD = {
    "empty": (b"  \n", "empty", "empty"),
    "no list": (b'{"displayTimeUnit":"ms"}', "not_a_profile", "traceEvents"),
    "no events": (b'{"traceEvents":[]}', "not_a_profile", "no event"),
    "no JSON": (b'{"traceEvents":[nonsense', "not_json", "nonsense"),
    "another program's": (
        to_trace({"ph": "X", "name": "paint", "pid": 1, "tid": 9, "ts": 1, "dur": 2}),
        "not_a_profile",
        "without any operator",
    ),
    "nothing called": (
        to_trace(*span(WORKER, "StartProfile", 0, 1), *span(WORKER, "StopProfile", 5, 6)),
        "trace_without_anything",
        "MegEngine's Profiler, and nothing",
    ),
    "name no text": (to_trace({"ph": "B", "name": 5, "ts": 1}), "bad_value", "name"),
    "time a text": (to_trace({"ph": "B", "name": "a", "ts": "1"}), "bad_value", "ts"),
    "deep": (
        b'{"traceEvents":[{"ph":"B","name":"a","ts":1,"args":{"x":' + b"[" * 100_000,
        None,
        None,
    ),
    "threads": (
        to_trace(*({"ph": "B", "name": "a", "pid": n, "tid": n, "ts": 1} for n in range(1_001))),
        "bad_value",
        "threads",
    ),
}


@pytest.mark.parametrize(("data", "code", "message"), BAD.values(), ids=BAD)
def test_an_unreadable_trace_is_refused_with_a_reason(tmp_path, data, code, message):
    with pytest.raises(ProfileFormatError) as raised:
        read(tmp_path, data)
    if code is not None:
        assert raised.value.code == code
        assert re.search(message, raised.value.detail)


def test_names_beyond_the_limit_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "TEXTS_LIMIT", 10)
    scopes = [event for n in range(50) for event in span(HOST, f"scope{n}", 100 + n, 100.5 + n)]
    summary = read(tmp_path, to_trace(*TWO_OPERATORS, *scopes)).summary
    assert len(summary.scopes) < 12
    assert sum(row.count for row in summary.scopes) == 50


def test_a_long_name_is_truncated(tmp_path):
    summary = read(tmp_path, to_trace(*TWO_OPERATORS, *span(HOST, "x" * 100_000, 60, 70))).summary
    assert max(len(name) for row in summary.scopes for name in row.path) == reader.LONGEST_TEXT


@pytest.mark.parametrize("largest", [2**7, 2**15, 2**31, 2**63 - 2])
def test_large_operator_ids_are_kept(tmp_path, largest):
    numbers = [3, largest - 3, largest]
    steps = [
        operator(number, f"K{number}", 100 * at, 5, "a:0") for at, number in enumerate(numbers)
    ]
    profile = read(tmp_path, to_trace(*chain.from_iterable(steps)))
    assert profile.columns.ids == tuple(map(str, numbers))
    assert list(profile.columns.types) == [f"K{number}" for number in numbers]
    tensors = {str(number + 1) for number in numbers}
    assert set(profile.graph.variables.ids) == tensors


def test_many_names_stay_distinct(tmp_path):
    scopes = [event for n in range(300) for event in span(HOST, f"scope{n}", 100 + n, 100.5 + n)]
    summary = read(tmp_path, to_trace(*TWO_OPERATORS, *scopes)).summary
    assert {row.path for row in summary.scopes} >= {(f"scope{n}",) for n in range(300)}


def test_a_tensor_without_an_end_links_no_operators(tmp_path):
    """The end of the surrounding operator is taken for the end of the tensor."""

    def unended_tensor(number, name, at, tensor):
        begin, end = span(WORKER, name, at, at + 4, __id__=number, __name__=name)
        return [begin, span(WORKER, tensor, at + 1, at + 2)[0], end]

    first, second = (
        unended_tensor(3, "ADD", 10, "Output 4"),
        unended_tensor(5, "MUL", 20, "Input 9"),
    )
    profile = read(tmp_path, to_trace(*first, *second))
    assert profile.columns.ids == ("3", "5")
    assert profile.graph.variables.ids == ()


def test_counters_beyond_float_range_are_ignored(tmp_path):
    counts = [
        {"ph": "C", "name": "memory", "pid": 1, "tid": WORKER, "ts": at, "args": {"value": value}}
        for at, value in enumerate([10**400, 5, -(10**400), 7])
    ]
    (curve,) = read(tmp_path, to_trace(*TWO_OPERATORS, *counts)).summary.curves
    assert (curve.lowest, curve.highest) == (5, 7)
