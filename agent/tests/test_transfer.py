"""Downloads and uploads: verification, retries, and permanent failures."""

import errno
import hashlib
import logging

import pytest

from agent.link import cache, transfers
from agent.protocol import AttemptStarted, AttemptUploads, EndReason
from agent.tests.fakes import MODEL

ALL = {"log.txt", "manifest.json", "measurement.json", "profile.json"}


@pytest.mark.parametrize(
    ("changes", "refusals", "detail", "tries"),
    [
        ({"md5": "0" * 32}, [], "MD5 differs from what was announced", 3),
        ({"size_bytes": 399}, [], "400 bytes arrived instead of 399", 3),
        ({"size_bytes": 401}, [], "400 bytes arrived instead of 401", 3),
        ({}, [503] * 9, "the storage answered 503", 3),
        ({}, [403] * 9, "the storage answered 403: its address has expired or was refused", 1),
        (
            {"url": "http://127.0.0.1:9/model.mge?signature=secret"},
            [],
            "no connection to the storage (ConnectError)",
            0,
        ),
    ],
    ids=["md5", "longer", "shorter", "down", "expired", "nobody"],
)
async def test_a_file_that_cannot_be_had_fails_the_attempt(
    device, server, storage, changes, refusals, detail, tries
):
    storage.refusals = {"model.mge": refusals}
    device.start()
    end = await server.run(model=storage.input_file("model.mge", **changes))
    assert (end.reason, end.detail) == (EndReason.DOWNLOAD_FAILED, f"model.mge: {detail}")
    assert storage.requests.count("GET model.mge") == tries
    assert not server.of(AttemptStarted)
    await device.forgets_all()


async def test_a_storage_that_is_down_for_a_moment_is_asked_again(device, server, storage):
    storage.refusals = {"model.mge": [503, 500]}
    device.start()
    assert (await server.run()).exit_code == 0


async def test_an_expired_upload_address_is_replaced_by_a_new_one(device, server, storage):
    storage.refusals = {"profile.json": [403, 503]}
    device.start()
    end = await server.run()
    assert end.exit_code == 0
    assert {file.name for file in end.files} == ALL
    requested = [{file.name for file in question.files} for question in server.of(AttemptUploads)]
    assert requested == [ALL, {"profile.json"}, {"profile.json"}]


async def test_a_file_that_is_stored_already_is_not_sent_again(device, server, storage):
    storage.url = lambda name: "" if name == "log.txt" else type(storage).url(storage, name)
    device.start()
    end = await server.run()
    assert {file.name for file in end.files} == ALL
    assert "PUT log.txt" not in storage.requests


async def test_an_upload_that_never_works_turns_success_into_failure(device, server, storage):
    storage.refusals = {"profile.json": [503] * 9}
    device.start()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.UPLOAD_FAILED, 0)
    assert end.detail == "profile.json: the storage answered 503"
    assert {file.name for file in end.files} == ALL - {"profile.json"}


@pytest.mark.parametrize(
    ("lost", "refused", "detail"),
    [
        ([400], {}, "SIGABRT (log.txt: the storage answered 400)"),
        ([], {"log.txt": "too large"}, "SIGABRT; log.txt: refused: too large"),
    ],
    ids=["lost", "refused"],
)
async def test_a_log_that_is_not_stored_does_not_hide_why_the_run_failed(
    device, server, storage, lost, refused, detail
):
    storage.refusals, server.refused = {"log.txt": lost}, refused
    device.start("os.abort()")
    end = await server.run()
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 134, detail)


async def test_a_server_that_names_no_place_is_not_asked_for_ever(device, server):
    server.answers_uploads = False
    device.start()
    end = await server.run()
    assert end.reason is EndReason.UPLOAD_FAILED
    assert 4 <= len(server.of(AttemptUploads)) <= 6


async def test_no_signature_and_no_token_is_logged(device, server, storage, caplog):
    caplog.set_level(logging.INFO, logger="agent")
    storage.refusals = {"model.mge": [503], "profile.json": [403]}
    device.start()
    await server.run()
    await server.run(model=storage.input_file("model.mge", url="http://127.0.0.1:9/x?secret"))
    own = [record.getMessage() for record in caplog.records if record.name.startswith("agent")]
    assert any(line.startswith("pass_started attempt=") for line in own)
    assert not any("secret" in line for line in own)


async def test_a_cached_file_of_another_content_is_not_taken_for_the_users(device, server, storage):
    device.start()
    # same size, but what is announced has another MD5: its SHA-256 was told wrongly
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


async def test_a_restarted_agent_checks_once_that_a_cached_file_is_the_announced_one(
    device, server, storage, monkeypatch
):
    hashed = []
    whole = transfers._checksum_of
    device.start()
    (model,) = (await server.run()).received
    await device.forgets_all()
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


async def test_a_refused_file_is_not_stored_and_turns_success_into_failure(device, server, storage):
    server.refused = {"log.txt": "it has 9 bytes, the most is 8"}
    device.start()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.OUTPUT_TOO_LARGE, 0)
    assert end.detail == "log.txt: refused: it has 9 bytes, the most is 8"
    assert {file.name for file in end.files} == ALL - {"log.txt"}
    assert not [request for request in storage.requests if "log.txt" in request]
