"""Imported traces of training steps: their page, API, comparison and export."""

import json
import re

import pytest

from profiles.ingest.loading import run_data
from profiles.tests.imports import make_import
from profiles.tests.pages import get_page, whole_page
from profiles.tests.traces import (
    CUT_OFF,
    DEVICE,
    HOST,
    MLP,
    ON_THE_HOST,
    RESNET,
    WORKER,
    enclose,
    operator,
    span,
    to_trace,
)
from testdata import good_profile
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("module_data")]


@pytest.fixture
def alice(client, owner):
    client.force_login(owner)
    return owner


@pytest.fixture(scope="module")
def resnet(owner):
    return make_import(owner, RESNET.read_bytes()).profile


@pytest.fixture(scope="module")
def mlp(owner):
    return make_import(owner, MLP.read_bytes()).profile


@pytest.fixture(scope="module")
def tiny(owner):
    return make_import(owner, good_profile("tiny")).profile


def test_the_page_shows_phases_and_lanes_of_a_training_step(client, alice, resnet):
    page = get_page(client, resnet)
    assert "13,053 events" in page or "13053 events" in page
    for name in ("GradManager.backward", "Optimizer.step", "ConvolutionBackward", "xpux:0"):
        assert name in page
    assert "cpu0:0_alloc_mem" in page
    assert "26.5 ms" in page  # the backward pass, of 30.1 ms on the device
    assert "88.2 %" in page
    assert "One sample: times are of" not in page


def test_timelines_of_a_trace_use_its_one_clock(client, alice):
    """The device computes from 10 us on, and the worker sends from 40 us on."""
    number = {"__id__": 10, "__name__": "ADD"}
    events = [*span(WORKER, "ADD", 40, 45, **number), *span(DEVICE, "ADD", 10, 20, **number)]
    profile = make_import(alice, to_trace(*events)).profile
    data = f"/api/v1/profiles/{profile.pk}/charts/timeline/"
    chart = client.get(data).json()
    lanes = [lane["side"] for lane in chart["lanes"]]
    starts = {lanes[lane]: at for lane, at in zip(chart["lane"], chart["start"], strict=True)}
    assert starts == {"device": 0, "host": 30}
    assert (chart["span"], chart["notes"]) == (pytest.approx(35), [])
    report = client.get(f"/profiles/{profile.pk}/export/report/").text
    (device,) = re.findall(r'Device ·.*?<path class="bar" d="M([\d.]+) ', report)
    assert float(device) == 0
    assert re.findall(r'text-anchor="\w+">([^<]+ µs)<', report)[:2] == ["0 µs", "5 µs"]
    other = make_import(alice, to_trace(*events, comment="another file")).profile
    query = {"p": [profile.pk, other.pk], "side": "host"}
    compared = client.get("/api/v1/profiles/compare/timelines/", query).json()
    assert compared["start"] == [30, 30]


def test_waits_at_the_same_place_are_summed_in_one_row(client, alice):
    def wait(name, begin, end):
        tensor = {"id": 5, "name": name, "dtype": "Float32", "shape": "{1}"}
        return span(HOST, "TensorWaitProp", begin, end, **tensor)

    events = (*wait("a:0", 40, 50), *wait("b:0", 60, 85), *wait("a:0", 90, 110))
    trace = to_trace(*operator(10, "ADD", 15, 10, "x:0"), *events)
    profile = make_import(alice, trace).profile
    page = get_page(client, profile)
    table = page.partition('id="trace-waits"')[2].partition("</tbody>")[0]
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in table.split("<tr>")[2:]]
    assert [row[:4] for row in rows] == [
        ["a:0", "2", "30.0 µs", "20.0 µs"],
        ["b:0", "1", "25.0 µs", "25.0 µs"],
    ]
    assert "3 waits with a total of 55 µs" in page
    report = client.get(f"/profiles/{profile.pk}/export/report/").text
    table = report.partition('id="trace-waits"')[2].partition("</tbody>")[0]
    assert table.count("outside of modules") == 2
    assert ">30.0 µs</td>" in table


def test_the_page_is_translated_to_chinese(client, alice, mlp):
    page = get_page(client, mlp, language="zh-hans")
    for word in ("训练步", "Python 等待设备", "模块与函数", "占设备时间", "工作线程"):
        assert word in page
    for word in ("Training step", "Busy", "waits for", "Call path"):
        assert word not in page


def test_a_trace_without_training_is_called_trace(client, alice, mlp):
    trace = make_import(alice, to_trace(*operator(10, "ADD", 0, 5, "a:0"))).profile
    page = get_page(client, trace)
    assert 'id="trace-title">Trace<' in page
    assert "Training step" not in page
    assert 'id="trace-title">Training step<' in get_page(client, mlp)


def test_other_profiles_have_no_trace(client, alice, tiny):
    assert 'id="trace"' not in get_page(client, tiny)


def test_api_and_export_filter_operators_of_a_trace(client, alice, resnet):
    url = f"/api/v1/profiles/{resnet.pk}/operators/?type=Convolution&rows=3"
    body = caller(alice).get(url).json()
    assert [row["type"] for row in body["operators"]] == ["Convolution"] * 3
    assert body["operators"][0]["name"] == "conv1.Convolution"
    exported = client.get(f"/profiles/{resnet.pk}/export/csv/?type=Pooling").text
    assert "maxpool.Pooling" in exported


def test_the_api_has_all_figures_of_the_page(alice, resnet):
    body = caller(alice).get(f"/api/v1/profiles/{resnet.pk}/trace/").json()
    assert body["events"] == 13_053
    assert [lane["kind"] for lane in body["lanes"]] == ["host", "worker", "device"]
    device_s = sum(phase["device_s"] for phase in body["phases"])
    assert device_s == pytest.approx(resnet.device_total_s)


def test_the_api_returns_409_for_a_profile_without_a_trace(alice, tiny):
    expect_problem(caller(alice).get(f"/api/v1/profiles/{tiny.pk}/trace/"), 409, "trace_none")


def test_two_traces_are_compared_by_operator_names(client, alice):
    before = to_trace(*operator(10, "MatrixMul", 0, 5, "fc.linear.MatrixMul:0"))
    after = to_trace(*operator(77, "MatrixMul", 0, 15, "fc.linear.MatrixMul:0"))
    profiles = [make_import(alice, data).profile.pk for data in (before, after)]
    page = client.get("/profiles/compare/?p={}&p={}".format(*profiles)).text
    assert "fc.linear.MatrixMul" in page
    row = page.split('<tr data-row="0">')[1].split("</tr>")[0]
    numbers = re.findall(r'<td class="table__number[^"]*">([^<]+)</td>', row)
    assert numbers == ["5", "15", "+10", "+200"]
    assert '"amount": "+10 \\u00b5s"' in page


def test_defects_of_the_file_are_shown_above_its_figures(client, alice):
    events = enclose(span(HOST, "fc", 0, 50), *operator(10, "ADD", 5, 3, "a:0"))
    truncated = to_trace(*events, *span(HOST, "late", 60, 70)[:1]).split(b',{"ph":"M"')[0]
    page = get_page(client, make_import(alice, truncated).profile)
    assert "later events are missing" in page
    assert "1 event is incomplete" in page


def test_a_trace_without_calls_has_its_own_reason(client, alice):
    empty = to_trace(*span(WORKER, "StartProfile", 0, 1), *span(WORKER, "StopProfile", 5, 6))
    upload = make_import(alice, empty, name="nothing.json")
    page = client.get(f"/profiles/opened/{upload.pk}/").text
    assert "Nothing was recorded while the Profiler of" in page
    assert "but not a profile" not in page


def test_page_and_report_explain_the_time_of_python(client, alice):
    """MegEngine 1.13 records no length of calls outside of modules, so Python seems idle there."""
    profile = make_import(alice, to_trace(*operator(10, "ADD", 5, 3, "a:0"))).profile
    for address in ("", "export/report/"):
        text = whole_page(client, f"/profiles/{profile.pk}/{address}")
        for table, sentence in (
            ("phases", "the Python thread in modules and functions of the phase"),
            ("lanes", "Elsewhere the thread appears idle"),
        ):
            assert sentence in text.partition(f'id="trace-{table}"')[0]


def test_names_are_escaped(client, alice):
    name = "<script>alert(1)</script>"
    step = enclose(span(HOST, name, 0, 50), *operator(10, name, 5, 3, f"{name}:0"))
    page = get_page(client, make_import(alice, to_trace(*step)).profile)
    assert name not in page
    assert json.dumps(name)[1:-1].replace("<", "&lt;").replace(">", "&gt;") in page


FIGURES = ("flo", "flops", "mem", "bw")


def test_columns_presets_and_charts_without_figures_are_left_out(client, alice, mlp):
    text = whole_page(client, f"/profiles/{mlp.pk}/")
    for key in FIGURES:
        assert f'id="sort-device-{key}"' not in text
        assert f'name="col" value="{key}"' not in text
    for absent in ("preset-memory", "preset-flops", 'id="chart-roofline"', "N/A FLOP"):
        assert absent not in text
    assert 'value="bandwidth"' not in text
    assert 'value="kern"' not in text
    assert "The numbers of operations and bytes of the operators are unknown" in text
    for present in ("preset-types", 'id="chart-memory"', 'id="sort-device-time"'):
        assert present in text
    memory = client.get(f"/api/v1/profiles/{mlp.pk}/charts/memory/").json()
    assert memory["sentence"].startswith("Peak: ")
    # all available columns are the default table, whose address names no columns
    query = "&".join(f"col={key}" for key in ("cum", "in", "out"))
    assert 'id="tables" data-address=""' in client.get(f"/profiles/{mlp.pk}/?{query}").text
    header = client.get(f"/profiles/{mlp.pk}/export/csv/").text.splitlines()[0]
    assert "flo" in header


def test_a_profile_with_figures_has_all_columns_and_charts(client, alice, tiny):
    text = whole_page(client, f"/profiles/{tiny.pk}/")
    for key in FIGURES:
        assert f'id="sort-device-{key}"' in text
    for present in ("preset-memory", "preset-flops", 'id="chart-roofline"', 'value="kern"'):
        assert present in text
    assert 'id="no-figures"' not in text


class TestWithoutOperators:
    @pytest.fixture
    def profile(self, alice):
        return make_import(alice, to_trace(*ON_THE_HOST)).profile

    def test_the_page_has_modules_and_waits_and_explains_what_is_missing(self, client, profile):
        page = get_page(client, profile)
        assert "No operator was dispatched to a device" in page
        assert "Python may have waited longer" in page
        assert 'id="operators"' not in page
        # a run has only one trace, so the advice does not ask for another
        assert "together with a profile of the same run" in page
        scopes = page.partition('id="trace-scopes"')[2].partition("</tbody>")[0]
        row = re.findall(r"<td[^>]*>([^<]*)</td>", scopes)
        assert row == ["1", "0", "–", "–", "7.00 µs", "7.00 µs"]
        assert "1 wait with a total of 3 µs" in page

    def test_timeline_and_api_have_scopes(self, client, alice, profile):
        address = f"/profiles/{profile.pk}/"
        assert client.get(f"{address}trace/").status_code == 200
        body = caller(alice).get(f"/api/v1/profiles/{profile.pk}/trace/").json()
        assert body["scopes"][0]["path"] == ["fc"]
        assert body["operators"] == 0

    def test_the_operators_of_a_profile_beside_it_do_not_change(self, alice):
        single = make_import(alice, good_profile()).profile
        combined = make_import(alice, good_profile(), to_trace(*ON_THE_HOST)).profile
        assert combined.operators == single.operators
        assert combined.device_total_s == single.device_total_s
        assert "trace" in run_data(combined).summaries

    def test_a_second_trace_is_left_out_regardless_of_operators(self, client, alice):
        traces = [to_trace(*ON_THE_HOST), to_trace(*operator(10, "ADD", 0, 5, "a:0"))]
        for number, contents in enumerate((traces, reversed(traces))):
            profile = make_import(alice, *contents).profile
            assert [entry.code for entry in run_data(profile).left_out] == ["second_of_kind"]
            assert profile.operators == number
            assert "a file of the same kind, is displayed instead" in get_page(client, profile)

    def test_a_truncated_trace_is_imported_alone_and_beside_a_profile(self, client, alice):
        page = get_page(client, make_import(alice, CUT_OFF).profile)
        assert "The file is truncated" in page
        combined = make_import(alice, CUT_OFF, good_profile()).profile
        assert combined.operators
        assert "trace" in run_data(combined).summaries
