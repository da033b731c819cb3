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
from webprofile.tests.documented_api import caller, refused

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
def opened(alice):
    return make_import(alice, FIRST, SECOND, name="mine")


def operators(client, profile, question=""):
    response = client.get(f"{ROOT}{profile.pk}/operators/{question}")
    assert response.status_code == 200, response.content
    return response.json()


def names(body):
    return [row["name"] for row in body["operators"]]


def test_a_script_opens_a_profile_uploads_it_and_reads_its_operators(alice):
    client = caller(alice)
    body = {"name": "from a script", "files": [file_request(FIRST)]}
    created = client.post(f"{ROOT}opened/", body, format="json")
    assert created.status_code == 201, created.content
    (target,) = created.json()["uploads"]
    sent = requests.put(target["url"], data=FIRST, headers=target["headers"])
    assert sent.status_code == 200
    own = created.headers["Location"]
    assert client.get(own).json()["profile"] is None
    submitted = client.post(f"{own}submit/")
    assert submitted.json()["state"] == "processing"
    build_opened(created.json()["id"])
    profile = client.get(f"{ROOT}{client.get(own).json()['profile']}/").json()
    assert profile["title"] == "from a script"
    table = client.get(f"{ROOT}{profile['id']}/operators/").json()
    assert names(table) == ["conv.second", "conv.first", "pool"]
    assert client.get(profile["raw"][0]["url"]).status_code == 302


def test_an_upload_that_never_arrived_is_named(alice):
    client = caller(alice)
    created = client.post(f"{ROOT}opened/", {"files": [file_request(FIRST)]}, format="json")
    response = client.post(f"{created.headers['Location']}submit/")
    assert response.status_code == 409
    assert response.json()["code"] == "upload_missing"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"files": []}, "opened_none"),
        ({"files": [file_request(FIRST), file_request(FIRST, "again.json")]}, "opened_twice"),
        ({"files": [file_request(b"PK\x03\x04 an archive")]}, "opened_archive"),
        ({"files": [file_request(FIRST) | {"head": "no base64!"}]}, "invalid"),
        ({"files": [file_request(FIRST) | {"size_bytes": "851"}]}, "invalid"),
        ({"files": [file_request(FIRST)], "extra": 1}, "invalid"),
        ({"files": [file_request(FIRST, f"{n}.json") for n in range(21)]}, "invalid"),
    ],
)
def test_what_cannot_be_opened_is_refused_by_the_page_s_own_rules(alice, change, code):
    response = caller(alice).post(f"{ROOT}opened/", change, format="json")
    assert (response.status_code, response.json()["code"]) == (422, code)


def test_an_opened_profile_is_renamed_and_deleted(alice, opened):
    client = caller(alice)
    own = f"{ROOT}opened/{opened.pk}/"
    assert client.patch(own, {"name": "other"}, format="json").json()["name"] == "other"
    assert client.patch(own, {"name": " "}, format="json").status_code == 422
    assert client.delete(own).status_code == 204
    assert client.get(own).status_code == 404
    assert client.delete(own).status_code == 404
    assert client.get(ROOT).json()["results"] == []


def test_operators_can_be_filtered_ordered_and_cut(alice, opened):
    client, profile = caller(alice), opened.profile
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


def test_times_are_medians_or_those_of_one_pass(alice, opened):
    client, profile = caller(alice), opened.profile
    rows = {row["name"]: row for row in operators(client, profile)["operators"]}
    assert rows["conv.first"]["self_s"] == pytest.approx(0.011)
    assert rows["conv.first"]["device"]["passes_s"] == [0.01, 0.012]
    assert rows["conv.first"]["share"] == pytest.approx(0.011 / 0.038)
    second = {row["name"]: row for row in operators(client, profile, "?pass=2")["operators"]}
    assert second["pool"]["self_s"] == 0.009


def test_operators_can_be_grouped(alice, opened):
    body = operators(caller(alice), opened.profile, "?agg=sum")
    (group,) = body["groups"]
    assert (group["type"], group["operators"], body["operators"]) == ("Elemwise", 3, [])
    assert group["time_s"] == pytest.approx(0.038)
    assert (
        operators(caller(alice), opened.profile, "?agg=max&over=all")["groups"][0]["type"] == "all"
    )


@pytest.mark.parametrize("name", ["csv", "json", "trace", "report", "text"])
def test_each_format_is_exported(alice, opened, name):
    response = caller(alice).get(f"{ROOT}{opened.profile.pk}/export/{name}/")
    assert response.status_code == 200
    assert "attachment" in response.headers["Content-Disposition"]
    assert len(response.getvalue()) > 100


def test_statistics_advice_pictures_and_graph_answer(alice, opened):
    client, own = caller(alice), f"{ROOT}{opened.profile.pk}/"
    sides = client.get(f"{own}statistics/").json()["sides"]
    assert sides[0]["stability"]["total_cv"] == pytest.approx(0.1116, abs=1e-3)
    assert "first_run" in [
        finding["rule"] for finding in client.get(f"{own}advice/").json()["findings"]
    ]
    graph = client.get(f"{own}graph/").json()
    assert [node["name"] for node in graph["nodes"]] == ["conv.first", "conv.second", "pool"]
    assert {edge["to_node"] for edge in graph["edges"]} == {0, 1, 2}
    for name in ("operators", "timeline", "types", "scopes", "roofline", "memory", "cumulative"):
        assert client.get(f"{own}pictures/{name}/").status_code == 200


def test_profiles_are_compared_in_pages_with_totals_and_waterfall(alice, opened):
    other = make_import(alice, SECOND)
    pair = f"p={opened.profile.pk}&p={other.profile.pk}"
    client = caller(alice)
    comparison = client.get(f"{ROOT}compare/?{pair}&rows=all&limit=2").json()
    assert (comparison["total"], len(comparison["rows"])) == (3, 2)
    device = next(total for total in comparison["totals"] if total["key"] == "device")
    assert device["others"][0]["difference_s"] == pytest.approx(0.003)
    assert comparison["waterfall"][-1]["to_s"] == pytest.approx(0.041)
    csv = client.get(f"{ROOT}compare/export/csv/?{pair}&rows=all").content.decode()
    assert csv.startswith("row,operator,type")
    twice = client.get(f"{ROOT}compare/?p={other.profile.pk}&p={other.profile.pk}")
    assert (twice.status_code, twice.json()["code"]) == (422, "comparison_choice")
    assert client.get(f"{ROOT}compare/?p={other.profile.pk}").status_code == 400


def test_a_task_that_has_not_ended_says_that_its_profile_is_to_come(alice):
    task = make_task(owner=alice)
    response = caller(alice).get(f"{ROOT}of-task/{task.pk}/")
    assert (response.status_code, response.json()["code"]) == (409, "profile_not_yet")
    assert f"#{task.pk}" in response.json()["detail"]


def test_a_profile_that_is_made_anew_says_so(alice, opened):
    opened.profile.derived_version = 0
    opened.profile.save()
    response = caller(alice).get(f"{ROOT}{opened.profile.pk}/operators/")
    assert (response.status_code, response.json()["code"]) == (409, "profile_outdated")


def test_for_strangers_nothing_of_a_profile_exists(alice, opened):
    bob = caller(make_user("bob"))
    own, upload = f"{ROOT}{opened.profile.pk}/", f"{ROOT}opened/{opened.pk}/"
    for path in (
        own, f"{own}operators/", f"{own}text/", f"{own}export/csv/",
        f"{own}raw/1/", f"{own}statistics/", f"{own}advice/", f"{own}graph/",
        f"{own}pictures/types/", upload, f"{upload}files/1/",
    ):  # fmt: skip
        assert bob.get(path).status_code == 404, path
    for path in (f"{upload}submit/", f"{upload}uploads/", f"{upload}retry/"):
        assert bob.post(path).status_code == 404, path
    assert bob.delete(upload).status_code == 404
    assert bob.patch(upload, {"name": "mine now"}, format="json").status_code == 404
    mine = make_import(make_user("carol"), SECOND).profile
    assert bob.get(f"{ROOT}compare/?p={opened.profile.pk}&p={mine.pk}").status_code == 404
    assert bob.get(ROOT).json()["results"] == bob.get(f"{ROOT}opened/").json()["results"] == []
    assert APIClient().get(own).status_code == 401


def test_lists_are_narrowed(alice, opened):
    client = caller(alice)
    make_upload(alice, SECOND, name="on its way")
    assert len(client.get(f"{ROOT}?origin=opened&title=min").json()["results"]) == 1
    assert client.get(f"{ROOT}?origin=task").json()["results"] == []
    waiting = client.get(f"{ROOT}opened/?state=initiated").json()["results"]
    assert [upload["name"] for upload in waiting] == ["on its way"]
    assert client.get(f"{ROOT}opened/?state=deleted").status_code == 400
    make_import(make_user("bob"), SECOND)
    root = caller(make_user("root", is_staff=True, is_superuser=True))
    for path, all_of_them in ((ROOT, 2), (f"{ROOT}opened/", 3)):
        assert len(root.get(path).json()["results"]) == all_of_them
        (row,) = root.get(f"{path}?owner=bob@").json()["results"]
        assert row["owner"] == "bob@example.com"
        assert client.get(f"{path}?owner=bob@").json()["results"] == []


def test_the_raw_file_is_the_one_that_was_opened(alice, opened):
    response = caller(alice).get(f"{ROOT}{opened.profile.pk}/raw/2/")
    content = requests.get(response.headers["Location"]).content
    assert hashlib.md5(content).digest() == hashlib.md5(SECOND).digest()


def test_what_was_measured_for_a_task_is_told_also_without_a_profile(alice):
    profile = make_result(FIRST, owner=alice)
    task = profile.attempt.task
    own = f"{ROOT}of-task/{task.pk}/"
    client = caller(alice)
    refused(client.get(f"{own}measurement/"), 409, "profile_never")
    AttemptMeasurement.objects.create(
        attempt=profile.attempt, iterations=20, median_ms=1.5, p90_ms=2.0, passes=[]
    )
    assert client.get(f"{own}measurement/").json()["median_ms"] == 1.5
    with_profile = client.get(f"{ROOT}{profile.pk}/statistics/").json()["latency"]
    profile.delete()
    assert client.get(f"{own}measurement/").json() == with_profile
    refused(client.get(own), 409, "profile_never")
    waiting = make_task(owner=alice)
    refused(client.get(f"{ROOT}of-task/{waiting.pk}/measurement/"), 409, "profile_not_yet")
    bob = caller(make_user("bob"))
    refused(bob.get(f"{own}measurement/"), 404, "not_found")


def test_an_administrator_who_deletes_anothers_profile_is_noted(alice, opened):
    root = make_user("root", is_staff=True, is_superuser=True)
    assert caller(root).delete(f"{ROOT}opened/{opened.pk}/").status_code == 204
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("profile.delete", root)
    assert entry.before == {"name": "mine", "owner": alice.email}
    own = make_import(alice, SECOND)
    assert caller(alice).delete(f"{ROOT}opened/{own.pk}/").status_code == 204
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
