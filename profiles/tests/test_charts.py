"""The JSON data of the charts on result pages."""

import gzip
import json

import pytest

from profiles.analysis.roofline import Roofs
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from profiles.presenters.charts import pass_choices, roofline_data
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import make_result
from profiles.tests.passes import another_pass, scale_times
from tasks.tests.make import make_user
from testdata import bad_profile, good_profile
from webprofile.tests.documented_api import caller

KINDS = ("operators", "timeline", "types", "scopes", "roofline", "memory", "cumulative")


@pytest.fixture
def make_getter(db, storage):
    """Return a function that makes a result and returns a function that gets its charts."""

    def make(*profiles: bytes):
        owner = make_user("alice")
        profile = make_result(*profiles, owner=owner)
        client = caller(owner)

        def get(kind: str, query: str = "", **headers: str):
            address = f"/api/v1/profiles/{profile.pk}/charts/{kind}/{query}"
            return client.get(address, headers=headers)

        return get

    return make


def test_all_charts_use_the_same_rows(make_getter):
    get = make_getter(good_profile("resnet18"))
    charts = {kind: get(kind).json() for kind in KINDS}
    operators = len(charts["operators"]["names"])
    assert operators == 173
    assert charts["cumulative"]["sentence"] == "17 of 173 operators account for 80 % of the time."
    assert "ConvolutionForward\u2069: 74 %" in charts["types"]["sentence"]
    for kind in ("timeline", "roofline", "memory", "cumulative"):
        assert set(charts[kind]["rows"]) <= set(range(operators))
    slowest = charts["cumulative"]["rows"][0]
    assert charts["operators"]["device"]["us"][slowest] == charts["cumulative"]["us"][0]
    assert slowest in charts["timeline"]["rows"]


def test_a_window_of_the_timeline_has_only_overlapping_bars(make_getter):
    get = make_getter(good_profile("resnet18"))
    whole = get("timeline").json()
    part = get("timeline", f"?from=0&to={whole['span'] / 100}").json()
    assert 0 < len(part["start"]) < len(whole["start"])
    assert max(part["start"]) <= whole["span"] / 100


def test_the_timeline_of_several_passes_names_its_pass(make_getter):
    first = good_profile("tiny")
    chart = make_getter(first, another_pass(first, 2))("timeline").json()
    assert (chart["pass_number"], chart["passes"]) == (1, 2)
    assert chart["sentence"].startswith("Profiled pass 1, one iteration: ")
    assert "medians over 2 passes" in chart["sentence"]


def test_the_timeline_draws_the_chosen_pass(make_getter):
    first = good_profile("tiny")
    passes = [first, another_pass(first, 2), another_pass(first, 3)]
    get = make_getter(*passes)
    data = profile_data(Profile.objects.get())
    drawn = [get("timeline", f"?pass={number}").json() for number in (1, 2, 3)]
    assert [chart["pass_number"] for chart in drawn] == [1, 2, 3]
    assert get("timeline").json() == drawn[0]
    for place, chart in enumerate(drawn):
        is_device = [lane["side"] == "device" for lane in chart["lanes"]]
        times_us = {
            row: end - start
            for row, lane, start, end in zip(
                chart["rows"], chart["lane"], chart["start"], chart["end"], strict=True
            )
            if is_device[lane]
        }
        # rows are those of the table, whatever the order of the file
        expected = {row: data.device.end_s[place, row] * 1e6 for row in times_us}
        assert times_us == pytest.approx(expected, abs=2e-3)
    assert len({json.dumps(chart["end"]) for chart in drawn}) == 3
    unknown = get("timeline", "?pass=4")
    assert (unknown.status_code, unknown.json()["code"]) == (422, "pass_unknown")


def test_the_choice_of_a_pass_names_the_fastest_and_the_median_one(make_getter):
    first = good_profile("tiny")
    make_getter(scale_times(first, 3), first, scale_times(first, 2))
    choices = pass_choices(profile_data(Profile.objects.get()))
    assert [choice["number"] for choice in choices] == [1, 2, 3]
    assert [choice["is_fastest"] for choice in choices] == [False, True, False]
    assert [choice["is_median"] for choice in choices] == [False, False, True]


def test_the_timeline_of_a_single_pass_does_not_name_it(make_getter):
    chart = make_getter(good_profile("tiny"))("timeline").json()
    assert (chart["pass_number"], chart["passes"]) == (1, 1)
    assert chart["sentence"].startswith("Span: ")


def test_an_unchanged_chart_returns_304(make_getter):
    get = make_getter(good_profile("resnet18"))
    first = get("timeline", **{"accept-encoding": "gzip"})
    assert first["Cache-Control"] == "private, no-cache"
    assert json.loads(gzip.decompress(first.content))["span"] > 0
    condition = {"if-none-match": first["ETag"]}
    second = get("timeline", **condition)
    assert (second.status_code, second.content) == (304, b"")
    assert get("timeline", "?from=0&to=9", **condition).status_code == 200
    chinese = get("timeline", **condition, **{"accept-language": "zh-hans"})
    assert chinese.status_code == 200
    assert "最早开始" in chinese.json()["sentence"]
    Profile.objects.get().save()  # as a rebuild does
    assert get("timeline", **condition).status_code == 200


@pytest.mark.parametrize(
    "name",
    ["time_negative", "time_nan_literal", "time_1e400", "operator_name_html",
     "no_graph_mem_chunk", "no_graph_comp_seq", "shapes_null", "layouts"],
)  # fmt: skip
def test_damaged_profiles_have_all_charts_as_strict_json(make_getter, name):
    get = make_getter(bad_profile(name))

    for kind in KINDS:
        response = get(kind)
        assert response.status_code == 200
        json.loads(response.content, parse_constant=pytest.fail)


def test_invalid_times_are_counted_in_a_note(make_getter):
    node = 'CompNode("gpu0:0" from "gpu0:0")'
    times = {"start": 0.002, "kern": 0.002, "end": 0.001}
    get = make_getter(to_json(make_profile({"1": 0.5, "2": {node: times}})))
    assert "1 interval is left out: ends before it starts." in get("timeline").json()["notes"]
    assert any("its time is negative" in note for note in get("types").json()["notes"])
    assert get("operators").json()["device"]["us"] == [500000.0, -1000.0]


def test_charts_use_host_times_without_device_times(make_getter):
    get = make_getter(to_json(make_profile({"1": {}}, host={"1": 0.5})))
    assert get("operators").json()["side"] == "host"
    assert get("cumulative").json()["notes"] == [
        "No operator was timed on the device. These are host times."
    ]


def test_the_timeline_of_several_passes_without_device_times_names_host_times(make_getter):
    contents = [to_json(make_profile({"1": {}}, host={"1": time_s})) for time_s in (0.5, 0.25)]
    get = make_getter(*contents)
    sentence = get("timeline").json()["sentence"]
    assert sentence.startswith("Profiled pass 1, one iteration: operators take 500 ms on the host.")
    chinese = get("timeline", "?pass=2", **{"accept-language": "zh-hans"}).json()["sentence"]
    assert "主机上算子耗时 250 ms" in chinese


def test_ids_beyond_the_exact_numbers_of_browsers_are_sent_as_in_the_file(make_getter):
    ids = ("9007199254740993", "9007199254740992", str(2**70))
    get = make_getter(to_json(make_profile(dict.fromkeys(ids, 0.5))))
    assert get("operators").json()["ids"] == list(ids)


def test_measured_ceilings_replace_the_best_operators(make_getter):
    make_getter(good_profile("resnet18"))
    data = profile_data(Profile.objects.get())
    best_seen = roofline_data(data, None)
    assert not best_seen["measured"]
    assert any("not limits of the hardware" in note for note in best_seen["notes"])
    roofs = Roofs({"Float32": 1e11, "Float16": 4e11}, copy_bytes_s=2e10, source="GEMM of 1024³.")
    measured = roofline_data(data, roofs)
    # no operator computes in float16
    assert [roof["name"] for roof in measured["roofs"]] == ["Float32"]
    assert measured["bytes_s"] == 2e10
    assert "Roofs: GEMM of 1024³." in measured["notes"]
    assert "Operators above the copy line read from caches" in measured["notes"][-1]
    fast = Roofs({"Float32": 1e11}, copy_bytes_s=1e15, source="")
    assert not any("caches" in note for note in roofline_data(data, fast)["notes"])


def test_a_quantised_profile_has_the_ceiling_of_its_dtype(make_getter):
    make_getter(good_profile("quantized"))
    peaks = {"Float32": 1e11, "Float16": 2e11, "QuantizedS8": 4e11}
    roofs = Roofs(peaks, copy_bytes_s=2e10, source="")
    ceilings = roofline_data(profile_data(Profile.objects.get()), roofs)["roofs"]
    assert [roof["name"] for roof in ceilings] == ["QuantizedS8"]


def test_an_unknown_device_selects_the_device_with_most_memory(make_getter):
    get = make_getter(good_profile("tiny"))
    assert get("memory", "?device=%0a%F0%9F%98%80").json()["device"] == "cpu0"
