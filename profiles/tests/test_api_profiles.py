"""The API of profiles: every endpoint for the owner, and 404 for other users."""

import hashlib

import pytest
import requests
from rest_framework.test import APIClient

from accounts.models import AuditEntry
from profiles.actors import build_opened
from profiles.api.serializer_fields import answer_of
from profiles.formats.chrome_trace.summary import LaneRow, TraceSummary
from profiles.formats.memory_flow.summary import TagRow
from profiles.formats.static_memory.summary import OperatorRow
from profiles.models import AttemptMeasurement
from profiles.tests.imports import file_request, make_import, make_upload
from profiles.tests.make import make_profile, to_json
from profiles.tests.pages import make_result
from tasks.tests.make import make_task, make_user
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage"), pytest.mark.database]

ROOT = "/api/v1/profiles/"
FIRST = to_json(
    make_profile(
        {"1": 0.01, "2": 0.02, "3": 0.005},
        host={"1": 0.001},
        footprint={"1": {"computation": 100, "memory": 50}},
        names={"1": "conv.first", "2": "conv.second", "3": "pool"},
    )
)
SECOND = to_json(
    make_profile(
        {"1": 0.012, "2": 0.02, "3": 0.009},
        names={"1": "conv.first", "2": "conv.second", "3": "pool"},
    )
)


@pytest.fixture
def upload(alice):
    return make_import(alice, FIRST, SECOND, name="mine")


def operators(client, profile, query=""):
    response = client.get(f"{ROOT}{profile.pk}/operators/{query}")
    assert response.status_code == 200, response.content
    return response.json()


def names(body):
    return [row["name"] for row in body["operators"]]


def test_a_script_uploads_a_profile_and_reads_its_operators(alice):
    client = caller(alice)
    body = {"name": "from a script", "files": [file_request(FIRST)]}
    created = client.post(f"{ROOT}opened/", body, format="json")
    assert created.status_code == 201, created.content
    (target,) = created.json()["uploads"]
    response = requests.put(target["url"], data=FIRST, headers=target["headers"])
    assert response.status_code == 200
    url = created.headers["Location"]
    assert client.get(url).json()["profile"] is None
    submitted = client.post(f"{url}submit/")
    assert submitted.json()["state"] == "processing"
    build_opened(created.json()["id"])
    profile = client.get(f"{ROOT}{client.get(url).json()['profile']}/").json()
    assert profile["title"] == "from a script"
    table = client.get(f"{ROOT}{profile['id']}/operators/").json()
    assert names(table) == ["conv.second", "conv.first", "pool"]
    assert client.get(profile["raw"][0]["url"]).status_code == 302


def test_submitting_a_missing_upload_returns_409(alice):
    client = caller(alice)
    created = client.post(f"{ROOT}opened/", {"files": [file_request(FIRST)]}, format="json")
    expect_problem(client.post(f"{created.headers['Location']}submit/"), 409, "upload_missing")


def test_the_api_applies_the_import_rules_of_the_page(alice):
    client = caller(alice)
    for body, code in (
        ({"files": []}, "opened_none"),
        ({"files": [file_request(FIRST), file_request(FIRST, "again.json")]}, "opened_twice"),
        ({"files": [file_request(b"PK\x03\x04 an archive")]}, "opened_archive"),
        ({"files": [file_request(FIRST) | {"head": "no base64!"}]}, "invalid"),
        ({"files": [file_request(FIRST) | {"size_bytes": "851"}]}, "invalid"),
        ({"files": [file_request(FIRST)], "extra": 1}, "invalid"),
        ({"files": [file_request(FIRST, f"{n}.json") for n in range(21)]}, "invalid"),
    ):
        expect_problem(client.post(f"{ROOT}opened/", body, format="json"), 422, code)


def test_an_imported_profile_can_be_renamed_and_deleted(alice, upload):
    client = caller(alice)
    url = f"{ROOT}opened/{upload.pk}/"
    assert client.patch(url, {"name": "other"}, format="json").json()["name"] == "other"
    assert client.patch(url, {"name": " "}, format="json").status_code == 422
    assert client.delete(url).status_code == 204
    assert client.get(url).status_code == 404
    assert client.delete(url).status_code == 404
    assert client.get(ROOT).json()["results"] == []


def test_operators_can_be_filtered_ordered_and_paginated(alice, upload):
    client, profile = caller(alice), upload.profile
    assert names(operators(client, profile, "?name=conv")) == ["conv.second", "conv.first"]
    assert names(operators(client, profile, "?min=8ms&max=0.015")) == ["conv.first"]
    assert names(operators(client, profile, "?order=name&up=1")) == [
        "conv.first", "conv.second", "pool",
    ]  # fmt: skip
    assert names(operators(client, profile, "?type=Elemwise&rows=1")) == ["conv.second"]
    assert names(operators(client, profile, "?dtype=Int8")) == []
    assert names(operators(client, profile, "?side=host")) == ["conv.first"]
    window = operators(client, profile, "?offset=1&limit=1")
    assert (names(window), window["total"], window["operators"][0]["place"]) == (
        ["conv.first"], 3, 1,
    )  # fmt: skip
    assert operators(client, profile, "?around=2&limit=2")["place"] == 2


def test_times_are_medians_or_of_one_pass(alice, upload):
    client, profile = caller(alice), upload.profile
    rows = {row["name"]: row for row in operators(client, profile)["operators"]}
    assert rows["conv.first"]["self_s"] == pytest.approx(0.011)
    assert rows["conv.first"]["device"]["passes_s"] == [0.01, 0.012]
    assert rows["conv.first"]["share"] == pytest.approx(0.011 / 0.038)
    body = operators(client, profile, "?pass=2")
    second = {row["name"]: row for row in body["operators"]}
    assert second["pool"]["self_s"] == 0.009
    share = 0.009 / body["totals"]["device_s"]
    assert second["pool"]["share"] == pytest.approx(share)


def test_operators_can_be_grouped(alice, upload):
    body = operators(caller(alice), upload.profile, "?agg=sum")
    (group,) = body["groups"]
    assert (group["type"], group["operators"], body["operators"]) == ("Elemwise", 3, [])
    assert group["time_s"] == pytest.approx(0.038)
    body = operators(caller(alice), upload.profile, "?agg=max&over=all")
    assert body["groups"][0]["type"] == "all"


def test_every_format_is_exported(alice, upload):
    client = caller(alice)
    for name in ("csv", "json", "trace", "report", "text"):
        response = client.get(f"{ROOT}{upload.profile.pk}/export/{name}/")
        assert response.status_code == 200, name
        assert "attachment" in response.headers["Content-Disposition"]
        assert len(response.getvalue()) > 100


def test_statistics_advice_charts_and_graph_have_data(alice, upload):
    client, url = caller(alice), f"{ROOT}{upload.profile.pk}/"
    sides = client.get(f"{url}statistics/").json()["sides"]
    assert sides[0]["stability"]["total_cv"] == pytest.approx(0.1116, abs=1e-3)
    findings = client.get(f"{url}advice/").json()["findings"]
    assert "first_run" in [finding["rule"] for finding in findings]
    graph = client.get(f"{url}graph/").json()
    assert [node["name"] for node in graph["nodes"]] == ["conv.first", "conv.second", "pool"]
    assert {edge["to_node"] for edge in graph["edges"]} == {0, 1, 2}
    for name in ("operators", "timeline", "types", "scopes", "roofline", "memory", "cumulative"):
        assert client.get(f"{url}charts/{name}/").status_code == 200


def test_a_comparison_has_pages_of_rows_totals_and_a_waterfall(alice, upload):
    other = make_import(alice, SECOND)
    pair = f"p={upload.profile.pk}&p={other.profile.pk}"
    client = caller(alice)
    comparison = client.get(f"{ROOT}compare/?{pair}&rows=all&limit=2").json()
    assert (comparison["total"], len(comparison["rows"])) == (3, 2)
    device = next(total for total in comparison["totals"] if total["key"] == "device")
    assert device["others"][0]["difference_s"] == pytest.approx(0.003)
    assert comparison["waterfall"][-1]["to_s"] == pytest.approx(0.041)
    csv = client.get(f"{ROOT}compare/export/csv/?{pair}&rows=all").text
    assert csv.startswith("row,operator,type")


def test_the_profile_of_an_unfinished_task_returns_409(alice):
    task = make_task(owner=alice)
    body = expect_problem(caller(alice).get(f"{ROOT}of-task/{task.pk}/"), 409, "profile_not_yet")
    assert f"#{task.pk}" in body["detail"]


def test_an_outdated_profile_returns_409(alice, upload):
    upload.profile.derived_version = 0
    upload.profile.save()
    url = f"{ROOT}{upload.profile.pk}/operators/"
    expect_problem(caller(alice).get(url), 409, "profile_outdated")


def test_every_endpoint_of_a_profile_returns_404_to_other_users(alice, upload):
    bob = caller(make_user("bob"))
    profile_url, upload_url = f"{ROOT}{upload.profile.pk}/", f"{ROOT}opened/{upload.pk}/"
    for path in (
        "", "operators/", "text/", "export/csv/", "raw/1/", "statistics/", "advice/", "graph/",
        "charts/types/",
    ):  # fmt: skip
        assert bob.get(f"{profile_url}{path}").status_code == 404, path
    for path in ("", "files/1/"):
        assert bob.get(f"{upload_url}{path}").status_code == 404, path
    for path in ("submit/", "uploads/", "retry/"):
        assert bob.post(f"{upload_url}{path}").status_code == 404, path
    assert bob.delete(upload_url).status_code == 404
    assert bob.patch(upload_url, {"name": "other"}, format="json").status_code == 404
    foreign = make_import(make_user("carol"), SECOND).profile
    assert bob.get(f"{ROOT}compare/?p={upload.profile.pk}&p={foreign.pk}").status_code == 404
    assert bob.get(ROOT).json()["results"] == bob.get(f"{ROOT}opened/").json()["results"] == []
    assert APIClient().get(profile_url).status_code == 401


def test_lists_can_be_filtered(alice, upload):
    client = caller(alice)
    make_upload(alice, SECOND, name="incomplete")
    assert len(client.get(f"{ROOT}?origin=opened&title=min").json()["results"]) == 1
    assert client.get(f"{ROOT}?origin=task").json()["results"] == []
    uploads = client.get(f"{ROOT}opened/?state=initiated").json()["results"]
    assert [upload["name"] for upload in uploads] == ["incomplete"]
    assert client.get(f"{ROOT}opened/?state=deleted").status_code == 400
    make_import(make_user("bob"), SECOND)
    root = caller(make_user("root", is_staff=True, is_superuser=True))
    for path, count in ((ROOT, 2), (f"{ROOT}opened/", 3)):
        assert len(root.get(path).json()["results"]) == count
        (row,) = root.get(f"{path}?owner=bob@").json()["results"]
        assert row["owner"] == "bob@example.com"
        assert client.get(f"{path}?owner=bob@").json()["results"] == []


def test_the_raw_file_is_the_uploaded_file(alice, upload):
    response = caller(alice).get(f"{ROOT}{upload.profile.pk}/raw/2/")
    content = requests.get(response.headers["Location"]).content
    assert hashlib.md5(content).digest() == hashlib.md5(SECOND).digest()


def test_the_measurement_has_the_steady_state_modes_and_interval(alice):
    profile = make_result(FIRST, owner=alice)
    unknown = {"iterations": 5, "median_ms": 10.1, "derived_version": 6}
    row = AttemptMeasurement.objects.create(attempt=profile.attempt, passes=[], **unknown)
    address = f"{ROOT}of-task/{profile.attempt.task_id}/measurement/"
    answer = caller(alice).get(address).json()
    assert (answer["steady_state"], answer["modes"], answer["interval"]) == (None, [], None)
    row.steady_state = {"is_steady": True, "start": 14, "median_ms": 10.0}
    row.modes = [{"median_ms": 10.0, "share": 0.7}, {"median_ms": 12.9, "share": 0.3}]
    row.interval = {"low_ms": 9.9, "high_ms": 10.3, "processes": 5}
    row.save()
    answer = caller(alice).get(address).json()
    assert answer["steady_state"] == row.steady_state
    assert (answer["modes"], answer["interval"]) == (row.modes, row.interval)
    assert answer["latency_notes"] == [
        "steady after 14 iterations, with a median of 10.0 ms from then on",
        "2 modes: 10.0 ms (70 %), 12.9 ms (30 %)",
        "Confidence interval of the median (95 %): 9.90 ms to 10.3 ms, from 5 processes",
    ]


def test_the_measurement_of_a_task_does_not_need_a_profile(alice):
    profile = make_result(FIRST, owner=alice)
    task = profile.attempt.task
    url = f"{ROOT}of-task/{task.pk}/"
    client = caller(alice)
    expect_problem(client.get(f"{url}measurement/"), 409, "profile_never")
    AttemptMeasurement.objects.create(
        attempt=profile.attempt, iterations=20, median_ms=1.5, p90_ms=2.0, passes=[]
    )
    assert client.get(f"{url}measurement/").json()["median_ms"] == 1.5
    latency = client.get(f"{ROOT}{profile.pk}/statistics/").json()["latency"]
    profile.delete()
    assert client.get(f"{url}measurement/").json() == latency | {"check": None}
    expect_problem(client.get(url), 409, "profile_never")
    waiting = make_task(owner=alice)
    expect_problem(client.get(f"{ROOT}of-task/{waiting.pk}/measurement/"), 409, "profile_not_yet")
    bob = caller(make_user("bob"))
    expect_problem(bob.get(f"{url}measurement/"), 404, "not_found")


def test_deletion_by_an_administrator_is_audited(alice, upload):
    root = make_user("root", is_staff=True, is_superuser=True)
    assert caller(root).delete(f"{ROOT}opened/{upload.pk}/").status_code == 204
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("profile.delete", root)
    assert entry.before == {"name": "mine", "owner": alice.email}
    other = make_import(alice, SECOND)
    assert caller(alice).delete(f"{ROOT}opened/{other.pk}/").status_code == 204
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("struct", "name"),
    [
        (TraceSummary, "TraceSummary"),
        (LaneRow, "TraceLaneRow"),
        (TagRow, "MemoryFlowTagRow"),
        (OperatorRow, "StaticMemoryOperatorRow"),
    ],
)
def test_schema_names_of_structs_begin_with_their_format(struct, name):
    assert answer_of(struct).__name__ == name
