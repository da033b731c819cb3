"""Times that are no possible time: null with a reason in every answer, never an error or a 0."""

import json
import math

import numpy as np
import pytest

from agent.statistics.unpaired import Basis, judge_rows, judge_total
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.management.commands.profile_analyze import _columns
from profiles.models import Profile
from profiles.presenters.charts import pass_choices
from profiles.tests.hostile import NODE, damage
from profiles.tests.imports import make_import
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import get_page, make_result
from profiles.tests.passes import data_of
from testdata import good_profile

pytestmark = pytest.mark.django_db
ROOT = "/api/v1/profiles/"


def change_one(**values):
    """Return a change of the device times of the first operator."""

    def change(profile):
        entry = next(iter(profile["profiler"]["device"].values()))
        entry[next(iter(entry))].update(values)

    return change


INVALID = {
    "NaN": damage(change_one(end=math.nan)),
    "infinite": damage(change_one(end=math.inf)),
    "-infinite": damage(change_one(end=-math.inf)),
    "start NaN": damage(change_one(start=math.nan)),
    '"nan"': damage(change_one(end="nan")),
    "1e308": damage(change_one(end=1e308)),
    "1e999": damage(change_one(end="HERE")).replace(b'"HERE"', b"1e999"),
}


def device_of(client, profile):
    answer = client.get(f"{ROOT}{profile.pk}/statistics/")
    assert answer.status_code == 200
    device = answer.json()["sides"][0]
    assert device["side"] == "device"
    return device


@pytest.mark.parametrize("data", INVALID.values(), ids=INVALID)
def test_an_invalid_time_gives_no_total_and_is_told(client, alice, data):
    profile = make_result(data, owner=alice)
    device = device_of(client, profile)
    assert (device["total_s"], device["not_finite"], device["negative"]) == (None, 1, 0)
    assert "1 operator has no valid time" in device["notes"][0]
    assert device["notes"][0] in get_page(client, profile)
    (row,) = client.get(ROOT).json()["results"]
    assert row["device_total_s"] is None
    assert row["host_total_s"] > 0
    good = make_result(good_profile("two_inputs"), owner=alice)
    compared = client.get(f"{ROOT}compare/?p={good.pk}&p={profile.pk}&rows=all").json()
    assert any("1 operator has no valid time" in text for text in compared["warnings"])
    assert compared["profiles"][1]["total_s"] is None
    unknown = [row for row in compared["rows"] if row["others"][0]["time_s"] is None]
    assert len(unknown) == 1
    assert unknown[0]["others"][0]["difference_s"] is None
    assert unknown[0]["others"][0]["change"] is None
    page = client.get(f"/profiles/compare/?p={good.pk}&p={profile.pk}").text
    assert "no valid time" in page
    assert "No notable changes" not in page


@pytest.mark.parametrize("values", [{"end": math.nan}, {"start": 0.5, "end": 0.1}])
def test_one_invalid_pass_of_three_leaves_a_total_and_no_note(client, alice, values):
    good, odd = damage(), damage(change_one(**values))
    profile = make_result(good, odd, good, owner=alice)
    device = device_of(client, profile)
    assert device["total_s"] == device_of(client, make_result(good, owner=alice))["total_s"]
    assert (device["not_finite"], device["negative"], device["notes"]) == (0, 0, [])
    other = make_result(good, owner=alice)
    compared = client.get(f"{ROOT}compare/?p={profile.pk}&p={other.pk}").json()
    assert not any("valid time" in text or "ends before" in text for text in compared["warnings"])


def test_a_total_that_is_no_possible_time_is_null_everywhere(client, alice):
    data = to_json(make_profile({"1": 9e14, "2": 9e14}))
    profile = make_result(data, data, owner=alice)
    device = device_of(client, profile)
    assert (device["total_s"], device["passes_s"]) == (None, [None, None])
    assert device["stability"]["total_cv"] is None
    table = client.get(f"{ROOT}{profile.pk}/operators/").json()
    assert table["totals"]["device_s"] is None
    assert [row["self_s"] for row in table["operators"]] == [9e14, 9e14]
    exported = client.get(f"/profiles/{profile.pk}/export/json/").json()
    assert exported["totals"]["device_s"] is None
    assert [group["device_s"] for group in exported["groups"]] == [None]
    for address in (
        f"/profiles/{profile.pk}/export/report/",
        f"{ROOT}{profile.pk}/charts/timeline/",
    ):
        assert "1800000000000000" not in client.get(address).text


def test_a_pass_without_a_total_is_not_the_fastest():
    choices = pass_choices(data_of(INVALID["NaN"], damage()))
    assert [(choice["is_fastest"], choice["total"] == "–") for choice in choices] == [
        (False, True),
        (True, False),
    ]
    several = pass_choices(data_of(INVALID["NaN"], damage(), INVALID["NaN"]))
    assert [choice["is_median"] for choice in several] == [False] * 3
    unknown = pass_choices(data_of(INVALID["NaN"], INVALID["NaN"]))
    assert [choice["is_fastest"] for choice in unknown] == [False] * 2


def test_a_row_of_an_earlier_version_does_not_break_the_list(client, alice):
    profile = make_result(good_profile("tiny"), owner=alice)
    Profile.objects.filter(pk=profile.pk).update(device_total_s=math.inf)
    assert client.get(ROOT).json()["results"][0]["device_total_s"] is None


def test_an_end_before_its_start_is_told(client, alice):
    profile = make_result(damage(change_one(start=0.5, end=0.1)), owner=alice)
    device = device_of(client, profile)
    assert device["total_s"] < -0.39
    assert (device["not_finite"], device["negative"]) == (0, 1)
    assert "1 operator ends before it starts" in device["notes"][0]
    assert device["notes"][0] in get_page(client, profile)
    assert "小于 0" in get_page(client, profile, language="zh-hans")


def test_a_change_from_0_is_unknown_and_one_to_0_is_all_of_it():
    zero, more = np.array([[0.0, 2e-6, 0.0]]), np.array([[155e-6, 0.0, 0.0]])
    displayed = np.array([math.inf, 0.0, math.inf])
    worth = np.ones(3, dtype=bool)
    judged = judge_rows(zero, more, worth=worth, displayed=displayed, basis=Basis())
    assert np.isnan(judged.change).tolist() == [True, False, True]
    assert judged.change[1] == -1
    total = judge_total(zero[:, 0], more[:, 0], displayed=math.inf, basis=Basis())
    assert np.isnan(total.change).all()


def test_a_comparison_with_0_names_no_made_up_ratio(client, alice):
    zero = make_result(to_json(make_profile({"1": 0.0, "2": 0.5})), owner=alice)
    more = make_result(to_json(make_profile({"1": 0.25, "2": 0.5})), owner=alice)
    changes = []
    for first, second in ((zero, more), (more, zero)):
        answer = client.get(f"{ROOT}compare/?p={first.pk}&p={second.pk}&rows=all").json()
        (row,) = [row for row in answer["rows"] if row["others"][0]["difference_s"]]
        changes.append((row["others"][0]["change"], row["others"][0]["difference_s"]))
    assert changes == [(None, 0.25), (-1.0, -0.25)]


# -- one reader for the site and the command -------------------------------------------------------

OLD = {
    "graph_exec": {
        "var": [{"comp_node": NODE}] * 3,
        "operator": {
            "0": {"input": [0], "output": [1], "name": "Elemwise", "type": "imperative", "id": 0},
            "1": {"input": [1], "output": [2], "name": "Reduce", "type": "imperative", "id": 2**70},
        },
    },
    "profiler": {
        "device": {key: {NODE: {"start": 0.5, "kern": 0.5, "end": 0.75}} for key in ("0", "1")},
        "host": {key: {"host": {"start": 0.25, "kern": 0.25, "end": 0.5}} for key in ("0", "1")},
        "opr_footprint": {"0": {"out_shapes": [[1]], "in_shapes": [[1]], "params": {}}},
    },
}
#: as MegEngine 1.1 wrote them, ids beyond 64 bits, and as editors save them
ODD = {
    "1.1": json.dumps(OLD, indent=2).encode(),
    "mark": b"\xef\xbb\xbf" + good_profile("two_inputs"),
    "mark and NaN": b"\xef\xbb\xbf" + INVALID["NaN"],
    "ids": good_profile("two_inputs").replace(b'"id": "', b'"id": "9007199254740993'),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_site_and_command_read_the_same(tmp_path, data):
    path = tmp_path / "profile.json"
    path.write_bytes(data)
    command, (site, _graph) = _columns(str(path), dtypes=True), parse_whole(data)
    assert command.names == site.names == parse(data).names
    assert command.ids == site.ids
    assert command.id_numbers.tolist() == site.id_numbers.tolist()
    for side in ("device", "host"):
        np.testing.assert_array_equal(command.times(side).end_s, site.times(side).end_s)


def test_old_profiles_have_figures_and_a_page(client, alice):
    upload = make_import(alice, ODD["1.1"])
    assert upload.problem == ""
    assert device_of(client, upload.profile)["total_s"] == 0.5
    get_page(client, upload.profile)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf_16_is_named_as_the_cause(alice, encoding):
    for text in (good_profile("tiny").decode(), '{"traceEvents": []}', "[{}]"):
        upload = make_import(alice, text.encode(encoding))
        assert (upload.state, upload.problem) == ("failed", "utf16")
