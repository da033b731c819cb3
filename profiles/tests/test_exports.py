"""Exports and reports: each is read back and compared with its profile."""

import base64
import csv
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from django.core.management import call_command
from django.http import QueryDict
from django.utils import translation

from profiles.analysis.data import ProfileData
from profiles.analysis.netron.text import OperatorPanel
from profiles.analysis.passes import merge
from profiles.analysis.select import Query, select
from profiles.exports.chrome_trace import to_trace
from profiles.exports.csv_file import to_csv, write_csv
from profiles.exports.fields import (
    FIELDS,
    GROUP_FIELDS,
    Field,
    group_columns,
    rows_by_time,
    values_of,
)
from profiles.exports.formats import prepare_export
from profiles.exports.json_file import to_json
from profiles.exports.report import report_html
from profiles.formats.columns import take_rows
from profiles.formats.load_and_run.graph_json import empty_graph
from profiles.formats.load_and_run.reader import parse
from profiles.presenters.operator_facts import operator_facts
from profiles.tests.imports import make_import
from profiles.tests.make import NODE, make_profile
from profiles.tests.make import to_json as profile_bytes
from profiles.tests.passes import data_of, scale_times
from testdata import DATA, bad_profile, good_profile

META = {"title": "net <&> \u202e", "source": "file", "warnings": []}
NAMES = ("resnet18", "bert_tiny", "train_mlp", "hostile_names", "no_op", "dynamic_shape")


@pytest.fixture(params=NAMES)
def data(request) -> ProfileData:
    return data_of(good_profile(request.param))


@pytest.fixture
def passes() -> ProfileData:
    content = good_profile("resnet18")
    return data_of(content, scale_times(content, 0.5), scale_times(content, 0.8))


def csv_of(data: ProfileData, rows=None) -> list[dict[str, str]]:
    rows = rows_by_time(data.columns) if rows is None else rows
    text = to_csv(FIELDS, values_of(data, rows), META).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def json_of(data: ProfileData, rows=None) -> dict:
    rows = rows_by_time(data.columns) if rows is None else rows
    return json.loads(to_json(data, rows, None, META))


def test_csv_has_the_values_of_every_operator(data):
    columns, lines = data.columns, csv_of(data)
    assert sorted(int(line["row"]) for line in lines) == list(range(len(columns)))
    assert [int(line["row"]) for line in lines][: columns.device.present.sum()] == list(
        select(columns, Query()).rows
    )
    for line in lines:
        row = int(line["row"])
        assert line["id"] == columns.ids[row]
        assert line["name"].removeprefix("'") == columns.names[row]
        end_s, computation = columns.device.end_s[row], columns.computation.values[row]
        has_time, has_computation = columns.device.present[row], columns.computation.present[row]
        # what remains of a subtraction is left out
        assert line["device_time_s"] == (repr(float(f"{end_s:.12g}")) if has_time else "")
        assert len(line["device_time_s"]) <= len("1.23456789012e-05")
        assert line["computation_flo"] == (repr(float(computation)) if has_computation else "")
        assert json.loads(line["in_shapes"] or "0") == json.loads(columns.in_shapes[row] or "0")


def test_json_has_the_exact_values_of_every_operator(data):
    document, columns = json_of(data), data.columns
    assert (document["format"], document["version"]) == ("megengine-web-profile", 1)
    assert document["totals"] == {
        "device_s": columns.device.total_s(),
        "host_s": columns.host.total_s(),
    }
    for operator in document["operators"]:
        row = operator["row"]
        assert operator["name"] == columns.names[row]
        for side in ("device", "host"):
            times = columns.times(side)
            expected = float(times.end_s[row]) if times.present[row] else None
            assert operator[side]["time_s"] == expected
            assert operator[side]["passes_s"] == [expected]
    by_type = {group["type"]: group["operators"] for group in document["groups"]}
    assert sum(by_type.values()) == len(columns)
    assert sum(g["device_s"] or 0 for g in document["groups"]) == pytest.approx(
        columns.device.total_s()
    )


def test_exports_of_several_passes_have_statistics(passes):
    document, lines = json_of(passes), csv_of(passes)
    first = document["operators"][0]
    row = first["row"]
    assert first["device"]["passes_s"] == passes.device.end_s[:, row].tolist()
    assert first["device"]["time_s"] == pytest.approx(sorted(first["device"]["passes_s"])[1])
    assert first["device"]["samples"] == 3
    assert first["device"]["cv"] == passes.device.cv[row]
    assert float(lines[0]["device_cv"]) == pytest.approx(passes.device.cv[row], rel=1e-11)
    assert document["passes"] == ["profile-1.json", "profile-2.json", "profile-3.json"]


def test_execution_steps_are_unique_and_below_the_number_of_executed_operators(data):
    steps = [o["step"] for o in json_of(data)["operators"] if o["step"] is not None]
    executed = int((data.graph.operators.step >= 0).sum())
    assert len(set(steps)) == len(steps)
    assert all(0 <= step < executed for step in steps)


def test_inspector_graph_and_exports_number_the_same_steps():
    """Here the order lists an operator that the file does not describe, and another one twice."""
    profile = make_profile({"1": 0.5, "2": 0.25})
    profile["graph_exec"]["comp_seq"] = ["9", "1", "1", "2"]
    data = data_of(profile_bytes(profile))
    assert {o["id"]: o["step"] for o in json_of(data)["operators"]} == {"1": 0, "2": 1}
    facts = operator_facts(data, 1)
    assert (facts["id"], facts["step"], facts["steps"]) == ("2", 2, 2)
    drawn = OperatorPanel(data, "device", np.arange(2, dtype=np.int32))
    assert [dict(drawn.operator(position))["step"] for position in (0, 1)] == ["1", "2"]


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "＝1"]
HOSTILE = [*FORMULAS, 'a"b,c', "two\nlines", "🙂 \u202e<b>"]


def test_names_that_are_formulas_are_escaped_in_csv():
    names = {str(n): name for n, name in enumerate(HOSTILE)}
    times = {str(n): 0.5 + n for n in range(len(HOSTILE))}
    data = data_of(profile_bytes(make_profile(times, names=names)))
    for line in csv_of(data):
        name = HOSTILE[int(line["row"])]
        assert line["name"] == (f"'{name}" if name in FORMULAS else name)
    assert {o["row"]: o["name"] for o in json_of(data)["operators"]} == dict(enumerate(HOSTILE))


def test_nan_and_infinity_are_null_in_json_and_text_in_csv():
    content = profile_bytes(
        make_profile(
            {"1": 1.0, "2": {NODE: {"start": 0.0, "end": "nan"}}, "3": 0.0},
            footprint={"3": {"computation": 5, "memory": 0}},
        )
    )
    data = data_of(content)
    rows = np.arange(3)
    lines, operators = csv_of(data, rows), json_of(data, rows)["operators"]
    assert [line["device_time_s"] for line in lines] == ["1.0", "nan", "0.0"]
    assert [o["device"]["time_s"] for o in operators] == [1.0, None, 0.0]
    assert [line["flops_per_s"] for line in lines] == ["", "", "inf"]
    assert operators[2]["flops_per_s"] is None


def test_negative_numbers_are_not_escaped_in_csv():
    lines = csv_of(data_of(bad_profile("time_negative")))
    assert any(float(line["device_time_s"]) < 0 for line in lines)


def test_a_filtered_export_of_a_large_trace_has_all_rows():
    operator = parse(profile_bytes(make_profile({"1": 0.5})))
    columns = take_rows(operator, np.zeros(200_001, np.intp))
    data = merge([("chrome_timeline.json", columns)], empty_graph())
    for query in ("type=Elemwise", "order=memory", "side=device&up=1"):
        assert len(prepare_export(QueryDict(query), data, META).rows) == 200_001


def test_csv_and_json_have_the_groups_of_the_query():
    data = data_of(good_profile("resnet18"))
    groups = select(data.columns, Query(aggregate="sum", by_type=True))
    lines = list(
        csv.DictReader(
            io.StringIO(
                to_csv(GROUP_FIELDS, group_columns(groups), META).decode("utf-8-sig"), newline=""
            )
        )
    )
    assert lines[0]["type"] == "ConvolutionForward"
    assert sum(int(line["operators"]) for line in lines) == sum(groups.counts)
    assert float(lines[0]["time_s"]) == pytest.approx(groups.self_s[0], rel=1e-11)
    rows = rows_by_time(data.columns)
    document = json.loads(to_json(data, rows, groups, META))
    assert [g["type"] for g in document["aggregate"]] == [line["type"] for line in lines]


def slices_of(trace: dict, pid: int) -> dict[int, list[dict]]:
    """Return the complete events of a process by thread, ordered by start, outer events first."""
    slices: dict[int, list[dict]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == pid:
            slices.setdefault(event["tid"], []).append(event)
    for events in slices.values():
        events.sort(key=lambda e: (e["ts"], -e["dur"]))
    return slices


def nanoseconds(event: dict) -> tuple[int, int]:
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def test_a_trace_has_every_interval_and_the_total_time(data):
    trace = json.loads(to_trace(data, META))
    events = [e for events in slices_of(trace, 1).values() for e in events if "args" in e]
    assert len(events) == len(data.graph.device)
    by_row: dict[int, float] = {}
    for event in events:
        by_row[event["args"]["row"]] = max(by_row.get(event["args"]["row"], 0.0), event["dur"])
    total_us = (data.columns.device.total_s() or 0.0) * 1e6
    assert sum(by_row.values()) == pytest.approx(total_us, abs=1e-3 * max(1, len(events)))
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"]
    assert names == ["Device", "Host"]
    assert all(isinstance(value, str) for value in trace["otherData"].values())


def assert_nested(events: list[dict]) -> None:
    open_ends: list[int] = []
    for event in events:
        start, end = nanoseconds(event)
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1]
        open_ends.append(end)


def test_slices_of_a_thread_are_nested(data):
    trace = json.loads(to_trace(data, META))
    for pid in (1, 2):
        for events in slices_of(trace, pid).values():
            assert_nested(events)


def test_operators_that_overlap_on_a_node_get_separate_threads():
    def at(start: float, end: float) -> dict:
        return {NODE: {"start": start, "kern": start, "end": end}}

    spans = {"1": at(0, 4), "2": at(1, 2), "3": at(3, 5), "4": at(4, 6), "5": at(2, 2)}
    trace = json.loads(to_trace(data_of(profile_bytes(make_profile(spans))), META))
    threads = slices_of(trace, 1)
    assert len(threads) == 2
    for events in threads.values():
        assert_nested(events)
        for one, other in pairwise(events):
            assert nanoseconds(one)[1] <= nanoseconds(other)[0]
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert names == [NODE, NODE]


def test_wait_and_computation_are_slices_inside_their_operator():
    spans = {"1": {NODE: {"start": 1.0, "kern": 1.25, "end": 2.0}}}
    trace = json.loads(to_trace(data_of(profile_bytes(make_profile(spans))), META))
    slices = [
        (e["name"], e["ts"], e["dur"])
        for [events] in [slices_of(trace, 1).values()]
        for e in events
    ]
    assert slices == [
        ("op1", 1e6, 1e6),
        ("wait", 1e6, 0.25e6),
        ("compute", 1.25e6, 0.75e6),
    ]


@pytest.mark.parametrize("bad", ["time_negative", "time_nan_literal", "time_1e400"])
def test_invalid_intervals_are_omitted_from_the_trace_and_counted(bad):
    data = data_of(bad_profile(bad))
    trace = json.loads(to_trace(data, META))
    omitted = int(trace["otherData"]["left_out_intervals"])
    events = [e for e in trace["traceEvents"] if e["ph"] == "X" and "args" in e]
    assert omitted > 0
    assert len(events) + omitted == len(data.graph.device) + len(data.graph.host)


class PageTags(HTMLParser):
    """Collects the addresses that a page would load, and checks that its tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in {"meta", "input", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "srcset", "data", "action", "background", "poster", "ping"):
                self.loads.append(value)
            assert not name.startswith("on"), (tag, name)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_report_loads_nothing_from_the_network(data):
    text = report_html(data, META)
    page = PageTags()
    page.feed(text)
    assert page.loads == []
    assert page.open == []
    assert not {"link", "img", "iframe", "object", "embed", "base", "a"} & set(page.tags)
    assert "url(" not in text
    assert "@import" not in text
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", text)


def test_the_policy_of_the_report_allows_only_its_script():
    text = report_html(data_of(good_profile("tiny")), META)
    policy = re.search(r'content="(default-src[^"]*)"', text)[1]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in policy or f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_the_report_shows_hostile_names_as_text():
    names = {"1": "<script>alert(1)</script>", "2": '"><img src=x onerror=alert(1)>', "3": "a\n🙂"}
    content = profile_bytes(make_profile({"1": 1.0, "2": 2.0, "3": 3.0}, names=names))
    text = report_html(data_of(content), META | {"warnings": ["<b>!</b>"], "command": "</style>"})
    page = PageTags()
    page.feed(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert "&lt;script&gt;alert(1)" in text
    assert "&lt;b&gt;!&lt;/b&gt;" in text


def test_the_report_names_lanes_as_the_page_does():
    text = report_html(data_of(profile_bytes(make_profile({"1": 1.0}))), META)
    assert "CompNode" not in text
    assert re.search(r"Device · .{0,40}cpu0:0", text)


def test_the_report_shows_unstable_and_omitted_passes():
    content = good_profile("resnet18")
    data = data_of(content, scale_times(content, 0.5), good_profile("tiny"))
    text = report_html(data, META)
    assert "profile-3.json" in text
    assert "left out" in text
    assert "unstable" in text


def test_the_command_selects_the_format_by_the_extension(tmp_path):
    passes = [str(DATA / "profiles" / f"{name}.json") for name in ("resnet18", "resnet18_fbs1")]
    for name, content in (
        ("a.trace.json", "traceEvents"), ("a.json", "operators"),
        ("a.html", "<html"), ("a.txt", "total device time"), ("a.csv", "device_time_s"),
    ):  # fmt: skip
        call_command("export", "--profile", *passes, "-o", str(tmp_path / name))
        assert content in (tmp_path / name).read_text(), name


def test_the_report_is_translated():
    with translation.override("zh-hans"):
        text = report_html(data_of(good_profile("tiny")), META)
    assert 'lang="zh-hans"' in text
    assert "算子" in text


@pytest.mark.django_db
def test_the_report_of_a_trace_has_phases_threads_waits_modules_and_memory(client, alice, testdata):
    folder = testdata / "traces" / "dynamic_train_mlp_scopes"
    names = ("profile.chrome_timeline.json", "profile.memory_flow.svg")
    upload = make_import(alice, *((folder / name).read_bytes() for name in names))
    text = client.get(f"/profiles/{upload.profile.pk}/export/report/").text
    page = PageTags()
    page.feed(text)
    assert (page.loads, page.open) == ([], [])
    for section in ("phases", "lanes", "waits", "scopes"):
        assert f'id="trace-{section}"' in text
    assert "GradManager.backward" in text
    assert "fc1" in text.split('id="trace-scopes"')[1].split("</table>")[0]
    assert "Bytes in use by tensors over time" in text
    assert "<tr>" in text.split('id="memory-flow-rows"')[1].split("</table>")[0]
    assert "Timeline of the recording" in text
    assert "of the compiled graph" not in text
    assert "last iteration" not in text
    assert "one sample" not in text


def test_the_report_of_a_compiled_graph_has_no_trace_sections():
    text = report_html(data_of(good_profile("tiny")), META)
    assert "Operators of the compiled graph" in text
    assert 'id="trace"' not in text
    assert 'id="memory-flow"' not in text


def test_only_csv_with_other_letters_begins_with_a_byte_order_mark():
    def written(name):
        file = io.BytesIO()
        write_csv(file, [Field("name", "text", "")], [[[name]]])
        return file.getvalue()

    assert written("conv") == b"name\r\nconv\r\n"
    assert written("卷积") == b"\xef\xbb\xbf" + "name\r\n卷积\r\n".encode()
