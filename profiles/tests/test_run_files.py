"""Files of several kinds that one run left, opened together."""

import json

import httpx2
import pytest

from profiles.models import OpenedFile, ProfileUpload
from profiles.parsers.first_look import kind_of, other_kind
from profiles.tests.opened import file_body, make_opened
from profiles.tests.shared_data import DATA, good_profile
from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db

SCOPES = DATA / "traces/dynamic_train_mlp_scopes"


@pytest.fixture
def alice():
    return make_user("alice")


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
        (b'{"anything": 1}', "profile"),
    ],
)
def test_the_content_tells_the_kind(head, kind):
    assert other_kind(head) is None
    assert kind_of(head) == kind


def test_memory_flow_is_told_from_other_pictures():
    flow = (SCOPES / "profile.memory_flow.svg").read_bytes()[:2048]
    assert other_kind(flow) is None
    assert kind_of(flow) == "memory_flow"
    assert other_kind(b'<svg xmlns="http://www.w3.org/2000/svg"/>') == "svg"


def test_operators_are_the_profiles_and_the_trace_stands_beside_them(client, alice, storage):
    opened = make_opened(alice, trace(), good_profile("tiny"))
    assert opened.state == ProfileUpload.State.READY
    assert kinds(opened) == ["trace", "profile"]
    alone = make_opened(alice, good_profile("tiny"))
    assert opened.profile.operators == alone.profile.operators
    assert opened.profile.device_total_s == alone.profile.device_total_s
    client.force_login(alice)
    page = client.get(f"/profiles/{opened.profile.pk}/").text
    assert 'id="trace-phases"' in page
    assert 'id="device-total"' in page
    assert 'id="left-out"' not in page
    assert "The times are those of the last iteration." in page
    listed = page.split('id="opened-files"')[1].split("</ul>")[0]
    assert "trace ·" in listed
    assert "profiled pass ·" in listed


def test_of_two_traces_beside_a_profile_the_second_is_named(client, alice, storage):
    other = (DATA / "traces/dynamic_train_resnet/profile.chrome_timeline.json").read_bytes()
    opened = make_opened(alice, good_profile("tiny"), trace(), other)
    client.force_login(alice)
    page = client.get(f"/profiles/{opened.profile.pk}/").text
    left_out = page.split('id="left-out"')[1].split("</section>")[0]
    assert "1 file could not be used" in left_out
    assert "p2.json" in left_out
    assert "Another file of its kind is shown." in left_out


def test_a_kind_that_its_sender_hid_is_noted_once_the_file_is_read(alice, storage):
    # heads are told by a browser; whoever else announces files need not
    opened = make_opened(alice, trace())
    assert kinds(opened) == [OpenedFile.Kind.TRACE]


def test_files_keep_their_places_whatever_their_kinds(client, alice, storage):
    client.force_login(alice)

    bodies = [file_body(trace(), "z.json"), file_body(good_profile("tiny"), "a.json")]
    made = client.post(
        "/profiles/opened/", json.dumps({"files": bodies}), content_type="application/json"
    ).json()
    upload = ProfileUpload.objects.get(pk=made["id"])
    assert [(file.number, file.name, file.kind) for file in upload.files.all()] == [
        (1, "z.json", "trace"),
        (2, "a.json", "profile"),
    ]


def test_every_file_of_a_run_can_be_fetched_as_it_was(client, alice, storage):
    opened = make_opened(alice, good_profile("tiny"), trace())
    client.force_login(alice)
    page = client.get(f"/profiles/{opened.profile.pk}/").text
    assert "Original: ⁨p1.json⁩" in page
    for number, data in ((1, good_profile("tiny")), (2, trace())):
        answer = client.get(f"/profiles/{opened.profile.pk}/export/original/{number}/")
        assert httpx2.get(answer["Location"]).content == data
    timeline = client.get(f"/profiles/{opened.profile.pk}/trace/file/").json()
    assert httpx2.get(timeline["address"]).content == trace()
