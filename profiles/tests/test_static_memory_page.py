"""Memory plans on pages and in the API, from imports and from artifacts of a task."""

import io
import json

import pytest
from django.core.management import call_command

from profiles.ingest.loading import run_data
from profiles.models import AttemptMeasurement, Profile
from profiles.tests import hostile
from profiles.tests.imports import make_import
from profiles.tests.make import CLEAN, CLEAN_ONLY, measurement_json, process_attempt
from profiles.tests.pages import LOG, ended_attempt, get_page, store_models
from profiles.tests.response_checks import response_faults
from profiles.tests.static_plans import (
    graph_of,
    make_chunk,
    make_plan,
    packed_plan,
    plan_of,
    to_bytes,
    zip_json_files,
)
from testdata import good_profile
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

ZIP = "staticmeminfo.zip"


def section(page: str, begin: str, end: str) -> str:
    return page.split(begin, 1)[1].split(end, 1)[0]


def test_the_page_of_a_plan_alone_shows_peak_reuse_and_tensors(client, alice):
    upload = make_import(alice, plan_of("resnet18_opt"), graph_of("resnet18_opt"))
    assert [file.kind for file in upload.files.all()] == ["static_memory", "graph"]
    page = get_page(client, upload.profile)
    assert 'id="operator-table"' not in page
    figures = {
        "static-memory-peak": "1.9 MiB",
        "static-memory-most": "1.4 MiB",
        "static-memory-lost": "26.1 %",
        "static-memory-reuse": "6.2×",
        "static-memory-weights": "3.3 MiB",
    }
    for name, text in figures.items():
        assert section(page, f'id="{name}">', "<") == text
    at_peak = section(page, 'id="static-memory-at-peak">', "</table>")
    assert at_peak.count("<tr>") == 3
    for text in ("RELU", "784.0 KiB", "56.0 %", "44.0 %"):
        assert text in at_peak
    assert "1×16×112×112" in section(page, 'id="static-memory-chunks">', "</table>")


def test_the_section_is_translated_to_chinese(client, alice):
    upload = make_import(alice, plan_of("bert_tiny"), graph_of("bert_tiny"))
    page = get_page(client, upload.profile, "?chunk=layer", "zh-hans")
    for word in ("静态内存", "碎片", "复用", "峰值", "最后使用"):
        assert word in page
    for word in ("Static memory", "Fragmentation", "Last used by", "tensors found"):
        assert word not in page


def test_tensors_are_found_by_tensor_and_operator_names(client, alice):
    upload = make_import(alice, plan_of("bert_tiny"), graph_of("bert_tiny"))
    page = get_page(client, upload.profile, "?chunk=SoftMax&side=host")
    rows = section(page, 'id="static-memory-chunks">', "</table>")
    assert "layers.0.attention.Softmax" in rows
    assert "layers.0.ln1" not in rows
    assert 'value="SoftMax"' in page
    assert '<input type="hidden" name="side" value="host">' in page
    page = get_page(client, upload.profile, "?chunk=no+such+tensor")
    assert "0 tensors found." in page
    assert 'id="static-memory-chunks"' not in page


def test_the_search_of_a_fragment_leads_to_the_whole_page(client, alice):
    upload = make_import(alice, plan_of("tiny"), graph_of("tiny"))
    part = client.get(f"/profiles/{upload.profile.pk}/memory/?part=1&op=3").text
    form = section(part, '<form class="static-memory__search"', "</form>")
    assert 'name="op" value="3"' in form
    assert 'name="part"' not in form


def test_each_moment_of_the_peak_can_be_selected(client, alice):
    upload = make_import(alice, plan_of("bert_tiny"), graph_of("bert_tiny"))
    tables = [
        section(get_page(client, upload.profile, f"?peak={number}"), 'at-peak">', "</table>")
        for number in ("1", "2", "3", "4", "no")
    ]
    assert len(set(tables[:3])) == 3
    assert tables[3] == tables[4] == tables[0]


def test_a_profile_of_the_run_adds_links_and_types(client, alice):
    files = [good_profile("resnet18_opt"), plan_of("resnet18_opt"), graph_of("resnet18_opt")]
    profile = make_import(alice, *files).profile
    page = get_page(client, profile)
    assert 'id="operator-table"' in page
    rows = section(page, 'id="static-memory-chunks">', "</table>")
    assert rows.count("data-row=") > 100
    assert "Float32" in rows
    # the linked row is the operator whose name is shown
    columns = run_data(profile).columns
    place = section(section(page, 'id="static-memory-at-peak">', "</table>"), 'data-row="', '"')
    assert columns.types[int(place)] == "ConvBiasForward"


def test_the_chart_has_every_chunk(client, alice):
    profile = make_import(alice, plan_of("two_inputs"), graph_of("two_inputs")).profile
    client = caller(alice)
    chart = client.get(f"/api/v1/profiles/{profile.pk}/charts/static-memory/").json()
    assert (chart["peak"], chart["steps"], len(chart["id"])) == (147_968, 23, 16)
    ends = [low + size for low, size in zip(chart["low"], chart["size"], strict=True)]
    assert max(ends) == 147_968
    assert sum(chart["at_peak"]) == 2
    assert "147" not in chart["sentence"]


def test_the_api_has_all_figures(alice):
    profile = make_import(alice, plan_of("two_inputs"), graph_of("two_inputs")).profile
    body = caller(alice).get(f"/api/v1/profiles/{profile.pk}/static-memory/").json()
    assert (body["peak_bytes"], body["weight_bytes"]) == (147_968, 35_200)
    assert len(body["chunks"]) == 24
    assert body["chunks"][1]["variable"] == "conv.Convolution"
    assert body["operators"][4]["type"] == "ConvolutionForward"


@pytest.mark.parametrize("part", ["static-memory/", "charts/static-memory/"])
def test_the_api_returns_409_for_a_profile_without_a_plan(alice, part):
    profile = make_import(alice, good_profile("tiny")).profile
    response = caller(alice).get(f"/api/v1/profiles/{profile.pk}/{part}")
    expect_problem(response, 409, "static_memory_none")


def test_defects_of_a_plan_are_shown_above_its_figures(client, alice):
    plan = make_plan(3, make_chunk(0, (0, 2), (0, 64)), make_chunk(1, (1, 3), (32, 96)))
    page = get_page(client, make_import(alice, to_bytes(plan)).profile)
    notes = section(page, 'id="static-memory-notes">', "</div>")
    assert "At least 1 pair of chunks uses the same bytes at the same time" in notes
    assert "graph.json" in notes
    dynamic = make_import(alice, plan_of("dynamic_shape"), graph_of("dynamic_shape")).profile
    assert "sizes of 4 tensors are unknown" in get_page(client, dynamic)


def test_a_graph_alone_or_a_damaged_plan_shows_a_reason(client, alice):
    for data, code in (
        (graph_of("tiny"), "graph_alone"),
        (plan_of("tiny")[:300], "not_json"),
        (to_bytes(make_plan(1, make_chunk(0, (0, 9), (0, 64)))), "static_memory_operator"),
    ):
        upload = make_import(alice, data)
        assert (upload.state, upload.problem) == ("failed", code)
        for language in ("en", "zh-hans"):
            headers = {"Accept-Language": language}
            page = client.get(f"/profiles/opened/{upload.pk}/", headers=headers).text
            assert "p0.json" in page
    upload = make_import(alice, plan_of("tiny"), graph_of("lstm"))
    assert "It does not belong to the memory plan." in get_page(client, upload.profile)


def build_result(owner, files, **task_fields) -> Profile:
    attempt = ended_attempt({"log.txt": LOG, **files}, owner, **task_fields)
    assert process_attempt(attempt).status == "succeeded"
    return Profile.objects.get(attempt=attempt)


def test_the_result_page_shows_the_plan_beside_the_operators(client, alice):
    files = {"profile.json": good_profile("resnet18_opt"), ZIP: packed_plan("resnet18_opt")}
    profile = build_result(alice, files)
    assert profile.operators == 76
    page = get_page(client, profile)
    assert section(page, 'id="static-memory-peak">', "<") == "1.9 MiB"
    assert 'id="left-out"' not in page
    assert section(page, 'id="static-memory-chunks">', "</table>").count("data-row=") > 100


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (packed_plan("tiny")[:-300], "File is not a zip file"),
        (zip_json_files(graph=b"{}"), "StaticMemoryInfo.json is not in it"),
        (zip_json_files(StaticMemoryInfo=b"{"), "not JSON"),
        (packed_plan("tiny").replace(b"StaticMemoryInfo", b"StaticMemoryInf\xff"), ""),
        (b"", "File is not a zip file"),
    ],
)
def test_a_damaged_plan_is_left_out_of_the_result(client, alice, data, cause):
    profile = build_result(alice, {"profile.json": good_profile("tiny"), ZIP: data})
    page = get_page(client, profile)
    assert 'id="static-memory"' not in page
    left_out = section(page, 'id="left-out">', "</section>")
    assert ZIP in left_out
    assert cause in left_out


def test_a_zip_bomb_is_left_out_of_the_result(client, alice, settings):
    settings.PROFILE_SIZE_LIMIT_BYTES = 1 << 20
    bomb = zip_json_files(StaticMemoryInfo=b" " * (8 << 20))
    assert len(bomb) < 10_000
    page = get_page(client, build_result(alice, {"profile.json": good_profile("tiny"), ZIP: bomb}))
    assert ZIP in section(page, 'id="left-out">', "</section>")


@pytest.mark.parametrize(
    ("files", "reason"),
    [({"profile.json": b"{}"}, "profile_unreadable"), ({}, "profile_missing")],
)
def test_a_plan_without_a_readable_profile_is_no_result(alice, files, reason):
    attempt = ended_attempt({"log.txt": LOG, ZIP: packed_plan("tiny"), **files}, alice)
    task = process_attempt(attempt)
    assert (task.status, task.reason) == ("failed", reason)


def test_the_plan_is_shown_beside_a_measurement_without_profiled_passes(client, alice):
    files = {"measurement.json": measurement_json(CLEAN, plan=CLEAN_ONLY), ZIP: packed_plan("lstm")}
    profile = build_result(alice, files, plan=CLEAN_ONLY)
    assert (profile.operators, AttemptMeasurement.objects.count()) == (0, 1)
    store_models(profile.attempt.task)
    page = get_page(client, profile)
    assert section(page, 'id="static-memory-peak">', "<") == "333.0 KiB"
    assert 'id="measurement"' in page
    assert 'id="no-profile"' in page


def test_reprofile_adds_the_plan_of_an_older_attempt(client, alice, monkeypatch):
    files = {"profile.json": good_profile("tiny"), ZIP: packed_plan("tiny")}
    with monkeypatch.context() as before:
        before.setattr("profiles.ingest.results._BESIDE", ())
        profile = build_result(alice, files)
    assert 'id="static-memory"' not in get_page(client, profile)
    out = io.StringIO()
    call_command("reprofile", "--all", stdout=out)
    assert "0 failed" in out.getvalue()
    assert 'id="static-memory"' in get_page(client, profile)


def test_hostile_names_are_escaped(client, alice):
    plan, graph = json.loads(plan_of("two_inputs")), json.loads(graph_of("two_inputs"))
    for step, key in enumerate(graph["comp_seq"]):
        name = hostile.hostile_name(step)
        plan["opr"][str(step)]["name"] = graph["operator"][key]["name"] = name
        graph["operator"][key]["type"] = hostile.hostile_name(step + 1)
    for place, variable in enumerate(graph["var"].values()):
        variable["name"] = hostile.hostile_name(place)
    files = [to_bytes(plan), to_bytes(graph)]
    profile = make_import(alice, good_profile("two_inputs"), *files).profile
    for query in ("", "?chunk=a&peak=1", "?chunk=%3Cscript%3E", "?peak=%00&chunk=%00"):
        get_page(client, profile, query)
    chart = client.get(f"/api/v1/profiles/{profile.pk}/charts/static-memory/")
    assert response_faults(chart) == []
