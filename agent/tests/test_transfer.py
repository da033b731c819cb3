"""Downloads and uploads: verification, retries, and permanent failures."""

import errno
import hashlib
import logging

import pytest

from agent.link import cache, transfers
from agent.protocol.messages import CAUSE_DIGEST, AttemptStarted, AttemptUploads, EndReason
from agent.protocol.notes import Note
from agent.tests.fakes import MODEL, explanation

RESULT_FILES = {"log.txt", "manifest.json", "measurement.json", "profile.json"}

REFUSED = Note.of("refused_size", size=9, limit=8)


@pytest.mark.parametrize(
    ("changes", "refusals", "detail", "tries"),
    [
        ({"md5": "0" * 32}, [], "the MD5 checksum differs from the announced one.", 2),
        ({"size_bytes": 399}, [], "received 400 bytes instead of 399 bytes.", 3),
        ({"size_bytes": 401}, [], "received 400 bytes instead of 401 bytes.", 3),
        ({}, [503] * 9, "storage responded with HTTP status 503.", 3),
        (
            {},
            [403] * 9,
            "storage responded with HTTP status 403: the URL has expired or was refused.",
            1,
        ),
        (
            {"url": "http://127.0.0.1:9/model.mge?signature=secret"},
            [],
            "no connection to storage (ConnectError).",
            0,
        ),
    ],
    ids=["md5", "longer", "shorter", "down", "expired", "nobody"],
)
async def test_a_failed_download_fails_the_attempt(
    device, server, storage, changes, refusals, detail, tries
):
    storage.error_statuses = {"model.mge": refusals}
    device.start()
    end = await server.run(model=storage.input_file("model.mge", **changes))
    assert (end.reason, explanation(end)) == (EndReason.DOWNLOAD_FAILED, f"model.mge: {detail}")
    # bytes that differ twice are not fetched a third time: the user is told
    assert end.cause == (CAUSE_DIGEST if "md5" in changes else "")
    assert storage.requests.count("GET model.mge") == tries
    assert not server.messages(AttemptStarted)
    await device.wait_until_forgotten()


async def test_a_download_is_retried_after_a_server_error(device, server, storage):
    storage.error_statuses = {"model.mge": [503, 500]}
    device.start()
    assert (await server.run()).exit_code == 0


async def test_an_expired_upload_url_is_replaced(device, server, storage):
    storage.error_statuses = {"profile.json": [403, 503]}
    device.start()
    end = await server.run()
    assert end.exit_code == 0
    assert {file.name for file in end.files} == RESULT_FILES
    requested = [
        {file.name for file in question.files} for question in server.messages(AttemptUploads)
    ]
    assert requested == [RESULT_FILES, {"profile.json"}, {"profile.json"}]


async def test_a_stored_file_is_not_uploaded_again(device, server, storage):
    storage.url = lambda name: "" if name == "log.txt" else type(storage).url(storage, name)
    device.start()
    end = await server.run()
    assert {file.name for file in end.files} == RESULT_FILES
    assert "PUT log.txt" not in storage.requests


async def test_a_failed_upload_fails_the_attempt(device, server, storage):
    storage.error_statuses = {"profile.json": [503] * 9}
    device.start()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.UPLOAD_FAILED, 0)
    assert explanation(end) == "profile.json: storage responded with HTTP status 503."
    assert {file.name for file in end.files} == RESULT_FILES - {"profile.json"}


@pytest.mark.parametrize(
    ("lost", "refused", "note"),
    [
        ([400], {}, Note.of("storage_status", name="log.txt", status=400)),
        (
            [],
            {"log.txt": REFUSED},
            Note.of("file_refused", name="log.txt", problem=REFUSED),
        ),
    ],
    ids=["lost", "refused"],
)
async def test_a_failed_upload_of_the_log_does_not_hide_why_the_run_failed(
    device, server, storage, lost, refused, note
):
    storage.error_statuses, server.rejected_files = {"log.txt": lost}, refused
    device.start("os.abort()")
    end = await server.run()
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 134, "SIGABRT")
    assert end.notes == (note,)


async def test_requests_for_upload_urls_are_limited(device, server):
    server.answers_uploads = False
    device.start()
    end = await server.run()
    assert end.reason is EndReason.UPLOAD_FAILED
    assert 4 <= len(server.messages(AttemptUploads)) <= 6


async def test_signatures_and_tokens_are_not_logged(device, server, storage, caplog):
    caplog.set_level(logging.INFO, logger="agent")
    storage.error_statuses = {"model.mge": [503], "profile.json": [403]}
    device.start()
    await server.run()
    await server.run(model=storage.input_file("model.mge", url="http://127.0.0.1:9/x?secret"))
    own = [record.getMessage() for record in caplog.records if record.name.startswith("agent")]
    assert any(line.startswith("pass_started attempt=") for line in own)
    assert not any("secret" in line for line in own)


async def test_a_wrong_sha256_of_the_server_does_not_select_another_cached_file(
    device, server, storage
):
    device.start()
    # a file with the same size but another MD5, for which the server announces a wrong SHA-256
    storage.files["other.mge"] = MODEL[::-1]
    (model,) = (await server.run()).received
    wrong = storage.input_file("other.mge", sha256=model.sha256)
    end = await server.run(model=wrong)
    assert end.exit_code == 0
    assert storage.requests.count("GET other.mge") == 1
    assert end.received[0].sha256 == hashlib.sha256(MODEL[::-1]).hexdigest()


async def test_an_unreadable_cache_does_not_fail_the_attempt(device, server, storage, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    device.start()
    (model,) = (await server.run()).received
    monkeypatch.setattr(cache, "_copy", fail)
    end = await server.run(model=storage.input_file("model.mge", sha256=model.sha256))
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert storage.requests.count("GET model.mge") == 2


async def test_a_restarted_agent_verifies_a_cached_file_once(device, server, storage, monkeypatch):
    hashed = []
    whole = transfers._checksum_of
    device.start()
    (model,) = (await server.run()).received
    await device.wait_until_forgotten()
    await device.stop()

    def counted(path, part_bytes=0):
        hashed.append(path.name)
        return whole(path, part_bytes)

    monkeypatch.setattr(transfers, "_checksum_of", counted)
    device.start()
    for _ in range(2):
        end = await server.run(model=storage.input_file("model.mge", sha256=model.sha256))
        assert end.exit_code == 0
    assert storage.requests.count("GET model.mge") == 1
    assert hashed.count("model.mge") == 1


async def test_a_file_refused_by_the_server_fails_the_attempt(device, server, storage):
    server.rejected_files = {"log.txt": REFUSED}
    device.start()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.OUTPUT_TOO_LARGE, 0)
    assert explanation(end) == "log.txt was refused: it has 9 bytes; the limit is 8 bytes"
    assert {file.name for file in end.files} == RESULT_FILES - {"log.txt"}
    assert not [request for request in storage.requests if "log.txt" in request]


async def test_the_cache_makes_room_for_a_download_before_it_begins(
    device, server, storage, monkeypatch
):
    asked = []

    def make_room(_, size):
        asked.append((size, "GET model.mge" in storage.requests))

    monkeypatch.setattr(cache.ContentCache, "make_room", make_room)
    device.start()
    assert (await server.run()).exit_code == 0
    assert asked == [(len(MODEL), False)]
