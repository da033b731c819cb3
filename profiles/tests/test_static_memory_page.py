"""Memory plans on pages and in the API: imported, and as artifacts of a task."""

import io
import json

import pytest
from django.core.management import call_command

from profiles.ingest.loading import run_data
from profiles.models import AttemptMeasurement, Profile
from profiles.services import build_attempt_profile
from profiles.tests import hostile
from profiles.tests.imports import make_import
from profiles.tests.make import CLEAN, CLEAN_ONLY, measurement_json
from profiles.tests.pages import LOG, ended_attempt
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
from webprofile.tests.documented_api import caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

ZIP = "staticmeminfo.zip"


def page_of(client, profile, query="", language="en"):
    address = f"/profiles/{profile.pk}/{query}"
    response = client.get(address, headers={"Accept-Language": language}, follow=True)
    assert response.status_code == 200
    assert response_faults(response) == []
    return response.content.decode()


def part(page: str, begin: str, end: str) -> str:
    return page.split(begin, 1)[1].split(end, 1)[0]


def test_a_plan_opens_alone_and_the_page_tells_peak_reuse_and_tensors(client, alice):
    upload = make_import(alice, plan_of("resnet18_opt"), graph_of("resnet18_opt"))
    assert [file.kind for file in upload.files.all()] == ["static_memory", "graph"]
    page = page_of(client, upload.profile)
    assert 'id="part-operators"' not in page
    figures = {
        "static-memory-peak": "1.9 MiB",
        "static-memory-most": "1.4 MiB",
        "static-memory-lost": "26.1 %",
        "static-memory-reuse": "6.2×",
        "static-memory-weights": "3.3 MiB",
    }
    for name, text in figures.items():
        assert part(page, f'id="{name}">', "<") == text
    at_peak = part(page, 'id="static-memory-at-peak">', "</table>")
    assert at_peak.count("<tr>") == 3
    for text in ("RELU", "784.0 KiB", "56.0 %", "44.0 %"):
        assert text in at_peak
    assert "1×16×112×112" in part(page, 'id="static-memory-chunks">', "</table>")


def test_in_chinese_its_words_are_chinese(client, alice):
    upload = make_import(alice, plan_of("bert_tiny"), graph_of("bert_tiny"))
    page = page_of(client, upload.profile, "?chunk=layer", "zh-hans")
    for word in ("静态内存", "碎片", "复用", "峰值", "最后使用"):
        assert word in page
    for word in ("Static memory", "Fragmentation", "Last used by", "tensors found"):
        assert word not in page


def test_tensors_are_found_by_their_names_and_by_those_of_operators(client, alice):
    upload = make_import(alice, plan_of("bert_tiny"), graph_of("bert_tiny"))
    page = page_of(client, upload.profile, "?chunk=SoftMax&side=host")
    rows = part(page, 'id="static-memory-chunks">', "</table>")
    assert "layers.0.attention.Softmax" in rows
    assert "layers.0.ln1" not in rows
    assert 'value="SoftMax"' in page
    assert '<input type="hidden" name="side" value="host">' in page
    none = page_of(client, upload.profile, "?chunk=no+such+tensor")
    assert "0 tensors found." in none
    assert 'id="static-memory-chunks"' not in none


def test_each_moment_of_the_most_bytes_can_be_asked_for(client, alice):
    upload = make_import(alice, plan_of("bert_tiny"), graph_of("bert_tiny"))
    tables = [
        part(page_of(client, upload.profile, f"?peak={number}"), 'at-peak">', "</table>")
        for number in ("1", "2", "3", "4", "no")
    ]
    assert len(set(tables[:3])) == 3
    assert tables[3] == tables[4] == tables[0]


def test_with_a_profile_of_the_run_operators_are_linked_and_types_known(client, alice):
    files = [good_profile("resnet18_opt"), plan_of("resnet18_opt"), graph_of("resnet18_opt")]
    profile = make_import(alice, *files).profile
    page = page_of(client, profile)
    assert 'id="part-operators"' in page
    rows = part(page, 'id="static-memory-chunks">', "</table>")
    assert rows.count("data-row=") > 100
    assert "Float32" in rows
    # the linked row is the operator whose name is shown
    columns = run_data(profile).columns
    place = part(part(page, 'id="static-memory-at-peak">', "</table>"), 'data-row="', '"')
    assert columns.types[int(place)] == "ConvBiasForward"


def test_the_picture_has_every_chunk_that_counts(client, alice):
    profile = make_import(alice, plan_of("two_inputs"), graph_of("two_inputs")).profile
    client = caller(alice)
    picture = client.get(f"/api/v1/profiles/{profile.pk}/pictures/static-memory/").json()
    assert (picture["peak"], picture["steps"], len(picture["id"])) == (147_968, 23, 16)
    assert (
        max(low + size for low, size in zip(picture["low"], picture["size"], strict=True))
        == 147_968
    )
    assert sum(picture["at_peak"]) == 2
    assert "147" not in picture["sentence"]
    other = make_import(alice, good_profile("tiny")).profile
    refused = client.get(f"/api/v1/profiles/{other.pk}/pictures/static-memory/")
    assert (refused.status_code, refused.json()["code"]) == (409, "static_memory_none")


def test_the_api_gives_all_that_is_kept_and_says_where_there_is_none(alice):
    profile = make_import(alice, plan_of("two_inputs"), graph_of("two_inputs")).profile
    body = caller(alice).get(f"/api/v1/profiles/{profile.pk}/static-memory/").json()
    assert (body["peak_bytes"], body["weight_bytes"], len(body["chunks"])) == (
        147_968,
        35_200,
        24,
    )
    assert body["chunks"][1]["variable"] == "conv.Convolution"
    assert body["operators"][4]["type"] == "ConvolutionForward"
    other = make_import(alice, good_profile("tiny")).profile
    refused = caller(alice).get(f"/api/v1/profiles/{other.pk}/static-memory/")
    assert (refused.status_code, refused.json()["code"]) == (409, "static_memory_none")


def test_what_no_plan_may_have_is_said_above_its_figures(client, alice):
    plan = make_plan(3, make_chunk(0, (0, 2), (0, 64)), make_chunk(1, (1, 3), (32, 96)))
    page = page_of(client, make_import(alice, to_bytes(plan)).profile)
    notes = part(page, 'id="static-memory-notes">', "</div>")
    assert "At least 1 pair of pieces is taken at the same time" in notes
    assert "graph.json" in notes
    dynamic = make_import(alice, plan_of("dynamic_shape"), graph_of("dynamic_shape")).profile
    assert "sizes of 4 tensors are not known" in page_of(client, dynamic)


def test_a_graph_alone_and_a_damaged_plan_say_what_to_do(client, alice):
    for data, code in (
        (graph_of("tiny"), "graph_alone"),
        (plan_of("tiny")[:300], "not_json"),
        (to_bytes(make_plan(1, make_chunk(0, (0, 9), (0, 64)))), "static_memory_operator"),
    ):
        upload = make_import(alice, data)
        assert (upload.state, upload.problem) == ("failed", code)
        for language in ("en", "zh-hans"):
            headers = {"Accept-Language": language}
            page = client.get(f"/profiles/opened/{upload.pk}/", headers=headers).content.decode()
            assert "p0.json" in page
    both = make_import(alice, plan_of("tiny"), graph_of("lstm"))
    assert "It does not belong to the memory plan." in page_of(client, both.profile)


def built(owner, files, **task_fields) -> Profile:
    attempt = ended_attempt({"log.txt": LOG, **files}, owner, **task_fields)
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert attempt.task.status == "succeeded"
    return Profile.objects.get(attempt=attempt)


def test_a_task_with_the_option_shows_its_plan_beside_its_operators(client, alice):
    files = {"profile.json": good_profile("resnet18_opt"), ZIP: packed_plan("resnet18_opt")}
    profile = built(alice, files)
    assert profile.operators == 76
    page = page_of(client, profile)
    assert part(page, 'id="static-memory-peak">', "<") == "1.9 MiB"
    assert 'id="left-out"' not in page
    assert part(page, 'id="static-memory-chunks">', "</table>").count("data-row=") > 100


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
def test_a_damaged_plan_costs_no_result_and_is_told(client, alice, data, cause):
    profile = built(alice, {"profile.json": good_profile("tiny"), ZIP: data})
    page = page_of(client, profile)
    assert 'id="static-memory"' not in page
    left_out = part(page, 'id="left-out">', "</section>")
    assert ZIP in left_out
    assert cause in left_out


def test_a_plan_that_unpacks_to_more_than_is_read_costs_no_result(client, alice, settings):
    settings.PROFILE_SIZE_LIMIT_BYTES = 1 << 20
    bomb = zip_json_files(StaticMemoryInfo=b" " * (8 << 20))
    assert len(bomb) < 10_000
    page = page_of(client, built(alice, {"profile.json": good_profile("tiny"), ZIP: bomb}))
    assert ZIP in part(page, 'id="left-out">', "</section>")


def test_a_plan_makes_no_result_of_a_run_whose_profile_cannot_be_read(alice):
    attempt = ended_attempt(
        {"log.txt": LOG, "profile.json": b"{}", ZIP: packed_plan("tiny")}, alice
    )
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert (attempt.task.status, attempt.task.reason) == ("failed", "profile_unreadable")
    attempt = ended_attempt({"log.txt": LOG, ZIP: packed_plan("tiny")}, alice)
    build_attempt_profile(attempt)
    attempt.task.refresh_from_db()
    assert (attempt.task.status, attempt.task.reason) == ("failed", "profile_missing")


def test_without_profiled_passes_the_plan_stands_beside_the_measurement(client, alice):
    files = {"measurement.json": measurement_json(CLEAN, plan=CLEAN_ONLY), ZIP: packed_plan("lstm")}
    profile = built(alice, files, plan=CLEAN_ONLY)
    assert (profile.operators, AttemptMeasurement.objects.count()) == (0, 1)
    page = page_of(client, profile)
    assert part(page, 'id="static-memory-peak">', "<") == "333.0 KiB"
    assert 'id="measurement"' in page
    assert 'id="no-profile"' in page


def test_reprofile_shows_the_plan_of_an_older_attempt(client, alice, monkeypatch):
    files = {"profile.json": good_profile("tiny"), ZIP: packed_plan("tiny")}
    with monkeypatch.context() as before:
        before.setattr("profiles.ingest.results._BESIDE", ())
        profile = built(alice, files)
    assert 'id="static-memory"' not in page_of(client, profile)
    out = io.StringIO()
    call_command("reprofile", "--all", stdout=out)
    assert "0 failed" in out.getvalue()
    assert 'id="static-memory"' in page_of(client, profile)


def test_hostile_names_stay_names(client, alice):
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
        page_of(client, profile, query)
    picture = client.get(f"/api/v1/profiles/{profile.pk}/pictures/static-memory/")
    assert response_faults(picture) == []
