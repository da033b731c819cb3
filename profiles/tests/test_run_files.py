"""Files of several kinds of the same run, imported together."""

import json
from datetime import timedelta

import httpx2
import pytest
from django.utils import timezone

from profiles.formats.detection import kind_of, other_kind
from profiles.ingest import results
from profiles.ingest.rebuild import rebuild_derived
from profiles.models import OpenedFile, ProfileUpload
from profiles.services import build_attempt_profile
from profiles.tests.imports import file_request, make_import
from profiles.tests.pages import ended_attempt
from tasks.models import Task
from tasks.tests.make import make_user
from testdata import DATA, good_profile

pytestmark = pytest.mark.django_db

SCOPES = DATA / "traces/dynamic_train_mlp_scopes"


def trace() -> bytes:
    return (SCOPES / "profile.chrome_timeline.json").read_bytes()


def kinds(upload: ProfileUpload) -> list[str]:
    return [file.kind for file in upload.files.all()]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b'{"graph_exec": {', "profile"),
        (b'{"profiler": {', "profile"),
        (b'\xef\xbb\xbf {"traceEvents": [', "trace"),
        (b'[{"name": "a", "ph": "B"', "trace"),
        (b'{"opr":{"0":{"id":"0"', "static_memory"),
        (b'{ "chunk" : { "0": {', "static_memory"),
        (b'{"operator": {"1": {"comp_node_keys"', "graph"),
        (b'{"mem_chunk": {', "graph"),
        (b'{"anything": 1', "profile"),
        (b'{"anything": 1, "profiler": {}}', "profile"),
    ],
)
def test_the_content_tells_the_kind(head, kind):
    assert other_kind(head) is None
    assert kind_of(head) == kind


def test_a_whole_object_without_any_part_of_a_run_is_of_something_else():
    assert other_kind(b'\xef\xbb\xbf {"anything": {"profiler": 1}}\n') == "not_a_profile"
    assert other_kind(b"{}") == "not_a_profile"
    assert other_kind(b'{"a":' * 400 + b"1" + b"}" * 400) == "not_a_profile"


def test_memory_flow_is_told_from_other_pictures():
    flow = (SCOPES / "profile.memory_flow.svg").read_bytes()[:2048]
    assert other_kind(flow) is None
    assert kind_of(flow) == "memory_flow"
    assert other_kind(b'<svg xmlns="http://www.w3.org/2000/svg"/>') == "svg"


def test_operators_are_the_profiles_and_the_trace_stands_beside_them(client, alice, storage):
    opened = make_import(alice, trace(), good_profile("tiny"))
    assert opened.state == ProfileUpload.State.READY
    assert kinds(opened) == ["trace", "profile"]
    alone = make_import(alice, good_profile("tiny"))
    assert opened.profile.operators == alone.profile.operators
    assert opened.profile.device_total_s == alone.profile.device_total_s
    page = client.get(f"/profiles/{opened.profile.pk}/").text
    assert 'id="trace-phases"' in page
    assert 'id="device-total"' in page
    assert 'id="left-out"' not in page
    assert "One sample: each time is that of the last iteration of one run." in page
    listed = page.split('id="opened-files"')[1].split("</ul>")[0]
    assert "trace ·" in listed
    assert "profiled pass ·" in listed


def test_the_second_of_two_traces_beside_a_profile_is_named_as_left_out(client, alice, storage):
    other = (DATA / "traces/dynamic_train_resnet/profile.chrome_timeline.json").read_bytes()
    opened = make_import(alice, good_profile("tiny"), trace(), other)
    page = client.get(f"/profiles/{opened.profile.pk}/").text
    left_out = page.split('id="left-out"')[1].split("</section>")[0]
    assert "1 file could not be used" in left_out
    assert "p2.json" in left_out
    assert "“\u2068p1.json\u2069” is shown, which is of the same kind" in left_out


def test_a_kind_that_its_sender_hid_is_noted_once_the_file_is_read(alice, storage):
    # a browser sends the beginning of a file; other clients need not
    opened = make_import(alice, trace())
    assert kinds(opened) == [OpenedFile.Kind.TRACE]


def test_files_keep_their_places_whatever_their_kinds(client, alice, storage):

    bodies = [file_request(trace(), "z.json"), file_request(good_profile("tiny"), "a.json")]
    created = client.post(
        "/api/v1/profiles/opened/",
        json.dumps({"files": bodies}),
        content_type="application/json",
    ).json()
    upload = ProfileUpload.objects.get(pk=created["id"])
    assert [(file.number, file.name, file.kind) for file in upload.files.all()] == [
        (1, "z.json", "trace"),
        (2, "a.json", "profile"),
    ]


def test_every_file_of_a_run_can_be_fetched_as_it_was(client, alice, storage):
    opened = make_import(alice, good_profile("tiny"), trace())
    page = client.get(f"/profiles/{opened.profile.pk}/").text
    assert "Original: ⁨p1.json⁩" in page
    for number, data in ((1, good_profile("tiny")), (2, trace())):
        response = client.get(f"/profiles/{opened.profile.pk}/export/original/{number}/")
        assert httpx2.get(response["Location"]).content == data
    assert client.get(f"/profiles/{opened.profile.pk}/trace/").context["number"] == 2


def test_a_trace_of_before_kinds_is_drawn_and_known_once_it_is_read_anew(client, alice, storage):
    opened = make_import(alice, trace())
    OpenedFile.objects.update(kind="profile")
    place = f"/profiles/{opened.profile.pk}/"
    assert f'data-file="/api/v1{place}raw/1/"' in client.get(f"{place}trace/").text
    rebuild_derived(opened.profile)
    assert kinds(opened) == ["trace"]
    assert "Each row is one execution of an operator" in client.get(place).text


def test_advice_beside_a_trace_is_that_of_the_profile(client, alice, storage):
    opened = make_import(alice, good_profile("tiny"), trace())
    alone = make_import(alice, good_profile("tiny"))

    def advice(upload):
        body = client.get(f"/api/v1/profiles/{upload.profile.pk}/advice/").json()
        return [(finding["title"], finding["sentence"]) for finding in body["findings"]]

    assert advice(opened) == advice(alone)


def test_a_result_that_is_being_read_is_given_to_nobody_else(storage, monkeypatch):
    attempt = ended_attempt({"profile.json": good_profile("tiny")}, make_user("bob"))
    asked_at = timezone.now() - timedelta(seconds=60)
    Task.objects.filter(pk=attempt.task_id).update(hinted_at=asked_at)
    monkeypatch.setattr("profiles.services._RENEWED_S", 0)
    times = []
    derive = results.derive

    def reads(files, report):
        report("reading", 1)
        times.append(Task.objects.get(pk=attempt.task_id).hinted_at)
        return derive(files, report)

    monkeypatch.setattr("profiles.ingest.results.derive", reads)
    build_attempt_profile(attempt)
    assert times[0] > asked_at + timedelta(seconds=50)
