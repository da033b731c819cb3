"Traces with one bad place: all other operators is read, and what is skipped is told."

import json
import re
from decimal import Decimal

import numpy as np
import pytest

from profiles.analysis.passes import merge
from profiles.analysis.timeline import timeline
from profiles.exports.chrome_trace import to_trace as to_chrome_trace
from profiles.formats.chrome_trace import events
from profiles.formats.detection import kind_of, other_kind
from profiles.formats.errors import ProfileFormatError
from profiles.tests.imports import make_import
from profiles.tests.pages import get_page
from profiles.tests.traces import (
    MLP,
    RESNET,
    TWO_OPERATORS,
    operator,
    read,
    repeat_trace,
    to_trace,
)

GOOD = RESNET.read_bytes()
#: begin of an event in the middle
MIDDLE = GOOD.index(b"},{", len(GOOD) // 2) + 2
ODD = b'{"name":"odd","ph":"X","ts":1,"dur":1,'


def figures(profile):
    """Return what the page shows first."""
    columns = profile.columns
    return (len(columns), columns.device.total_s(), columns.host.total_s())


def insert(text: bytes) -> bytes:
    return GOOD[:MIDDLE] + text + GOOD[MIDDLE:]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return figures(read(tmp_path_factory.mktemp("whole"), GOOD))


@pytest.mark.parametrize(
    "data",
    [
        insert(b'{"name":"c","ph":"C","ts":1,"pid":1,"tid":1,"args":{"value":NaN}},'),
        insert(b'{"name":"c","ph":"C","ts":1,"pid":1,"tid":1,"args":{"value":-Infinity}},'),
        insert(b'{"name":"c","ph":"C","ts":1,"pid":1,"tid":1,"args":{"value":1e999}},'),
        insert(b","),
        insert(b",\n,"),
        GOOD[: MIDDLE - 1] + GOOD[MIDDLE:],
        insert(b'{"name":"s","ph":"i","ts":1,"args":{"stack":[{"f":1},{"f":2}]}},'),
    ],
    ids=["NaN", "infinity", "1e999", "comma", "commas", "no comma", "nested"],
)
def test_what_viewers_accept_is_read_in_full(tmp_path, whole, data):
    profile = read(tmp_path, data)
    assert figures(profile) == whole
    assert (profile.summary.skipped_count, profile.summary.is_cut) == (0, False)


@pytest.mark.parametrize(
    ("text", "fault", "reason"),
    [
        (b'{"name":"a\x01b","ph":"X","ts":1},', b"\x01", "invalid character"),
        (b'{"name":"a\\qb","ph":"X","ts":1},', b'b",', "escape"),
        (b'{"name":"ab\\","ph":"X","ts":1},', b'ph"', "expected"),
        (b'{"name":"ab","ph" "X","ts":1},', b'"X"', "expected"),
        (b'{"name":"ab",,"ph":"X","ts":1},', b',"ph', "keys"),
        (b'{"name":"a\xffb","ph":"X","ts":1},', b"\xff", "invalid"),
        (b'{"name":null,"ph":"X","ts":1},', b"{", "name"),
        (ODD + b'"args":[1]},', b"{", "args"),
        (ODD + b'"args":{"a":[{"b":1},{"c":2}]},"tid":{}},', b"{", "tid"),
        (b"null,7,", b"null", "no event"),
        (b"nonsense ", b"nonsense", "no event"),
    ],
)  # fmt: skip
def test_a_broken_event_is_skipped_and_its_place_is_told(tmp_path, whole, text, fault, reason):
    profile = read(tmp_path, insert(text))
    assert figures(profile) == whole
    (skipped,) = profile.summary.skipped
    assert profile.summary.skipped_count == 1
    assert skipped.at_byte == MIDDLE + text.index(fault)
    assert reason in skipped.reason
    assert not profile.summary.is_cut


@pytest.fixture(scope="module")
def large():
    """A trace of many pieces."""
    return repeat_trace(MLP, 4)


@pytest.fixture(scope="module")
def events_of_large(large, tmp_path_factory):
    return read(tmp_path_factory.mktemp("large"), large).summary.events


@pytest.mark.parametrize("old", [b'"name":"', b'"ph":"E",', b'"pid":'])
@pytest.mark.parametrize("new", [b"\x02", b"\\", b'"'])
def test_damage_in_any_piece_of_a_large_trace_costs_one_event(
    tmp_path, monkeypatch, large, events_of_large, old, new
):
    monkeypatch.setattr(events, "PIECE_BYTES", 1 << 13)
    for part in (3, 7, 9):
        place = large.index(old, part * len(large) // 10) + 2
        damaged = read(tmp_path, large[:place] + new + large[place:])
        assert damaged.summary.skipped_count == 1
        assert damaged.summary.events == events_of_large - 1
        assert abs(damaged.summary.skipped[0].at_byte - place) < 1_000
        assert not damaged.summary.is_cut


def test_a_damaged_last_event_does_not_hide_the_end(tmp_path):
    data = to_trace(*TWO_OPERATORS).replace(b'"xpux:0"', b'"xpux:0\\"')
    summary = read(tmp_path, data).summary
    assert (summary.skipped_count, summary.is_cut) == (1, False)


def test_many_broken_events_are_counted_and_the_first_are_named(tmp_path):
    data = to_trace(*TWO_OPERATORS)
    summary = read(tmp_path, data.replace(b"[", b"[" + b'{"name":1},' * 100, 1)).summary
    assert (summary.skipped_count, len(summary.skipped)) == (100, events.SKIPPED_DESCRIBED)


def test_a_list_that_does_not_go_on_is_refused_with_the_position(tmp_path):
    with pytest.raises(ProfileFormatError) as raised:
        read(tmp_path, b'{"traceEvents": [nonsense')
    assert raised.value.code == "not_json"
    assert "byte 17" in raised.value.detail


def test_text_without_events_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "LONGEST_EVENT_BYTES", 1 << 16)
    with pytest.raises(ProfileFormatError) as raised:
        read(tmp_path, b'{"traceEvents": [' + b"x" * (1 << 18))
    assert raised.value.code == "not_json"
    assert "byte 17" in raised.value.detail


@pytest.mark.parametrize("data", [b"{" * 200_000, b'{"a":"' * 40_000, b"},{" * 60_000])
def test_damage_takes_time_in_proportion_to_its_size(tmp_path, data):
    with pytest.raises(ProfileFormatError):
        read(tmp_path, b'{"traceEvents": [' + data)


@pytest.mark.parametrize("zero_us", [10**12, 1_700_000_000_000_000, 10**17])
def test_large_timestamps_keep_all_digits(tmp_path, whole, zero_us):
    def moved(match):
        return b'"ts":' + str(Decimal(match[1].decode()) + zero_us).encode()

    profile = read(tmp_path, re.sub(rb'"ts":([0-9.]+)', moved, GOOD))
    assert figures(profile) == whole
    assert profile.summary.zero_us == zero_us
    assert not profile.summary.out_of_order


def test_with_large_timestamps_threads_may_begin_before_the_first_event_of_the_file(tmp_path):
    events = [*operator(20, "ADD", 30, 2, "b:0"), *operator(10, "MUL", 0.5, 5, "a:0")]
    uptime_us = 2 * 86_400 * 10**6
    late = [event | {"ts": event["ts"] + uptime_us} for event in events]
    profile = read(tmp_path, to_trace(*late))
    drawn = timeline(profile.graph, profile.columns.types, one_clock=True)
    assert (drawn.odd, int(drawn.bars.counts.sum())) == ({}, 4)
    data = merge([("chrome_timeline.json", profile.columns)], profile.graph)
    exported = json.loads(to_chrome_trace(data, {}))
    assert exported["otherData"]["left_out_intervals"] == "0"
    assert profile.summary.zero_us == uptime_us


def test_an_event_without_a_duration_is_told(tmp_path):
    odd = [
        {"ph": "X", "name": "odd", "pid": 1, "tid": 9, "ts": at, "dur": length}
        for at, length in enumerate([-5, None, 1e300, 0, 2.5])
    ]
    assert read(tmp_path, to_trace(*TWO_OPERATORS, *odd)).summary.without_length == 3


def times(profile):
    columns = profile.columns
    return list(columns.types), columns.device.end_s, columns.host.end_s


def test_traces_of_megengine_1_1_and_1_2_have_operators(tmp_path):
    """Lists without an object around them; 1.1 numbers operators by text, 1.2 in begin events."""
    first = [
        {"name": "Elemwise", "ph": ph, "ts": at, "pid": 1, "tid": tid, "args": {"__id__": "[3]"}}
        for tid, begin, end in (("host", 1.0, 5.0), ("gpu0:0", 10.0, 500.0))
        for ph, at in (("B", begin), ("E", end))
    ]
    args = {"op.mode": "ADD", "name": "Elemwise", "id": 3, "inputs": "{1, 2}", "outputs": "{3}"}
    second = []
    for tid, name, begin, end in ((0, "worker", 1.0, 5.0), (1, "gpu0:0", 10.0, 500.0)):
        where = {"name": "Elemwise", "pid": 1, "tid": tid}
        second += [{"args": args, "ph": "B", "ts": begin, **where}, {"ph": "E", "ts": end, **where}]
        naming = {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "ts": 0}
        second.append({"args": {"name": name}, **naming})
    for version in (first, second):
        data = json.dumps(version, indent=4).encode()
        assert (other_kind(data[:2048]), kind_of(data[:2048])) == (None, "trace")
        types, device_s, host_s = times(read(tmp_path, data))
        assert types == ["Elemwise"]
        np.testing.assert_allclose([device_s[0], host_s[0]], [490e-6, 4e-6])


@pytest.mark.parametrize("padding", [0, 5_000])
def test_a_list_whose_events_begin_with_args_is_a_trace(padding):
    event = {"args": {"a": {"b": "x" * padding}}, "name": "n", "ph": "B", "ts": 1}
    head = json.dumps([event]).encode()[:2048]
    assert (other_kind(head), kind_of(head)) == (None, "trace")
    assert other_kind(b'[{"a": 1}, {"b": 2}]') == "list"


@pytest.mark.django_db
@pytest.mark.usefixtures("storage")
def test_a_counter_without_a_number_is_told_beside_its_curve(client, alice):
    text = insert(b'{"name":"c","ph":"C","ts":1,"pid":1,"tid":1,"args":{"value":NaN}},')
    profile = make_import(alice, text).profile
    page = get_page(client, profile)
    assert client.get(f"/api/v1/profiles/{profile.pk}/trace/cut/").status_code == 200
    assert "1 value of a counter is missing, NaN or infinite" in page
    assert "is not drawn: c." in page
    assert client.get(f"/api/v1/profiles/{profile.pk}/trace/").json()["counter_gaps"] == [
        {"name": "c", "values": 1}
    ]
    assert "计数器有 1 个值缺失" in get_page(client, profile, language="zh-hans")


@pytest.mark.django_db
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize(
    ("text", "english", "chinese"),
    [
        (b'{"name":"a\x01b","ph":"X","ts":1},', "not JSON", "不是 JSON"),
        (b'{"name":"a\xffb","ph":"X","ts":1},', "not UTF-8", "不是 UTF-8"),
        (b'{"name":null,"ph":"X","ts":1},', "wrong type of “name”", "“name”的类型错误"),
        (ODD + b'"args":[1]},', "wrong type of “args”", "“args”的类型错误"),
        (b"nonsense ", "not JSON", "不是 JSON"),
    ],
)
def test_reasons_of_skipped_events_are_translated(client, alice, text, english, chinese):
    profile = make_import(alice, insert(text)).profile
    for language, reason in (("en", english), ("zh-hans", chinese)):
        page = get_page(client, profile, language=language)
        assert reason in page.split('id="trace-notes"')[1][:400]
        assert reason in page.split('id="summary"')[1].split('id="advice-lines"')[0]
