"""Multipart uploads: checksums, resumption, limits, and cleanup of unfinished uploads."""

import hashlib
import os

import httpx2
import pytest
from django.core.management import call_command
from django.test import RequestFactory

from agent.protocol.multipart import Checksum, md5_of_parts, part_bytes_of, part_sizes
from profiles.models import PartedUpload
from profiles.parts import sweep_parts, upload_target_of
from profiles.retention.deletion import delete_task, sweep_removed_files
from profiles.tests.make import verify
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task, TaskFile
from tasks.tests.make import make_user, make_worker
from webprofile.storage import PartsRefusedError
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage
from webprofile.tests.documented_api import caller, expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.object_storage]

MIB = 1 << 20
PART = 8 * MIB
TASKS = "/api/v1/tasks/"
#: two full parts and a smaller one
CONTENT = b"mgb0001\0" + os.urandom(17 * MIB - 8)
PIECES = [CONTENT[at : at + PART] for at in range(0, len(CONTENT), PART)]


def md5(data):
    return hashlib.md5(data).hexdigest()


SUMS = [md5(piece) for piece in PIECES]


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def client(alice, storage):
    return caller(alice)


def create_task(client, **changes):
    """Create a task whose model is uploaded in parts; return (its URL, the model's target)."""
    model = {"kind": "model", "name": "big.mge", "size_bytes": len(CONTENT)}
    body = {"worker": make_worker().pk, "runtime_version": "1.13.0", "files": [model]} | changes
    response = client.post(TASKS, body)
    assert response.status_code == 201, response.content
    created = response.json()
    return f"{TASKS}{created['id']}/", created["uploads"][0]


def part_urls(client, task, target, numbers, *, signed=True):
    parts = [{"number": n, "md5": SUMS[n - 1] if signed else None} for n in numbers]
    body = {"upload": target["parts"]["upload"], "parts": parts}
    response = client.post(f"{task}files/{target['file']}/parts/", body)
    assert response.status_code == 200, response.content
    return response.json()["parts"]


def put(part, content):
    return httpx2.put(part["url"], content=content, headers=part["headers"]).status_code


def send(client, task, target, numbers, *, signed=True):
    for part in part_urls(client, task, target, numbers, signed=signed):
        assert put(part, PIECES[part["number"] - 1]) == 200


def join(client, task, target, sums=SUMS):
    return client.post(f"{task}files/{target['file']}/join/", {"md5s": sums})


def renew_uploads(client, task):
    return client.post(f"{task}uploads/").json()["uploads"]


def upload_again(client, task):
    """Assert that the upload starts again without parts, and complete it."""
    (target,) = renew_uploads(client, task)
    assert target["parts"]["done"] == {}
    send(client, task, target, [1, 2, 3])
    assert join(client, task, target).status_code == 200


def upload_task(client, **changes):
    """Return a task in the queue whose model was uploaded in parts."""
    task, target = create_task(client, **changes)
    send(client, task, target, [1, 2, 3])
    assert join(client, task, target).status_code == 200
    assert client.post(f"{task}submit/").json()["status"] == "waiting"
    return Task.objects.get(pk=task.split("/")[-2])


def test_a_multipart_upload_bypasses_the_web_server(client, monkeypatch):
    request_sizes = []
    generic = RequestFactory.generic

    def record_size(self, method, path, data="", *args, **kwargs):
        request_sizes.append(len(data))
        return generic(self, method, path, data, *args, **kwargs)

    monkeypatch.setattr(RequestFactory, "generic", record_size)
    task, target = create_task(client)
    assert (target["url"], target["parts"]["count"]) == ("", 3)
    assert target["parts"]["part_bytes"] == PART
    send(client, task, target, [2, 1, 3])
    response = join(client, task, target)
    assert response.json() == {"md5": md5_of_parts(SUMS)}
    assert join(client, task, target).json() == response.json()
    assert renew_uploads(client, task) == []
    assert client.post(f"{task}submit/").json()["status"] == "waiting"
    file = TaskFile.objects.get()
    assert object_store.read(file.object_key, limit_bytes=1 << 30) == CONTENT
    assert client.get(task).json()["files"][0]["md5"] == file.md5 == md5_of_parts(SUMS)
    assert not PartedUpload.objects.exists()
    assert sum(request_sizes) < 2_000
    assert verify() == []


def test_renewed_uploads_have_urls_of_missing_parts(client):
    task, target = create_task(client)
    first = target["parts"]["addresses"]
    assert [part["number"] for part in first] == [1, 2, 3]
    assert put(first[1], PIECES[1]) == 200
    (target,) = renew_uploads(client, task)
    assert [part["number"] for part in target["parts"]["addresses"]] == [1, 3]
    for part in target["parts"]["addresses"]:
        assert put(part, PIECES[part["number"] - 1]) == 200
    (target,) = renew_uploads(client, task)
    assert target["parts"]["addresses"] == []
    assert join(client, task, target).status_code == 200


def test_a_long_file_starts_with_urls_of_eight_parts(client):
    model = {"kind": "model", "name": "big.mge", "size_bytes": 20 * PART}
    _, target = create_task(client, files=[model])
    assert [part["number"] for part in target["parts"]["addresses"]] == [*range(1, 9)]


@pytest.mark.exhaustive
def test_a_part_url_accepts_only_its_own_part_object_size_and_content(client):
    task, target = create_task(client)
    first, second = part_urls(client, task, target, [1, 2])
    other_task, other = create_task(client)
    other_object = part_urls(client, other_task, other, [1])[0]
    other_part = first["url"].replace("partNumber=1", "partNumber=2")
    assert put({**first, "url": other_part}, PIECES[0]) == 403
    assert put(first, PIECES[0][:-1]) == 403
    assert put({**first, "headers": {}}, PIECES[0]) == 403
    other_md5 = {"Content-MD5": second["headers"]["Content-MD5"]}
    assert put({**first, "headers": other_md5}, PIECES[1]) == 403
    path, query = other_object["url"].split("?")
    own_path, own_query = first["url"].split("?")
    assert put({**first, "url": f"{path}?{own_query}"}, PIECES[0]) == 403
    assert put({**first, "url": f"{own_path}?{query}"}, PIECES[0]) == 403
    assert put(first, PIECES[1]) == 400


def test_invalid_part_numbers_and_checksums_are_refused(client):
    task, target = create_task(client)
    place = f"{task}files/{target['file']}/parts/"
    upload_id = target["parts"]["upload"]
    for parts in ([4], [10_001], [1] * 64 + [4]):
        body = {"upload": upload_id, "parts": [{"number": number} for number in parts]}
        assert client.post(place, body).status_code == 422
    body = {"upload": upload_id, "parts": [{"number": 4}]}
    expect_problem(client.post(place, body), 422, "parts_bad")
    body = {"upload": upload_id, "parts": [{"number": 1, "md5": "x" * 32}]}
    expect_problem(client.post(place, body), 422, "checksum_bad")
    expect_problem(join(client, task, target, ["0" * 31] * 3), 422, "checksum_bad")


def test_a_small_file_requires_a_checksum(client):
    small = {"kind": "model", "name": "net.mge", "size_bytes": PART}
    body = {"worker": make_worker().pk, "runtime_version": "1.13.0", "files": [small]}
    expect_problem(client.post(TASKS, body), 422, "checksum_bad")
    small["md5"] = md5(b"") + "-3"
    expect_problem(client.post(TASKS, body), 422, "checksum_bad")


def test_an_interrupted_upload_resumes_with_missing_parts(client):
    task, target = create_task(client)
    send(client, task, target, [1])
    expect_problem(join(client, task, target), 409, "upload_missing")
    renewed = renew_uploads(client, task)[0]
    assert renewed["parts"]["done"] == {"1": SUMS[0]}
    assert renewed["parts"]["upload"] == target["parts"]["upload"]
    send(client, task, renewed, [2, 3], signed=False)
    assert join(client, task, renewed).status_code == 200


def test_damaged_parts_restart_the_upload(client):
    task, target = create_task(client)
    send(client, task, target, [1, 2, 3], signed=False)
    expect_problem(join(client, task, target, [SUMS[0], SUMS[0], SUMS[2]]), 409, "upload_damaged")
    expect_problem(client.post(f"{task}submit/"), 409, "upload_missing")
    renewed = renew_uploads(client, task)[0]
    assert renewed["parts"]["done"] == {}
    body = {"upload": target["parts"]["upload"], "parts": [{"number": 1}]}
    place = f"{task}files/{target['file']}/parts/"
    expect_problem(client.post(place, body), 409, "parts_restarted")
    send(client, task, renewed, [1, 2, 3])
    assert join(client, task, renewed).status_code == 200


def test_an_upload_restarts_after_storage_refuses_to_join_it(client, monkeypatch):
    task, target = create_task(client)
    send(client, task, target, [1, 2, 3])
    # storage lists parts that it does not have
    wrong_sums = [SUMS[0], SUMS[0], SUMS[2]]
    listing = {n: (len(piece), wrong_sums[n - 1]) for n, piece in enumerate(PIECES, 1)}
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStorage, "stored_parts", staticmethod(lambda key, upload_id: listing))
        expect_problem(join(client, task, target, wrong_sums), 409, "upload_damaged")
    upload_again(client, task)


def test_refused_parts_are_removed_from_storage(client, monkeypatch):
    """AWS does not remove such parts by itself, rclone does."""

    def refuse(key, upload_id, md5s):
        raise PartsRefusedError

    task, target = create_task(client)
    send(client, task, target, [1, 2, 3])
    monkeypatch.setattr(ObjectStorage, "join_upload_parts", staticmethod(refuse))
    expect_problem(join(client, task, target), 409, "upload_damaged")
    assert list(object_store.unfinished()) == []
    assert not PartedUpload.objects.exists()


def test_an_upload_that_storage_lost_restarts(client):
    task, target = create_task(client)
    send(client, task, target, [1])
    row = PartedUpload.objects.get()
    object_store.abort_parts(row.object_key, row.upload_id)
    expect_problem(join(client, task, target), 409, "upload_missing")
    upload_again(client, task)


def test_a_join_without_commit_is_detected(client):
    task, target = create_task(client)
    send(client, task, target, [1, 2, 3])
    row = PartedUpload.objects.get()
    # the process died between the response of storage and the commit
    PartedUpload.objects.filter(pk=row.pk).update(md5=md5_of_parts(SUMS))
    object_store.join_upload_parts(row.object_key, row.upload_id, SUMS)
    assert renew_uploads(client, task) == []
    assert client.post(f"{task}submit/").json()["status"] == "waiting"


def test_concurrent_requests_share_one_upload(client, monkeypatch):
    create_task(client)
    file = TaskFile.objects.get()
    PartedUpload.objects.all().delete()
    begin_parts = object_store.begin_parts

    def begin_after_another(key):
        monkeypatch.setattr(ObjectStorage, "begin_parts", staticmethod(begin_parts))
        assert upload_target_of(file) is not None
        return begin_parts(key)

    monkeypatch.setattr(ObjectStorage, "begin_parts", staticmethod(begin_after_another))
    assert upload_target_of(file)["parts"]["upload"] == PartedUpload.objects.get().pk
    # the upload of the first announcement, which has no row, and the one in use
    assert len(list(object_store.unfinished())) == 2


def test_parts_of_cancelled_and_deleted_tasks_are_removed(client, alice):
    cancelled, target = create_task(client)
    send(client, cancelled, target, [1])
    active, _ = create_task(client)
    deleted, _ = create_task(client)
    cancel_task(Task.objects.get(pk=cancelled.split("/")[-2]))
    deleted_task = Task.objects.get(pk=deleted.split("/")[-2])
    cancel_task(deleted_task)
    deleted_task.refresh_from_db()
    delete_task(deleted_task, by=alice)
    sweep_parts()
    row = PartedUpload.objects.get()
    assert [unfinished.upload_id for unfinished in object_store.unfinished()] == [row.upload_id]
    assert row.task_file.task_id == int(active.split("/")[-2])
    sweep_removed_files()
    assert verify() == []


def test_the_sweep_aborts_an_upload_after_its_deadline(client):
    create_task(client)
    Task.objects.update(upload_deadline_at="2020-01-01T00:00Z")
    call_command("sweep", "--once")
    assert list(object_store.unfinished()) == []


def test_verify_reports_orphaned_parts_and_changed_objects(client, alice):
    task = upload_task(client)
    object_store.begin_parts("tasks/77/7")
    [(promise, detail)] = verify()
    assert (promise, detail.split()[0]) == ("orphan", "tasks/77/7")
    file = task.files.get()
    object_store.write(file.object_key, CONTENT[:-1] + b"x")
    assert ("artifact", file.object_key) in [(p, detail.split()[0]) for p, detail in verify()]


def test_verify_and_retry_accept_a_restored_object_in_one_piece(client):
    task = upload_task(client)
    file = task.files.get()
    TaskFile.objects.filter(pk=file.pk).update(etag=md5_of_parts(SUMS))
    object_store.write(file.object_key, CONTENT)
    assert object_store.head(file.object_key)[1] == md5(CONTENT)
    assert verify() == []
    cancel_task(task)
    response = client.post(f"{TASKS}{task.pk}/retry/")
    assert response.status_code == 201, response.content


def test_a_task_with_a_multipart_model_can_be_retried(client):
    task = upload_task(client)
    cancel_task(task)
    response = client.post(f"{TASKS}{task.pk}/retry/")
    assert response.status_code == 201, response.content
    copy = TaskFile.objects.get(task=response.json()["id"])
    assert (copy.md5, copy.part_bytes) == (md5_of_parts(SUMS), PART)
    assert verify() == []


def test_multipart_uploads_are_refused_without_usable_etags(client, settings):
    """An ETag is not an MD5 if a KMS key encrypts objects."""
    settings.S3_TAKES_PARTS = False
    model = {"kind": "model", "name": "big.mge", "size_bytes": len(CONTENT)}
    body = {"worker": make_worker().pk, "runtime_version": "1.13.0", "files": [model]}
    expect_problem(client.post(TASKS, body), 422, "parts_not_here")
    files = [{"name": "profile.json", "size_bytes": len(CONTENT)}]
    expect_problem(client.post("/api/v1/profiles/opened/", {"files": files}), 422, "parts_not_here")
    assert b'data-parts-from="0"' in client.get("/profiles/").content


def test_an_import_accepts_a_multipart_upload(client):
    imports_url = "/api/v1/profiles/opened/"
    files = [{"name": "profile.json", "size_bytes": len(CONTENT)}]
    created = client.post(imports_url, {"name": "night", "files": files}).json()
    place, target = f"{imports_url}{created['id']}/", created["uploads"][0]
    send(client, place, target, [1, 2, 3])
    assert join(client, place, target).status_code == 200
    assert renew_uploads(client, place) == []
    assert client.post(f"{place}submit/").json()["state"] == "processing"
    second = client.post(imports_url, {"name": "night", "files": files}).json()
    client.delete(f"{imports_url}{second['id']}/")
    sweep_parts()
    assert list(object_store.unfinished()) == []


@pytest.mark.parametrize("size", [1, PART - 1, PART, PART + 1, 2 * PART, len(CONTENT)])
def test_an_incremental_checksum_equals_that_of_the_parts(size):
    data = CONTENT[:size]
    parts = [data[at : at + PART] for at in range(0, size, PART)]
    assert [len(part) for part in parts] == part_sizes(size, PART)
    for piece in (7_000_001, PART, 40 * MIB):
        sum_ = Checksum(PART)
        for at in range(0, size, piece):
            sum_.update(data[at : at + piece])
        assert sum_.hexdigest() == md5_of_parts(map(md5, parts))


def test_the_number_of_parts_is_limited():
    for size in (PART, 10_000 * PART, 10_000 * PART + 1, 5 << 40):
        part = part_bytes_of(size)
        assert part >= PART
        assert len(part_sizes(size, part)) <= 10_000


def test_a_join_does_not_request_the_checksum_of_the_whole_file(client, monkeypatch):
    """To compute it, some storage reads all bytes again, which takes seconds for a gigabyte."""
    heads = []
    monkeypatch.setattr(ObjectStorage, "head", staticmethod(lambda key: heads.append(key)))
    upload_task(client)
    assert heads == []
