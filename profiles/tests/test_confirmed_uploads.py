"""What was confirmed cannot be written any more: presigned URLs that are used a second time."""

import datetime

import httpx2
import pytest
from django.core.management import call_command
from django.utils import timezone

from profiles.models import OpenedFile
from profiles.parts import upload_target_of
from profiles.services import remove_uploads
from profiles.tests.imports import file_request
from profiles.tests.make import make_profile, to_json
from tasks.models import Task, TaskFile
from tasks.submission.uploads import confirm_task
from tasks.tests.make import FILES, TASKS, task_request, upload_files
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage"), pytest.mark.object_storage]
OTHER = {name: bytes(reversed(content)) for name, content in FILES.items()}
LONG_AGO = timezone.now() - datetime.timedelta(days=1)


def put(target, content):
    return httpx2.put(target["url"], content=content, headers=target["headers"]).status_code


def contents(task_id):
    files = TaskFile.objects.filter(task=task_id)
    return {f.name: object_store.read(f.object_key, limit_bytes=1 << 20) for f in files}


def keys(prefix):
    listing = object_store.client.list_objects_v2(Bucket=object_store.bucket_name, Prefix=prefix)
    return {entry["Key"] for entry in listing.get("Contents", [])}


@pytest.fixture
def client(alice):
    return caller(alice)


@pytest.fixture
def submitted(client):
    """A submitted task, as the API describes it at its creation."""
    task = client.post(TASKS, task_request()).json()
    upload_files(task)
    assert client.post(f"{TASKS}{task['id']}/submit/").json()["status"] == "waiting"
    return task


def test_a_put_after_the_submission_changes_nothing(client, submitted):
    for target in submitted["uploads"]:
        put(target, OTHER[target["name"]])
    assert contents(submitted["id"]) == FILES
    repeated = client.post(f"{TASKS}{submitted['id']}/submit/")
    assert (repeated.status_code, contents(submitted["id"])) == (200, FILES)


def test_what_was_put_after_the_submission_is_removed_and_no_violation(submitted):
    confirmed = {file.object_key for file in TaskFile.objects.all()}
    assert keys("tasks/") == confirmed
    for target in submitted["uploads"]:
        put(target, OTHER[target["name"]])
    call_command("verify", "--patience-s", "0")
    remove_uploads()
    assert len(keys("tasks/")) == 4  # the URLs are still valid
    TaskFile.objects.update(upload_removal_at=LONG_AGO)
    remove_uploads()
    assert keys("tasks/") == confirmed


def test_a_copy_by_a_confirmation_that_did_not_complete_is_removed(submitted):
    confirmed = {file.object_key for file in TaskFile.objects.all()}
    first = TaskFile.objects.first()
    object_store.write(f"{first.upload_key}-0123456789abcdef", b"a model")
    call_command("verify", "--patience-s", "0")  # no violation, since the sweep removes it
    object_store.write(f"{first.upload_key}1", b"of another file")
    TaskFile.objects.update(upload_removal_at=LONG_AGO)
    remove_uploads()
    assert keys("tasks/") == confirmed | {f"{first.upload_key}1"}


def test_a_refused_submission_leaves_no_copy(client):
    task = client.post(TASKS, task_request()).json()
    uploads = {target["name"]: target for target in task["uploads"]}
    assert put(uploads["net.mge"], OTHER["net.mge"]) == 200
    before = keys("tasks/")
    assert client.post(f"{TASKS}{task['id']}/submit/").json()["code"] == "upload_missing"
    assert keys("tasks/") == before
    upload_files(task)
    assert client.post(f"{TASKS}{task['id']}/submit/").status_code == 200
    assert contents(task["id"]) == FILES


def test_a_put_during_the_confirmation_is_not_what_is_queued(client, monkeypatch):
    """The bytes are exchanged after they were copied and before the task is queued."""
    task = client.post(TASKS, task_request()).json()
    upload_files(task)
    read_start = ObjectStorage.read_start

    def exchange(self, key, **options):
        for target in task["uploads"]:
            put(target, OTHER[target["name"]])
        return read_start(self, key, **options)

    monkeypatch.setattr(ObjectStorage, "read_start", exchange)
    client.post(f"{TASKS}{task['id']}/submit/")
    assert contents(task["id"]) == FILES


def test_a_second_confirmation_does_not_replace_what_the_first_one_queued(client, monkeypatch):
    """A confirmation that is overtaken by another copies the exchanged bytes, to its own key."""
    created = client.post(TASKS, task_request()).json()
    upload_files(created)
    copy, slow = ObjectStorage.copy, Task.objects.get(pk=created["id"])

    def overtaken(self, source, target):
        monkeypatch.setattr(ObjectStorage, "copy", copy)
        confirm_task(Task.objects.get(pk=created["id"]))
        for file in created["uploads"]:
            put(file, OTHER[file["name"]])
        return copy(self, source, target)

    monkeypatch.setattr(ObjectStorage, "copy", overtaken)
    confirm_task(slow)
    assert slow.state == "waiting"
    assert contents(created["id"]) == FILES
    assert len(keys("tasks/")) == 2 + 2  # the confirmed files, and those put to the upload's keys


def test_a_url_that_was_signed_while_files_were_copied_cannot_replace_the_copy(client, submitted):
    Task.objects.update(state="finished", outcome="succeeded")
    repeated = client.post(f"{TASKS}{submitted['id']}/retry/").json()
    for file in TaskFile.objects.filter(task=repeated["id"]):
        put(upload_target_of(file), OTHER[file.name])
    assert contents(repeated["id"]) == FILES


def test_the_parts_of_a_file_cannot_be_put_after_they_were_joined(client):
    pieces = [bytes(8 << 20), bytes(1 << 20)]
    request = {"name": "p.json", "size_bytes": 9 << 20}
    opened = client.post("/api/v1/profiles/opened/", {"files": [request]}).json()
    parts = opened["uploads"][0]["parts"]["addresses"]
    etags = [
        httpx2.put(part["url"], content=piece).headers["etag"].strip('"')
        for part, piece in zip(parts, pieces, strict=True)
    ]
    joined = f"/api/v1/profiles/opened/{opened['id']}/files/1/join/"
    assert client.post(joined, {"md5s": etags}).status_code == 200
    assert httpx2.put(parts[1]["url"], content=b"x" * (1 << 20)).status_code == 404
    row = OpenedFile.objects.get()
    assert object_store.read(row.object_key, limit_bytes=9 << 20) == b"".join(pieces)


def test_two_files_in_parts_with_the_same_content_are_refused_when_they_have_arrived(client):
    pieces = [bytes(8 << 20), bytes(1 << 20)]
    request = {"size_bytes": 9 << 20}
    files = [request | {"name": name} for name in ("p.json", "q.json")]
    opened = client.post("/api/v1/profiles/opened/", {"files": files}).json()
    for number, upload in enumerate(opened["uploads"], start=1):
        etags = [
            httpx2.put(part["url"], content=piece).headers["etag"].strip('"')
            for part, piece in zip(upload["parts"]["addresses"], pieces, strict=True)
        ]
        joined = f"/api/v1/profiles/opened/{opened['id']}/files/{number}/join/"
        assert client.post(joined, {"md5s": etags}).status_code == 200
    submitted = client.post(f"/api/v1/profiles/opened/{opened['id']}/submit/")
    expect_problem(submitted, 422, "opened_twice")


def test_a_put_after_an_import_was_submitted_changes_nothing(client):
    content = to_json(make_profile({"1": 0.5}))
    opened = client.post("/api/v1/profiles/opened/", {"files": [file_request(content)]}).json()
    [target] = opened["uploads"]
    assert put(target, content) == 200
    assert client.post(f"/api/v1/profiles/opened/{opened['id']}/submit/").status_code == 200
    assert put(target, b"x" * len(content)) == 200
    row = OpenedFile.objects.get()
    assert object_store.read(row.object_key, limit_bytes=1 << 20) == content
    OpenedFile.objects.update(upload_removal_at=LONG_AGO)
    remove_uploads()
    assert keys("opened/") == {row.object_key}
