"""Excerpts of traces have exactly the spans that touch the range, compared with the file."""

import json
import math
import random
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiles.formats.chrome_trace import events as events_of_traces
from profiles.formats.chrome_trace import span_index
from profiles.formats.chrome_trace.dynamic_profile import read_dynamic
from profiles.formats.chrome_trace.excerpt_file import exact_us
from profiles.formats.chrome_trace.excerpt_selection import ExcerptRange, ExcerptTooLargeError
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.errors import ProfileFormatError
from profiles.tests.trace_excerpts import (
    excerpt_of,
    index_of,
    spans_in_range,
    spans_of_events,
    spans_of_text,
)
from profiles.tests.traces import (
    DEVICE,
    HOST,
    MLP,
    RESNET,
    WORKER,
    enclose,
    operator,
    span,
    thread_names,
    to_trace,
)

RANDOM_TRACES = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
THREADS = (HOST, WORKER, DEVICE)
#: times of a short trace, ns
TIMES = st.integers(0, 20_000)
RANGES = st.tuples(TIMES, TIMES).map(sorted)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chrome_timeline.json"


@st.composite
def traces(draw):
    """Draw events of some threads with nested spans, many of them adjacent, and counters."""
    events = []
    for thread in draw(st.sets(st.sampled_from(THREADS), min_size=1)):
        events += draw(_nested(thread, 0, 20_000, 3))
    for at in draw(st.lists(TIMES, max_size=10)):
        events.append(_counter(at / 1000))
    return events


@st.composite
def _nested(draw, thread, begin, end, depth):
    ends = sorted(draw(st.lists(st.integers(begin, end), min_size=2, max_size=6)))
    events = []
    for low, high in pairwise(ends):
        name = draw(st.sampled_from(["a", "b", "Input 7", '"},{"ph":"B"', "层"]))
        if draw(st.booleans()):
            where = {"pid": 1, "tid": thread, "name": name}
            events.append({"ph": "X", "ts": low / 1000, "dur": (high - low) / 1000, **where})
            continue
        inner = draw(_nested(thread, low, high, depth - 1)) if depth and high - low > 2 else []
        events += enclose(span(thread, name, low / 1000, high / 1000), *inner)
    return events


def _counter(at, value=1.0):
    return {"ph": "C", "name": "memory", "pid": 1, "tid": 0, "ts": at, "args": {"value": value}}


class TestSpans:
    @RANDOM_TRACES
    @given(events=traces(), ends=RANGES, piece_bytes=st.sampled_from([50, 400, 1 << 18]))
    def test_an_excerpt_has_the_spans_and_counters_of_the_range(
        self, path, events, ends, piece_bytes
    ):
        begin, end = (time_ns / 1000 for time_ns in ends)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(events_of_traces, "PIECE_BYTES", piece_bytes)
            patch.setattr(events_of_traces, "_START_WITHIN_BYTES", 40)
            patch.setattr(span_index, "BLOCK_ROWS", 4)
            path.write_bytes(to_trace(*events))
            excerpt = excerpt_of(path, ExcerptRange(begin, end))
        expected = spans_in_range(spans_of_text(path.read_bytes()), begin, end)
        assert spans_of_events(excerpt) == expected
        times_us = [event["ts"] for event in excerpt if event["ph"] == "C"]
        all_times_us = [event["ts"] for event in events if event["ph"] == "C"]
        assert sorted(times_us) == sorted(at for at in all_times_us if begin <= at <= end)
        assert [event for event in excerpt if event["ph"] == "M"] == thread_names()

    @RANDOM_TRACES
    @given(events=traces(), ends=RANGES, data=st.data())
    def test_an_excerpt_of_selected_threads_has_only_their_spans(self, path, events, ends, data):
        begin, end = (time_ns / 1000 for time_ns in ends)
        path.write_bytes(to_trace(*events))
        order = list(dict.fromkeys(event["tid"] for event in events))
        chosen = data.draw(st.sets(st.sampled_from(range(len(order)))))
        excerpt = excerpt_of(path, ExcerptRange(begin, end, frozenset(chosen)))
        expected = spans_in_range(spans_of_text(path.read_bytes()), begin, end)
        threads = {order[number] for number in chosen}
        assert spans_of_events(excerpt) == [row for row in expected if row[0] in threads]

    @pytest.mark.parametrize("trace", [MLP, RESNET], ids=["mlp", "resnet"])
    @pytest.mark.parametrize("part", [(0.0, 1.0), (0.3, 0.35), (0.9, 2.0)])
    def test_an_excerpt_of_a_real_trace_has_its_spans_in_the_range(self, trace, part):
        spans = spans_of_text(trace.read_bytes())
        begins = sorted(begin_ns / 1000 for _, _, begin_ns, _ in spans)
        begin, end = (
            begins[min(int(position * len(begins)), len(begins) - 1)] for position in part
        )
        expected = spans_in_range(spans, begin, end)
        assert len(expected) > 50
        assert spans_of_events(excerpt_of(trace, ExcerptRange(begin, end))) == expected

    def test_an_excerpt_without_bounds_has_the_whole_trace(self):
        excerpt = excerpt_of(RESNET, ExcerptRange())
        text = json.loads(RESNET.read_bytes())["traceEvents"]
        assert spans_of_events(excerpt) == spans_of_text(RESNET.read_bytes())
        for phase in "CM":
            expected, kept = (
                sorted(
                    json.dumps(event, sort_keys=True) for event in events if event["ph"] == phase
                )
                for events in (text, excerpt)
            )
            assert kept == expected


def complete_events(path, selected, **limits):
    """Return the complete events of an excerpt, which are its spans."""
    return [event for event in excerpt_of(path, selected, **limits) if event["ph"] == "X"]


class TestRange:
    def test_spans_that_cross_the_range_are_complete(self, path):
        outer = enclose(span(HOST, "outer", 0, 100, note=1), *span(HOST, "inner", 40, 60))
        path.write_bytes(to_trace(*outer, *span(HOST, "later", 200, 210)))
        slices = complete_events(path, ExcerptRange(45, 50))
        assert [(event["name"], event["ts"], event["dur"]) for event in slices] == [
            ("outer", 0, 100),
            ("inner", 40, 20),
        ]
        assert slices[0]["args"] == {"note": 1}

    def test_begin_and_end_may_be_in_distant_pieces(self, path, monkeypatch):
        monkeypatch.setattr(events_of_traces, "PIECE_BYTES", 300)
        many = [event for at in range(1, 400) for event in span(HOST, "x", at, at + 0.5)]
        path.write_bytes(to_trace(*enclose(span(HOST, "all", 0, 500), *many)))
        slices = complete_events(path, ExcerptRange(200.1, 200.2))
        assert [event["name"] for event in slices] == ["all", "x"]

    @pytest.mark.parametrize("ends", [(-50, -10), (1e9, 1e12)])
    def test_a_range_outside_of_the_trace_is_empty(self, path, ends):
        path.write_bytes(to_trace(*span(HOST, "a", 0, 1), _counter(0.5)))
        excerpt = excerpt_of(path, ExcerptRange(*ends))
        assert {event["ph"] for event in excerpt} == {"M"}

    def test_adjacent_kernels_do_not_overlap(self, path):
        ends = np.cumsum([random.Random(7).uniform(0.001, 5) for _ in range(2_000)]).round(3)
        kernels = [
            event for low, high in pairwise(ends.tolist()) for event in span(DEVICE, "k", low, high)
        ]
        path.write_bytes(to_trace(*kernels))
        spans = spans_of_events(excerpt_of(path, ExcerptRange()))
        assert all(before[3] == after[2] for before, after in pairwise(spans))

    def test_arrows_with_both_ends_in_the_range_stay(self, path):
        def arrow(kind, number, at):
            where = {"cat": "Link", "name": "l", "id": number, "pid": 1, "tid": HOST}
            return {"ph": kind, "ts": at, **where}

        events = [
            *enclose(span(HOST, "a", 0, 100), arrow("s", 1, 10), arrow("f", 1, 20)),
            *[arrow("s", 2, 15), arrow("t", 2, 16), arrow("f", 2, 90), arrow("f", 3, 12)],
        ]
        path.write_bytes(to_trace(*events))
        excerpt = excerpt_of(path, ExcerptRange(5, 50))
        arrows = [(event["ph"], event["id"]) for event in excerpt if event["ph"] in "stf"]
        assert sorted(arrows) == [("f", 1), ("s", 1), ("s", 2), ("t", 2)]
        assert not [
            event
            for event in excerpt_of(path, ExcerptRange(5, 50, frozenset()))
            if event["ph"] in "stf"
        ]


class TestDamagedFiles:
    def test_events_may_be_out_of_order(self, path):
        events = [
            event
            for at in range(0, 3_000, 10)
            for event in enclose(span(HOST, "a", at, at + 9), *span(HOST, "b", at + 2, at + 3.5))
        ]
        random.Random(3).shuffle(events)
        path.write_bytes(to_trace(*events))
        expected = spans_in_range(spans_of_text(path.read_bytes()), 1_000, 1_100)
        assert spans_of_events(excerpt_of(path, ExcerptRange(1_000, 1_100))) == expected

    @pytest.mark.parametrize("part", [0.2, 0.5, 0.99])
    def test_a_truncated_file_has_the_spans_before_its_end(self, path, part):
        text = RESNET.read_bytes()
        path.write_bytes(text[: int(len(text) * part)])
        whole = set(spans_of_text(text))
        spans = spans_of_events(excerpt_of(path, ExcerptRange()))
        assert len(set(spans) & whole) > 0.9 * len(spans) > 100

    def test_a_span_without_an_end_lasts_as_long_as_its_thread(self, path):
        events = [*span(HOST, "open", 10, 20)[:1], *span(HOST, "b", 30, 40)]
        path.write_bytes(to_trace(*events))
        slices = complete_events(path, ExcerptRange(35, 36))
        assert [(event["name"], event["ts"], event["dur"]) for event in slices] == [
            ("open", 10, 30),
            ("b", 30, 10),
        ]

    def test_names_and_arguments_are_kept(self, path):
        name = '</script>"},{"ph":"B"]}\u0000\U0001f600'
        args = {"deep": [[{"a": name}]], "number": 12345678901234567890, "__id__": 1e3}
        (begin, end) = span(HOST, name, 0, 5, **args)
        begin |= {"args": {"first": 1}, "cat": "c", "cname": "good"}
        path.write_bytes(to_trace(begin, end))
        (event,) = complete_events(path, ExcerptRange())
        assert event["name"] == name
        assert event["args"] == {"first": 1, **args}
        assert (event["cat"], event["cname"]) == ("c", "good")

    def test_an_end_with_null_arguments_is_read(self, path):
        begin, end = span(HOST, "a", 0, 5)
        begin["args"], end["args"] = {"x": 1}, {}
        path.write_bytes(to_trace(begin, end).replace(b'"args":{}', b'"args":null'))
        (event,) = complete_events(path, ExcerptRange())
        assert event["dur"] == 5

    def test_a_changed_file_is_detected(self, path):
        path.write_bytes(to_trace(*span(HOST, "a", 0, 5), *span(HOST, "b", 6, 7)))
        index = index_of(path)
        path.write_bytes(path.read_bytes().replace(b'"ph"', b'"hp"'))
        with pytest.raises(ValueError, match="another"):
            excerpt_of(path, ExcerptRange(), data=index)


@pytest.mark.parametrize(
    "change",
    [
        {"ts": 1e308, "dur": 1e308},
        {"ts": -1e308, "dur": 1.7e308},
        {"ts": 1e17, "dur": 3},
        {"ts": 5, "dur": -1e308},
        {"ts": 5, "dur": 1e308},
        {"pid": "p" * 100_000},
        {"tid": "層" * 100_000},
        {"pid": 2**63 - 1},
        {"pid": -(2**63)},
        {"pid": 10**30},
        {"name": "n" * 100_000},
    ],
)
def test_an_extreme_event_does_not_affect_the_others(path, change):
    extreme = {"ph": "X", "name": "strange", "ts": 2, "dur": 1, "pid": 1, "tid": 9} | change
    place = {key: extreme[key] for key in ("pid", "tid")}
    thread_name = {"ph": "M", "name": "thread_name", "args": {"name": "x"}, **place}
    path.write_bytes(to_trace(*operator(10, "ADD", 0, 5, "a:0"), extreme, thread_name))
    try:
        profile = read_dynamic(path)
    except ProfileFormatError as error:
        assert error.code == "bad_value"
        return
    encoded = msgspec.json.encode(profile.summary)
    assert msgspec.json.decode(encoded, type=TraceSummary) == profile.summary
    assert len(encoded) < 50_000
    assert len(index_of(path)) < 5_000
    slices = complete_events(path, ExcerptRange(-math.inf, 100))
    assert {"ADD", "OpDispatch"} <= {event["name"] for event in slices}


class TestLimits:
    def test_more_text_than_the_limit_is_refused(self):
        with pytest.raises(ExcerptTooLargeError) as caught:
            excerpt_of(RESNET, ExcerptRange(), limit_bytes=500_000)
        assert caught.value.size_bytes > 500_000
        assert caught.value.events > 5_000

    def test_more_events_than_the_limit_are_refused_before_they_are_read(self, path):
        many = [{"ph": "X", "ts": at, "dur": 0, "pid": 1, "tid": 0} for at in range(20_000)]
        path.write_bytes(to_trace(*many))
        with pytest.raises(ExcerptTooLargeError) as caught:
            excerpt_of(path, ExcerptRange(0, 19_000), limit_bytes=64 * 1_000)
        assert caught.value.events > 1_000
        assert len(complete_events(path, ExcerptRange(0, 500), limit_bytes=1 << 20)) == 501


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(0, 1e6)), min_size=1, max_size=50))
def test_excerpt_times_are_whole_nanoseconds(spans):
    begin = np.array([begin_us for begin_us, _ in spans])
    end = begin + np.array([length_us for _, length_us in spans])
    starts, lengths = exact_us(begin, end)
    for value in (*starts, *lengths):
        assert math.trunc(value * 1000) == round(value * 1000)
    for low, high, start, length in zip(begin, end, starts, lengths, strict=True):
        assert round(start * 1000) == np.rint(low * 1000)
        assert round(start * 1000) + round(length * 1000) == np.rint(high * 1000)
