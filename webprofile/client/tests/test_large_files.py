"""Tests of multipart uploads by the client: direct to storage, resumed after interruptions."""

import hashlib
import os
import time
from urllib.parse import urlsplit

import httpx2
import pytest

from agent.protocol.multipart import PART_BYTES, Checksum
from agent.tests.cutting import cutting_proxy
from profiles.models import PartedUpload
from tasks.models import Task, TaskFile
from tasks.tests.make import MODEL, model_bytes
from webprofile.client import parts
from webprofile.client.batchfile.local_files import LocalFile
from webprofile.client.errors import ClientError
from webprofile.client.parts import has_sum, md5_in_parts, send_in_parts
from webprofile.storage import storage as object_store

MIB = 1 << 20
SIZE = 65 * MIB
#: of a file in as many parts, for tests without a site
SMALL_SIZE, SMALL_PART_BYTES = SIZE // 128, PART_BYTES // 128
SUBMIT = ("submit", "-m", "big.mge", "-w", "x86-1", "--no-wait")


@pytest.fixture(scope="module")
def large_model():
    return model_bytes(os.urandom(SIZE - len(MODEL)))


@pytest.fixture
def content(home, large_model):
    (home / "big.mge").write_bytes(large_model)
    return large_model


@pytest.fixture
def small(home):
    path = home / "small.mge"
    path.write_bytes(os.urandom(SMALL_SIZE))
    return path


@pytest.fixture
def cuts(settings, client):
    """A proxy between the client and storage that breaks connections."""
    place = urlsplit(settings.S3_ENDPOINT_URL)
    with cutting_proxy((place.hostname, place.port)) as proxy:
        settings.S3_PUBLIC_ENDPOINT_URL = proxy.address
        yield proxy


def check_stored(content, *, files=1):
    checksum = Checksum(PART_BYTES)
    checksum.update(content)
    stored_files = list(TaskFile.objects.filter(kind="model"))
    assert {(file.md5, file.size_bytes) for file in stored_files} == {(checksum.hexdigest(), SIZE)}
    assert len(stored_files) == files
    for file in stored_files:
        assert object_store.read(file.object_key, limit_bytes=SIZE) == content
    assert not PartedUpload.objects.exists()


@pytest.mark.exhaustive
def test_large_model_is_uploaded_once_in_parts_direct_to_storage(client, proxy, content):
    client.run(*SUBMIT, "-r", "2")
    check_stored(content, files=2)
    assert proxy.received_bytes < 20_000
    assert proxy.count("/join/") == 1


def test_large_model_is_uploaded_whole_if_storage_takes_no_parts(client, content, settings):
    settings.S3_TAKES_PARTS = False
    client.run(*SUBMIT)
    file = TaskFile.objects.get()
    assert (file.md5, file.part_bytes) == (hashlib.md5(content).hexdigest(), 0)


@pytest.mark.exhaustive
def test_only_interrupted_parts_are_sent_again(client, cuts, content):
    cuts.up = [3 * MIB, 20 * MIB, 9 * MIB]
    client.run(*SUBMIT)
    check_stored(content)
    assert sum(cuts.sent) < SIZE + 3 * PART_BYTES + MIB


def break_off(client, cuts):
    """Submit, kill the client once storage has parts, and return the sizes of these parts."""
    # each connection carries one part, then storage does not answer
    cuts.up = [40 * MIB, 1, 1, 1, *[1] * 400]
    process = client.start(*SUBMIT, "--key", "night")
    until = time.monotonic() + 60
    while time.monotonic() < until and not _stored_sizes():
        time.sleep(0.1)
    process.kill()
    process.communicate()
    cuts.wait_until_ended()
    cuts.up = []
    # storage may still be storing a part that it has received completely
    until = time.monotonic() + 60
    while time.monotonic() < until and len(_stored_sizes()) < sum(cuts.sent) // PART_BYTES:
        time.sleep(0.1)
    arrived = _stored_sizes()
    assert arrived
    return arrived


@pytest.mark.exhaustive
def test_submit_after_a_kill_sends_only_missing_parts(client, cuts, content):
    arrived, before = break_off(client, cuts), sum(cuts.sent)
    client.run(*SUBMIT, "--key", "night")
    check_stored(content)
    assert Task.objects.count() == 1
    assert sum(cuts.sent) - before < SIZE - sum(arrived) + MIB


@pytest.mark.exhaustive
def test_submit_refuses_another_file_than_the_interrupted_one(client, cuts, home, content):
    arrived, before = break_off(client, cuts), sum(cuts.sent)
    (home / "big.mge").write_bytes(content[::-1])
    process = client.start(*SUBMIT, "--key", "night")
    assert "differs from the file that was sent before" in "".join(process.communicate())
    assert process.returncode
    assert (_stored_sizes(), sum(cuts.sent)) == (arrived, before)
    (home / "big.mge").write_bytes(content)
    client.run(*SUBMIT, "--key", "night")
    check_stored(content)


class FakeStorage:
    """Storage that calls `then` for each part, and a site that accepts any checksums."""

    def __init__(self, etag, then=lambda: None):
        self.etag, self.then = etag, then
        self.joined, self.requested_numbers = None, []

    def put(self, url, headers, data):
        self.then()
        return httpx2.Response(200, headers={"ETag": self.etag(data)})

    def post(self, path, body=None, *, repeatable):
        if path.endswith("/parts/"):
            self.requested_numbers += [part["number"] for part in body["parts"]]
            return {
                "parts": [
                    address(number) for number in self.requested_numbers[-len(body["parts"]) :]
                ]
            }
        self.joined = body["md5s"]
        return {"md5": "whole"}


def address(number):
    return {"number": number, "url": "", "headers": {}}


def send(path, storage, known=()):
    count = -(-SMALL_SIZE // SMALL_PART_BYTES)
    parts = {"upload": 1, "part_bytes": SMALL_PART_BYTES, "count": count, "done": {}}
    parts["addresses"] = [address(number) for number in known]
    file = LocalFile(path, SMALL_SIZE, "")
    return send_in_parts(storage, 1, {"file": 1, "parts": parts}, file)


def sums_of(path):
    content = path.read_bytes()
    pieces = [content[at : at + SMALL_PART_BYTES] for at in range(0, SMALL_SIZE, SMALL_PART_BYTES)]
    return [hashlib.md5(piece).hexdigest() for piece in pieces]


@pytest.mark.parametrize("own", [False, True])
def test_part_checksum_is_the_etag_or_computed_if_that_is_no_md5(small, own, monkeypatch):
    summed = []
    real = parts._md5
    monkeypatch.setattr(parts, "_md5", lambda data: summed.append(1) or real(data))
    storage = FakeStorage(lambda data: 'W/"1"' if own else f'"{real(data)}"')
    assert send(small, storage) == "whole"
    assert storage.joined == sums_of(small)
    assert len(summed) == (len(storage.joined) if own else 0)


@pytest.mark.parametrize("known", [(), (1,), (1, 2, 3, 4)])
def test_known_part_addresses_are_not_requested_again(small, known):
    storage = FakeStorage(lambda data: f'"{parts._md5(data)}"')
    assert send(small, storage, known) == "whole"
    sums = sums_of(small)
    assert storage.joined == sums
    assert storage.requested_numbers == [n for n in range(1, len(sums) + 1) if n not in known]


def _touch(path):
    os.utime(path, ns=(0, 0))


def _replace(path):
    # atomically, because other parts are read at the same time
    times, other = path.stat(), path.with_suffix(".new")
    other.write_bytes(bytes(SMALL_SIZE))
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("change", [_touch, _replace])
def test_file_that_changes_during_the_upload_is_refused(small, change):
    changes = iter([lambda: change(small)])
    storage = FakeStorage(lambda data: "", lambda: next(changes, lambda: None)())
    with pytest.raises(ClientError, match="changed while it was sent"):
        send(small, storage)
    assert storage.joined is None


def _stored_sizes():
    """Sizes of the parts that storage has."""
    row = PartedUpload.objects.first()
    stored_parts = object_store.stored_parts(row.object_key, row.upload_id) if row else None
    return [size for size, _ in (stored_parts or {}).values()]


def test_file_that_became_shorter_is_refused(small):
    file = LocalFile(small, SMALL_SIZE + 1, "")
    with pytest.raises(ClientError, match="changed while it was sent"):
        md5_in_parts(file, SMALL_PART_BYTES)


@pytest.mark.parametrize("factor", [1, 2])
def test_has_sum_accepts_any_part_size(small, factor, monkeypatch):
    assert parts._SMALLEST_PART_BYTES == PART_BYTES
    monkeypatch.setattr(parts, "_SMALLEST_PART_BYTES", SMALL_PART_BYTES)
    file = LocalFile(small, SMALL_SIZE, "")
    checksum = md5_in_parts(file, factor * SMALL_PART_BYTES)
    assert has_sum(file, checksum)
    assert not has_sum(file, f"{'0' * 32}{checksum[32:]}")
