"""Files of several kinds of the same run, imported together."""

from datetime import timedelta

import httpx2
import pytest
from django.utils import timezone

from profiles.formats.detection import kind_of, other_kind
from profiles.ingest import results
from profiles.models import ProfileUpload
from profiles.services import build_attempt_profile
from profiles.tests import flows, traces
from profiles.tests.imports import file_request, make_import
from profiles.tests.pages import ended_attempt, whole_page
from tasks.models import Task
from tasks.tests.make import make_user
from testdata import good_profile

pytestmark = pytest.mark.django_db


def file_kinds(upload: ProfileUpload) -> list[str]:
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
def test_the_kind_is_detected_from_the_content(head, kind):
    assert other_kind(head) is None
    assert kind_of(head) == kind


def test_a_complete_object_without_known_keys_is_not_a_profile():
    assert other_kind(b'\xef\xbb\xbf {"anything": {"profiler": 1}}\n') == "not_a_profile"
    assert other_kind(b"{}") == "not_a_profile"
    assert other_kind(b"version https://git-lfs.github.com/spec/v1\n") == "lfs_pointer"
    assert other_kind(b'{"a":' * 400 + b"1" + b"}" * 400) == "not_a_profile"


def test_memory_flow_differs_from_other_svg():
    flow = flows.MLP.read_bytes()[:2048]
    assert other_kind(flow) is None
    assert kind_of(flow) == "memory_flow"
    assert other_kind(b'<svg xmlns="http://www.w3.org/2000/svg"/>') == "svg"


def test_operators_and_advice_come_from_the_profile_beside_a_trace(client, alice):
    def advice(upload):
        body = client.get(f"/api/v1/profiles/{upload.profile.pk}/advice/").json()
        return [(finding["title"], finding["sentence"]) for finding in body["findings"]]

    upload = make_import(alice, traces.MLP.read_bytes(), good_profile("tiny"))
    assert upload.state == ProfileUpload.State.READY
    assert file_kinds(upload) == ["trace", "profile"]
    single = make_import(alice, good_profile("tiny"))
    assert upload.profile.operators == single.profile.operators
    assert upload.profile.device_total_s == single.profile.device_total_s
    assert advice(upload) == advice(single)
    page = whole_page(client, f"/profiles/{upload.profile.pk}/")
    assert 'id="trace-phases"' in page
    assert 'id="device-total"' in page
    assert 'id="left-out"' not in page
    assert "One sample: times are of the last iteration of one run." in page
    file_list = page.split('id="opened-files"')[1].split("</ul>")[0]
    assert "trace ·" in file_list
    assert "profiled pass ·" in file_list


def test_a_second_trace_beside_a_profile_is_left_out(client, alice):
    both = traces.MLP.read_bytes(), traces.RESNET.read_bytes()
    upload = make_import(alice, good_profile("tiny"), *both)
    page = whole_page(client, f"/profiles/{upload.profile.pk}/")
    left_out = page.split('id="left-out"')[1].split("</section>")[0]
    assert "1 file could not be used" in left_out
    assert "p2.json" in left_out
    assert "\u2068p1.json\u2069" in left_out
    reason = "a file of the same kind, is displayed instead; a run has only one such file."
    assert reason in left_out


def test_files_keep_their_numbers_regardless_of_kind(client, alice):
    bodies = [
        file_request(traces.MLP.read_bytes(), "z.json"),
        file_request(good_profile("tiny"), "a.json"),
    ]
    url = "/api/v1/profiles/opened/"
    created = client.post(url, {"files": bodies}, content_type="application/json").json()
    upload = ProfileUpload.objects.get(pk=created["id"])
    assert [(file.number, file.name, file.kind) for file in upload.files.all()] == [
        (1, "z.json", "trace"),
        (2, "a.json", "profile"),
    ]


def test_every_file_of_a_run_can_be_downloaded(client, alice):
    upload = make_import(alice, good_profile("tiny"), traces.MLP.read_bytes())
    page = whole_page(client, f"/profiles/{upload.profile.pk}/")
    assert "Original: ⁨p1.json⁩" in page
    for number, data in ((1, good_profile("tiny")), (2, traces.MLP.read_bytes())):
        response = client.get(f"/profiles/{upload.profile.pk}/export/original/{number}/")
        assert httpx2.get(response["Location"]).content == data
    assert client.get(f"/profiles/{upload.profile.pk}/trace/").context["number"] == 2


def test_the_kind_is_stored_when_the_file_is_read(client, alice):
    # a browser announces the beginning of a file; other clients need not, as here
    upload = make_import(alice, traces.MLP.read_bytes())
    assert file_kinds(upload) == ["trace"]
    place = f"/profiles/{upload.profile.pk}/"
    assert f'data-file="/api/v1{place}raw/1/"' in client.get(f"{place}trace/").text
    assert "One row per operator execution" in whole_page(client, place)


def test_reading_a_result_renews_its_message_time(storage, monkeypatch):
    attempt = ended_attempt({"profile.json": good_profile("tiny")}, make_user("bob"))
    sent_at = timezone.now() - timedelta(seconds=60)
    Task.objects.filter(pk=attempt.task_id).update(hinted_at=sent_at)
    monkeypatch.setattr("profiles.services._RENEWED_S", 0)
    times = []
    derive = results.derive

    def derive_with_report(files, report, *others):
        report("reading", 1)
        times.append(Task.objects.get(pk=attempt.task_id).hinted_at)
        return derive(files, report, *others)

    monkeypatch.setattr("profiles.ingest.results.derive", derive_with_report)
    build_attempt_profile(attempt)
    assert times[0] > sent_at + timedelta(seconds=50)
