"""Uploads in parts: checksums, resuming, limits, and the cleanup of unfinished uploads."""

import hashlib
import os

import httpx2
import pytest
from django.core.management import call_command
from django.test import RequestFactory

from agent.protocol.multipart import Checksum, md5_of_parts, part_bytes_of, part_sizes
from profiles.models import PartedUpload
from profiles.parts import parts_of, sweep_parts
from profiles.retention.deletion import delete_task, sweep_removed_files
from profiles.tests.make import verify
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Task, TaskFile
from tasks.tests.make import make_user, make_worker
from webprofile.storage import PartsRefusedError
from webprofile.storage import storage as object_store
from webprofile.storage.s3 import ObjectStorage
from webprofile.tests.documented_api import caller, refused

pytestmark = pytest.mark.django_db

MIB = 1 << 20
PART = 8 * MIB
TASKS = "/api/v1/tasks/"
#: two full parts and a smaller one
CONTENT = os.urandom(17 * MIB)
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


def announce(client, **changes):
    """Create a task whose model is uploaded in parts; return (its address, the model's target)."""
    model = {"kind": "model", "name": "big.mge", "size_bytes": len(CONTENT)}
    body = {"worker": make_worker().pk, "runtime_version": "1.13.0", "files": [model]} | changes
    response = client.post(TASKS, body)
    assert response.status_code == 201, response.content
    created = response.json()
    return f"{TASKS}{created['id']}/", created["uploads"][0]


def addresses(client, task, target, numbers, *, signed=True):
    parts = [{"number": n, "md5": SUMS[n - 1] if signed else None} for n in numbers]
    body = {"upload": target["parts"]["upload"], "parts": parts}
    response = client.post(f"{task}files/{target['file']}/parts/", body)
    assert response.status_code == 200, response.content
    return response.json()["parts"]


def put(part, content):
    return httpx2.put(part["url"], content=content, headers=part["headers"]).status_code


def send(client, task, target, numbers, *, signed=True):
    for part in addresses(client, task, target, numbers, signed=signed):
        assert put(part, PIECES[part["number"] - 1]) == 200


def join(client, task, target, sums=SUMS):
    return client.post(f"{task}files/{target['file']}/join/", {"md5s": sums})


def renewed(client, task):
    return client.post(f"{task}uploads/").json()["uploads"]


def upload(client, **changes):
    """Return a task in the queue whose model was uploaded in parts."""
    task, target = announce(client, **changes)
    send(client, task, target, [1, 2, 3])
    assert join(client, task, target).status_code == 200
    assert client.post(f"{task}submit/").json()["status"] == "waiting"
    return Task.objects.get(pk=task.split("/")[-2])


def test_a_large_model_arrives_in_parts_and_none_of_its_bytes_passes_the_site(client, monkeypatch):
    through_the_site = []
    generic = RequestFactory.generic

    def counted(self, method, path, data="", *args, **kwargs):
        through_the_site.append(len(data))
        return generic(self, method, path, data, *args, **kwargs)

    monkeypatch.setattr(RequestFactory, "generic", counted)
    task, target = announce(client)
    assert (target["url"], target["parts"]["count"]) == ("", 3)
    assert target["parts"]["part_bytes"] == PART
    send(client, task, target, [2, 1, 3])
    response = join(client, task, target)
    assert response.json() == {"md5": md5_of_parts(SUMS)}
    assert join(client, task, target).json() == response.json()
    assert renewed(client, task) == []
    assert client.post(f"{task}submit/").json()["status"] == "waiting"
    file = TaskFile.objects.get()
    assert object_store.read(file.object_key, limit_bytes=1 << 30) == CONTENT
    assert client.get(task).json()["files"][0]["md5"] == file.md5 == md5_of_parts(SUMS)
    assert not PartedUpload.objects.exists()
    assert sum(through_the_site) < 2_000
    assert verify() == []


def test_the_first_addresses_come_with_the_answer_and_later_those_of_what_is_missing(client):
    task, target = announce(client)
    first = target["parts"]["addresses"]
    assert [part["number"] for part in first] == [1, 2, 3]
    assert put(first[1], PIECES[1]) == 200
    (target,) = renewed(client, task)
    assert [part["number"] for part in target["parts"]["addresses"]] == [1, 3]
    for part in target["parts"]["addresses"]:
        assert put(part, PIECES[part["number"] - 1]) == 200
    (target,) = renewed(client, task)
    assert target["parts"]["addresses"] == []
    assert join(client, task, target).status_code == 200


def test_a_longer_file_gets_only_its_first_addresses(client):
    model = {"kind": "model", "name": "big.mge", "size_bytes": 20 * PART}
    _, target = announce(client, files=[model])
    assert [part["number"] for part in target["parts"]["addresses"]] == [*range(1, 9)]


def test_an_address_is_good_for_one_part_of_one_object_of_one_size_and_content(client):
    task, target = announce(client)
    first, second = addresses(client, task, target, [1, 2])
    other_task, other = announce(client)
    foreign = addresses(client, other_task, other, [1])[0]
    assert (
        put({**first, "url": first["url"].replace("partNumber=1", "partNumber=2")}, PIECES[0])
        == 403
    )
    assert put(first, PIECES[0][:-1]) == 403
    assert put({**first, "headers": {}}, PIECES[0]) == 403
    assert (
        put({**first, "headers": {"Content-MD5": second["headers"]["Content-MD5"]}}, PIECES[1])
        == 403
    )
    path, query = foreign["url"].split("?")
    own_path, own_query = first["url"].split("?")
    assert put({**first, "url": f"{path}?{own_query}"}, PIECES[0]) == 403
    assert put({**first, "url": f"{own_path}?{query}"}, PIECES[0]) == 403
    assert put(first, PIECES[1]) == 400


def test_parts_beyond_the_announced_size_have_no_address(client):
    task, target = announce(client)
    place = f"{task}files/{target['file']}/parts/"
    upload_id = target["parts"]["upload"]
    for parts in ([4], [10_001], [1] * 64 + [4]):
        body = {"upload": upload_id, "parts": [{"number": number} for number in parts]}
        assert client.post(place, body).status_code == 422
    body = {"upload": upload_id, "parts": [{"number": 4}]}
    refused(client.post(place, body), 422, "parts_bad")
    body = {"upload": upload_id, "parts": [{"number": 1, "md5": "x" * 32}]}
    refused(client.post(place, body), 422, "checksum_bad")
    refused(join(client, task, target, ["0" * 31] * 3), 422, "checksum_bad")


def test_only_a_large_file_may_come_without_its_checksum(client):
    small = {"kind": "model", "name": "net.mge", "size_bytes": PART}
    body = {"worker": make_worker().pk, "runtime_version": "1.13.0", "files": [small]}
    refused(client.post(TASKS, body), 422, "checksum_bad")
    small["md5"] = md5(b"") + "-3"
    refused(client.post(TASKS, body), 422, "checksum_bad")


def test_after_a_break_only_the_missing_parts_are_asked_for(client):
    task, target = announce(client)
    send(client, task, target, [1])
    refused(join(client, task, target), 409, "upload_missing")
    again = renewed(client, task)[0]
    assert again["parts"]["done"] == {"1": SUMS[0]}
    assert again["parts"]["upload"] == target["parts"]["upload"]
    send(client, task, again, [2, 3], signed=False)
    assert join(client, task, again).status_code == 200


def test_parts_that_are_not_what_was_read_are_dropped_and_sent_again(client):
    task, target = announce(client)
    send(client, task, target, [1, 2, 3], signed=False)
    refused(join(client, task, target, [SUMS[0], SUMS[0], SUMS[2]]), 409, "upload_damaged")
    refused(client.post(f"{task}submit/"), 409, "upload_missing")
    again = renewed(client, task)[0]
    assert again["parts"]["done"] == {}
    body = {"upload": target["parts"]["upload"], "parts": [{"number": 1}]}
    place = f"{task}files/{target['file']}/parts/"
    refused(client.post(place, body), 409, "parts_restarted")
    send(client, task, again, [1, 2, 3])
    assert join(client, task, again).status_code == 200


def test_an_upload_whose_parts_storage_refuses_to_join_begins_anew(client, monkeypatch):
    task, target = announce(client)
    send(client, task, target, [1, 2, 3])
    stored_parts = object_store.stored_parts
    # storage lists parts that it does not have
    other = [SUMS[0], SUMS[0], SUMS[2]]
    listing = {number: (len(piece), other[number - 1]) for number, piece in enumerate(PIECES, 1)}
    monkeypatch.setattr(ObjectStorage, "stored_parts", staticmethod(lambda key, upload_id: listing))
    refused(join(client, task, target, other), 409, "upload_damaged")
    monkeypatch.setattr(ObjectStorage, "stored_parts", staticmethod(stored_parts))
    again = renewed(client, task)[0]
    assert again["parts"]["done"] == {}
    send(client, task, again, [1, 2, 3])
    assert join(client, task, again).status_code == 200


def test_parts_that_storage_refuses_to_join_do_not_stay_there(client, monkeypatch):
    """rclone removes such parts by itself, AWS does not."""

    def refuse(key, upload_id, md5s):
        raise PartsRefusedError

    task, target = announce(client)
    send(client, task, target, [1, 2, 3])
    monkeypatch.setattr(ObjectStorage, "join_upload_parts", staticmethod(refuse))
    refused(join(client, task, target), 409, "upload_damaged")
    assert list(object_store.unfinished()) == []
    assert not PartedUpload.objects.exists()


def test_an_upload_that_storage_has_lost_begins_anew(client):
    task, target = announce(client)
    send(client, task, target, [1])
    row = PartedUpload.objects.get()
    object_store.abort_parts(row.object_key, row.upload_id)
    refused(join(client, task, target), 409, "upload_missing")
    again = renewed(client, task)[0]
    assert again["parts"]["done"] == {}
    send(client, task, again, [1, 2, 3])
    assert join(client, task, again).status_code == 200


def test_a_file_whose_joining_nobody_noted_is_found_whole(client):
    task, target = announce(client)
    send(client, task, target, [1, 2, 3])
    row = PartedUpload.objects.get()
    # the process died between the response of storage and the commit
    PartedUpload.objects.filter(pk=row.pk).update(md5=md5_of_parts(SUMS))
    object_store.join_upload_parts(row.object_key, row.upload_id, SUMS)
    assert renewed(client, task) == []
    assert client.post(f"{task}submit/").json()["status"] == "waiting"


def test_two_that_ask_at_once_send_to_one_upload(client, monkeypatch):
    announce(client)
    file = TaskFile.objects.get()
    PartedUpload.objects.all().delete()
    began = object_store.begin_parts

    def begin_after_another(key):
        monkeypatch.setattr(ObjectStorage, "begin_parts", staticmethod(began))
        assert parts_of(file) is not None
        return began(key)

    monkeypatch.setattr(ObjectStorage, "begin_parts", staticmethod(begin_after_another))
    assert parts_of(file).upload == PartedUpload.objects.get().pk
    # the upload of the first announcement, which has no row, and the one in use
    assert len(list(object_store.unfinished())) == 2


def test_what_nobody_sends_to_the_end_leaves_storage(client, alice):
    cancelled, target = announce(client)
    send(client, cancelled, target, [1])
    going, _ = announce(client)
    deleted, _ = announce(client)
    cancel_task(Task.objects.get(pk=cancelled.split("/")[-2]))
    gone = Task.objects.get(pk=deleted.split("/")[-2])
    cancel_task(gone)
    gone.refresh_from_db()
    delete_task(gone, by=alice)
    sweep_parts()
    row = PartedUpload.objects.get()
    assert [unfinished.upload_id for unfinished in object_store.unfinished()] == [row.upload_id]
    assert row.task_file.task_id == int(going.split("/")[-2])
    sweep_removed_files()
    assert verify() == []


def test_the_sweep_gives_up_an_upload_whose_time_is_over(client):
    announce(client)
    Task.objects.update(upload_deadline_at="2020-01-01T00:00Z")
    call_command("sweep", "--once")
    assert list(object_store.unfinished()) == []


def test_verify_names_parts_without_a_row_and_an_object_that_is_another(client, alice):
    task = upload(client)
    object_store.begin_parts("tasks/77/7")
    [(promise, what)] = verify()
    assert (promise, what.split()[0]) == ("orphan", "tasks/77/7")
    file = task.files.get()
    object_store.write(file.object_key, CONTENT[:-1] + b"x")
    assert ("artifact", file.object_key) in [(p, what.split()[0]) for p, what in verify()]


def test_after_a_restore_what_came_in_parts_is_whole_in_one_piece(client):
    task = upload(client)
    file = task.files.get()
    TaskFile.objects.filter(pk=file.pk).update(etag=md5_of_parts(SUMS))
    object_store.write(file.object_key, CONTENT)
    assert object_store.head(file.object_key)[1] == md5(CONTENT)
    assert verify() == []
    cancel_task(task)
    response = client.post(f"{TASKS}{task.pk}/retry/")
    assert response.status_code == 201, response.content


def test_a_task_whose_model_came_in_parts_can_be_repeated(client):
    task = upload(client)
    cancel_task(task)
    response = client.post(f"{TASKS}{task.pk}/retry/")
    assert response.status_code == 201, response.content
    copy = TaskFile.objects.get(task=response.json()["id"])
    assert (copy.md5, copy.part_bytes) == (md5_of_parts(SUMS), PART)
    assert verify() == []


def test_a_device_whose_agent_cannot_check_parts_gets_no_such_file(client):
    model = {"kind": "model", "name": "big.mge", "size_bytes": len(CONTENT)}
    old = make_worker(facts={"features": ["plans"]})
    body = {"worker": old.pk, "runtime_version": "1.13.0", "files": [model]}
    refused(client.post(TASKS, body), 422, "agent_old_parts")


def test_where_the_sums_of_parts_are_unknown_no_file_comes_in_parts(client, settings):
    """An ETag is not an MD5 where a KMS key encrypts objects."""
    settings.S3_TAKES_PARTS = False
    model = {"kind": "model", "name": "big.mge", "size_bytes": len(CONTENT)}
    body = {"worker": make_worker().pk, "runtime_version": "1.13.0", "files": [model]}
    refused(client.post(TASKS, body), 422, "parts_not_here")
    files = [{"name": "profile.json", "size_bytes": len(CONTENT)}]
    refused(client.post("/api/v1/profiles/opened/", {"files": files}), 422, "parts_not_here")
    assert b'data-parts-from="0"' in client.get("/profiles/").content


def test_an_opened_profile_may_come_in_parts(client):
    opened = "/api/v1/profiles/opened/"
    files = [{"name": "profile.json", "size_bytes": len(CONTENT)}]
    created = client.post(opened, {"name": "night", "files": files}).json()
    place, target = f"{opened}{created['id']}/", created["uploads"][0]
    send(client, place, target, [1, 2, 3])
    assert join(client, place, target).status_code == 200
    assert renewed(client, place) == []
    assert client.post(f"{place}submit/").json()["state"] == "processing"
    again = client.post(opened, {"name": "night", "files": files}).json()
    client.delete(f"{opened}{again['id']}/")
    sweep_parts()
    assert list(object_store.unfinished()) == []


@pytest.mark.parametrize("size", [1, PART - 1, PART, PART + 1, 2 * PART, len(CONTENT)])
def test_a_checksum_fed_in_pieces_is_that_of_the_parts(size):
    data = CONTENT[:size]
    parts = [data[at : at + PART] for at in range(0, size, PART)]
    assert [len(part) for part in parts] == part_sizes(size, PART)
    for piece in (7_000_001, PART, 40 * MIB):
        sum_ = Checksum(PART)
        for at in range(0, size, piece):
            sum_.update(data[at : at + piece])
        assert sum_.hexdigest() == md5_of_parts(map(md5, parts))


def test_no_file_has_more_parts_than_storage_takes():
    for size in (PART, 10_000 * PART, 10_000 * PART + 1, 5 << 40):
        part = part_bytes_of(size)
        assert part >= PART
        assert len(part_sizes(size, part)) <= 10_000


def test_joining_asks_storage_for_no_sum_of_the_whole_file(client, monkeypatch):
    """To compute it, some storage reads all bytes again, which takes seconds for a gigabyte."""
    heads = []
    monkeypatch.setattr(ObjectStorage, "head", staticmethod(lambda key: heads.append(key)))
    upload(client)
    assert heads == []
