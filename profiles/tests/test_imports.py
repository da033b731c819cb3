"""Imports of profiles: the form, the API, refused files, limits, and the pages of imports."""

import json
from typing import get_args

import httpx2
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from profiles.actors import build_opened
from profiles.formats.detection import Kind
from profiles.formats.errors import FormatCode
from profiles.imports.uploads import RETRIED, create_import, delete_import, in_order_of_passes
from profiles.models import Profile, ProfileUpload
from profiles.tests.imports import (
    file_request,
    file_to_open,
    make_import,
    make_upload,
    stored_keys,
)
from profiles.tests.pages import make_result, whole_page
from profiles.tests.traces import operator, to_trace
from tasks.models import Purpose, Task
from tasks.tests.make import make_user
from testdata import DATA, bad_profile, good_profile
from webprofile.errors import DomainError
from webprofile.messages.errors import WORDINGS
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.django_db

State = ProfileUpload.State
OPENED = "/api/v1/profiles/opened/"


def post_json(client, url: str, body: object = None):
    return client.post(url, json.dumps(body or {}), content_type="application/json")


def form_files(*contents: bytes, names: tuple[str, ...] = ()) -> list[SimpleUploadedFile]:
    names = names or tuple(f"profile-{n}.json" for n in range(1, len(contents) + 1))
    return [SimpleUploadedFile(n, c) for n, c in zip(names, contents, strict=True)]


def test_an_import_over_the_api_has_a_page(client, alice):
    data = good_profile("resnet18")
    body = {"name": "my net", "files": [file_request(data, "resnet18.json")]}
    response = post_json(client, OPENED, body)
    assert response.status_code == 201
    created = response.json()
    api_url, page = f"{OPENED}{created['id']}/", f"/profiles/opened/{created['id']}/"
    target = created["uploads"][0]
    assert httpx2.put(target["url"], content=data, headers=target["headers"]).is_success
    assert post_json(client, f"{api_url}submit/").json()["state"] == "processing"
    assert client.get(api_url).json()["progress"] is None

    build_opened(created["id"])
    assert client.get(api_url).json()["state"] == "ready"
    profile = Profile.objects.get(upload=created["id"])
    assert profile.operators == 173
    assert client.get(page)["Location"] == f"/profiles/{profile.pk}/"
    profiles_page = client.get("/profiles/").text
    assert "my net" in profiles_page
    assert ">173<" in profiles_page


def test_the_form_imports_a_profile_without_javascript(client, alice):
    response = client.post("/profiles/opened/", {"files": form_files(good_profile("tiny"))})
    upload = ProfileUpload.objects.get()
    assert response["Location"] == f"/profiles/opened/{upload.pk}/"
    assert (upload.state, upload.name) == (State.PROCESSING, "profile-1")
    page = client.get(response["Location"]).text
    assert 'http-equiv="refresh"' in page
    build_opened(upload.pk)
    assert Profile.objects.get(upload=upload).device_total_s > 0


def test_several_files_become_ordered_passes_of_one_profile(client, alice):
    data = good_profile("tiny")
    passes = form_files(data + b"  ", data, data + b" ", names=("p-10.json", "p.json", "p-2.json"))
    client.post("/profiles/opened/", {"files": passes})
    upload = ProfileUpload.objects.get()
    assert [file.name for file in upload.files.all()] == ["p.json", "p-2.json", "p-10.json"]
    build_opened(upload.pk)
    upload.refresh_from_db()
    assert upload.state == State.READY
    keys = {row.object_key for row in upload.files.all()} | {upload.profile.derived_key}
    assert set(stored_keys(upload.pk)) == keys


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["profile-2.json", "profile.json", "profile-10.json"], [1, 0, 2]),
        (["b.json", "a.json"], [0, 1]),
        (["b.json", "p-2.json", "a.json", "p.json"], [0, 3, 1, 2]),
        (["resnet18-2.json", "resnet18.json"], [1, 0]),
        (["p (3).json", "p2.json", "p.json"], [2, 1, 0]),
        (["run²9.json", "run²10.json"], [0, 1]),
        (["9" * 40 + ".json", "1.json"], [1, 0]),
        ([], []),
    ],
)
def test_passes_are_ordered_by_numbers_in_their_names(names, order):
    assert in_order_of_passes(names) == order


#: content or path in `testdata/`, and a part of the message
FOREIGN = [
    ("models/tiny.mge", "is a model"),
    ("models/tiny_fbs1.mge", "is a model"),
    ("bad/inputs/ok.npy", "is a numpy array"),
    ("bad/inputs/ok.npz", "Unpack it"),
    ("bad/inputs/pickle_dict.pkl", "pickle"),
    ("bad/profiles/list.json", "a JSON list"),
    ("bad/profiles/not_json.json", "is not valid JSON"),
    (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>',
     "picture is memory_flow.svg"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), FOREIGN)
def test_a_foreign_file_is_refused_by_its_kind_before_the_upload(client, alice, data, message):
    if isinstance(data, str):
        data = (DATA / data).read_bytes()
    response = post_json(client, OPENED, {"files": [file_request(data, "x.json")]})
    assert response.status_code == 422
    assert message in response.json()["detail"]
    assert "“x.json”" in response.json()["detail"]
    page = client.post("/profiles/opened/", {"files": form_files(data)})
    assert message in page.text
    assert not ProfileUpload.objects.exists()


def test_every_real_profile_is_accepted():
    for path in (DATA / "profiles").glob("*.json"):
        alice = make_user(path.stem)
        assert create_import(owner=alice, files=[file_to_open(path.read_bytes())])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("truncated_last_byte", "not_json"),
        ("deep", "list"),
        ("no_profiler", "missing_key"),
        ("string", "not_json"),
        ("invalid_utf8", "not_utf8"),
        ("utf16", "utf16"),
        ("time_null", "bad_value"),
        ("time_all_zero_opencl", "device_total_zero_opencl"),
        ("deep_inside", "too_deep"),
    ],
)
def test_an_unreadable_file_has_a_reason_and_can_be_downloaded(client, alice, name, problem):
    upload = make_import(alice, bad_profile(name), name="broken <b>one</b>")
    assert (upload.state, upload.problem) == (State.FAILED, problem)
    page = client.get(f"/profiles/opened/{upload.pk}/").text
    message = str(WORDINGS[f"opened_{problem}"]) % {
        "name": "\u2068broken &lt;b&gt;one&lt;/b&gt;\u2069"
    }
    assert message in page
    download = client.get(f"/profiles/opened/{upload.pk}/files/1/")
    assert httpx2.get(download["Location"]).content == bad_profile(name)


def test_a_missing_or_damaged_upload_can_be_repeated(client, alice):
    data = good_profile("tiny")
    created = post_json(client, OPENED, {"files": [file_request(data)]}).json()
    api_url = f"{OPENED}{created['id']}/"
    response = post_json(client, f"{api_url}submit/")
    assert (response.status_code, response.json()["code"]) == (409, "upload_missing")
    object_store.write(f"opened/{created['id']}/profile.json", data[:-1] + b" ")
    assert post_json(client, f"{api_url}submit/").json()["code"] == "upload_damaged"
    assert ProfileUpload.objects.get().state == State.INITIATED
    target = post_json(client, f"{api_url}uploads/").json()["uploads"][0]
    assert httpx2.put(target["url"], content=data, headers=target["headers"]).is_success
    assert post_json(client, f"{api_url}submit/").json()["state"] == "processing"


def test_strangers_get_404_and_administrators_see_an_import(client, storage):
    upload = make_import(make_user(), good_profile("tiny"), name="hidden one")
    pages = [f"/profiles/opened/{upload.pk}/{end}" for end in ("", "status/", "files/1/")]
    actions = [f"/profiles/opened/{upload.pk}/{end}/" for end in ("retry", "rename", "delete")]
    client.force_login(make_user("carol"))
    assert [client.get(page).status_code for page in pages] == [404] * 3
    assert [client.post(action).status_code for action in actions] == [404] * 3
    assert client.get(f"/profiles/{upload.profile.pk}/").status_code == 404
    assert "hidden one" not in client.get("/profiles/").text
    client.force_login(make_user("root", is_staff=True))
    assert client.get(pages[0]).status_code == 302
    assert "hidden one" in client.get("/profiles/").text


#: a valid beginning of a profile
PART = b'{"profiler": {'


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([], "opened_none"),
        ([file_to_open(b"{ ", f"{n}.json", md5=f"{n:032x}") for n in range(21)], "opened_many"),
        ([file_to_open(PART, "a.json"), file_to_open(PART, "b.json")], "opened_twice"),
        ([file_to_open(PART, size_bytes=2**40)], "file_too_large"),
        ([file_to_open(PART, size_bytes=0)], "file_empty"),
        ([file_to_open(PART, "a/b.json")], "file_name_path"),
        ([file_to_open(PART, "a\nb.json")], "character_bad"),
        ([file_to_open(PART, "x" * 256)], "file_name_long"),
        ([file_to_open(PART, md5="0")], "checksum_bad"),
        ([file_to_open(b" \n")], "opened_empty"),
        ([file_to_open(b"[1, 2, 3]")], "opened_list"),
        ([file_to_open(b'{"a": 1}')], "opened_not_a_profile"),
    ],
)
def test_invalid_announcements_are_refused(files, code):
    with pytest.raises(DomainError, match=code):
        create_import(owner=make_user(), files=files)


@pytest.mark.parametrize("data", [b"[1, 2, 3]", b'{"a": 1}'])
def test_other_json_is_refused_with_a_list_of_accepted_files(client, alice, data):
    response = post_json(client, OPENED, {"files": [file_request(data)]})
    assert response.status_code == 422
    detail = response.json()["detail"]
    for file in ("get_profile()", "chrome_timeline.json", "StaticMemoryInfo.json"):
        assert file in detail
    assert not ProfileUpload.objects.exists()


def test_number_and_size_of_imports_are_limited_per_user(settings):
    alice = make_user()
    settings.OPENED_PROFILES_LIMIT, settings.OPENED_BYTES_LIMIT = 2, 100
    first = create_import(owner=alice, files=[file_to_open(PART, size_bytes=60)])
    with pytest.raises(DomainError, match="opened_too_much"):
        create_import(owner=alice, files=[file_to_open(PART, size_bytes=60)])
    create_import(owner=alice, files=[file_to_open(PART)])
    with pytest.raises(DomainError, match="opened_too_many"):
        create_import(owner=alice, files=[file_to_open(PART)])
    create_import(owner=make_user("bob"), files=[file_to_open(PART, size_bytes=60)])
    delete_import(first)
    create_import(owner=alice, files=[file_to_open(PART, size_bytes=60)])


def test_a_form_over_the_size_limit_returns_413(client, alice, settings):
    settings.OPENED_FORM_LIMIT_BYTES = 2 << 20
    response = client.post("/profiles/opened/", {"files": form_files(bytes(3 << 20))})
    assert response.status_code == 413
    assert "at most 2 MiB" in response.text


def test_requests_without_csrf_token_are_refused(storage):
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user())
    response = client.post("/profiles/opened/", {"files": form_files(good_profile("tiny"))})
    assert response.status_code == 403
    assert post_json(client, OPENED, {"files": []}).status_code == 403
    assert not ProfileUpload.objects.exists()


@pytest.mark.parametrize("body", ["[]", '{"files": 1}', '{"files": [], "x": 1}', "{" * 50_000])
def test_a_malformed_body_is_refused(client, alice, body):
    response = client.post(OPENED, body, content_type="application/json")
    refusal = (response.status_code, response.json()["code"])
    assert refusal == ((400, "malformed") if body.startswith("{{") else (422, "invalid"))
    assert not ProfileUpload.objects.exists()


def test_every_problem_code_has_a_message():
    codes = {*get_args(FormatCode), *get_args(Kind), *RETRIED, "device_total_zero"}
    assert {code for code in codes if f"opened_{code}" not in WORDINGS} == set()


def test_a_pass_of_another_model_is_named_at_the_top_of_the_page(client, alice):
    upload = make_import(alice, good_profile("resnet18"), good_profile("tiny"))
    page = whole_page(client, f"/profiles/{upload.profile.pk}/memory/")
    top = page.split('id="summary"')[0]
    link = f'href="/profiles/{upload.profile.pk}/details/#left-out" data-open-view="details">'
    assert f"{link}1 file could not be used</a>" in top
    left_out = page.split('id="left-out"')[1].split("</section>")[0]
    assert "p1.json" in left_out
    assert "Its operators differ from those of “" in left_out
    assert "profile-2.json" not in left_out


def test_the_list_shows_unread_and_unreadable_imports(client, alice):
    make_import(alice, good_profile("tiny"), name="ready import")
    make_import(alice, b"{}", name="failed import")
    make_upload(alice, good_profile("tiny"), name="incomplete import")
    page = client.get("/profiles/").text
    for name in ("ready import", "failed import", "incomplete import"):
        assert name in page


def test_the_list_shows_an_administrator_only_own_tasks(client, storage, root):
    make_result(good_profile("tiny"), owner=root)
    other = make_result(good_profile("tiny"), owner=make_user("bob"))
    check = make_result(good_profile("tiny"), owner=root)
    Task.objects.filter(pk=check.attempt.task_id).update(purpose=Purpose.HEALTH)
    client.force_login(root)
    text = client.get("/profiles/").text
    assert "None of your tasks" not in text
    for profile in (other, check):
        assert f'href="/tasks/{profile.attempt.task_id}/' not in text


def test_each_row_of_the_list_has_its_own_time_unit(client, alice):
    make_import(alice, to_trace(*operator(10, "ADD", 0, 2, "a:0")), name="short")
    make_import(alice, to_trace(*operator(10, "ADD", 0, 2e6, "a:0")), name="long")
    page = client.get("/profiles/").text
    assert ">2 µs</td>" in page
    assert ">2.00 s</td>" in page
