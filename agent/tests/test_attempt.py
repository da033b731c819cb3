"""An attempt on the device, from the order to the acknowledged end."""

import asyncio
import errno
import json
import shutil
import time
from pathlib import Path

import pytest

from agent.execution.spool import Folder
from agent.protocol.messages import (
    MAX_FRAME_BYTES,
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    EndReason,
    Heartbeat,
    Hello,
    encode,
)
from agent.protocol.notes import Note
from agent.tests.conftest import AgentDevice
from agent.tests.fakes import MODEL, TOKEN, FakeServer, explanation, is_alive, wait_until


async def test_an_order_is_accepted_run_uploaded_and_reported(device, server, storage):
    device.start()
    begin = time.monotonic()
    order = await server.send_order(
        data=(storage.input_file("data.npy", "data"),), options={"iter": 3}
    )
    end = await server.wait_for_end(order)

    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 0, "")
    assert end.log_end == ""
    assert 0 < end.run_s < time.monotonic() - begin
    assert {file.name for file in end.files} == {
        "log.txt",
        "manifest.json",
        "measurement.json",
        "profile.json",
    }
    assert json.loads(storage.stored["profile.json"]) == {"graph_exec": {}}
    assert "finished test #0" in server.log_text()
    assert all(headers["X-Given"] == "1" for headers in storage.put_headers)
    started = server.messages(AttemptStarted)[0]
    assert started.command.endswith(
        "load_and_run model.mge --input=data:input_0.npy --no_sanity_check --iter=3 "
        "--profile=profile.json"
    )
    kinds = [m.type for m in server.received if m.type not in ("attempt.log", "heartbeat")]
    assert kinds[0] == "hello"
    assert kinds[-2:] == ["attempt.uploads", "attempt.finished"]
    assert server.messages(AttemptAccepted)


async def test_hello_contains_the_token_runtimes_and_facts(device, server):
    device.start()
    hello = await server.expect(Hello)
    assert server.authorization == [f"Bearer {TOKEN}"]
    assert hello.runtimes[0].version == "1.13.0"
    assert hello.facts.cores >= 1
    assert hello.facts.memory_bytes > 1 << 20
    assert hello.running == frozenset()


PROBE = """
say("cwd " + " ".join(sorted(os.listdir("."))) + " of " + os.path.basename(os.getcwd()))
say("bytes " + str(os.path.getsize("model.mge")))
for name in sorted(os.environ): say("env " + name + "=" + os.environ[name])
say("stdin " + repr(os.read(0, 1)))
import resource
say("core " + str(resource.getrlimit(resource.RLIMIT_CORE)[1]))
say("data " + str(resource.getrlimit(resource.RLIMIT_DATA)[1]))
say("leader " + str(os.getpgrp() == os.getpid() == os.getsid(0)))
say("fds " + " ".join(sorted(os.listdir("/proc/self/fd"))))
write_profile()
"""


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
async def test_a_run_has_its_files_and_limits_but_no_secrets(warm_device, device, server, is_warm):
    if is_warm:
        warm_device.install(PROBE)
    else:
        device.install(PROBE)
    device.changes["memory_limit_bytes"] = 5 << 30
    device.start()
    if is_warm:
        await warm_device.wait_for_processes()
    await server.run()
    assert "cold" not in warm_device.start_kinds()
    text = server.log_text()
    assert "cwd model.mge of work\n" in text
    assert f"bytes {len(MODEL)}\n" in text
    assert "env MGE_FASTRUN_CACHE_TYPE=MEMORY\n" in text
    assert "env NO_COLOR=1\n" in text
    assert "env LANG=C.UTF-8\n" in text
    assert "stdin b''" in text
    assert "core 0\n" in text
    assert f"data {5 << 30}\n" in text
    assert "leader True\n" in text
    # 3 is the descriptor of the listing itself
    assert "fds 0 1 2 3\n" in text
    assert TOKEN not in text
    names = {line.split("=")[0] for line in text.splitlines() if line.startswith("env ")}
    assert len(names) <= 15


async def test_an_order_that_is_sent_twice_runs_once(device, server):
    device.start('say("run"); time.sleep(0.3); write_profile()')
    order = await server.send_order()
    await server.expect(AttemptAccepted)
    await server.send(order)
    await server.expect(AttemptAccepted, 2)
    await server.wait_for_end(order)
    assert [report.passes_done for report in server.messages(AttemptStarted)] == [0, 1]
    assert server.log_text() == "run\n"


async def test_acceptance_is_repeated_until_acknowledged(device, server):
    device.start("time.sleep(20)")
    server.acks.discard("attempt.accepted")
    await server.send_order()
    await server.expect(AttemptAccepted, 3)
    server.acks.add("attempt.accepted")
    count = len(server.messages(AttemptAccepted)) + 1
    await server.expect(AttemptAccepted, count)
    await asyncio.sleep(0.3)
    assert len(server.messages(AttemptAccepted)) <= count + 1


async def test_the_end_is_repeated_until_acknowledged_and_then_forgotten(
    device: AgentDevice, server: FakeServer
):
    server.acks.discard("attempt.finished")
    device.start()
    await server.send_order()
    await server.expect(AttemptFinished, 3)
    assert len(set(server.messages(AttemptFinished))) == 1
    assert len(device.attempts()) == 1
    server.acks.add("attempt.finished")
    await device.wait_until_forgotten()


async def test_the_result_survives_a_disk_that_is_full_at_the_end(
    device, server, storage, monkeypatch
):
    write = Folder.write

    def full(folder, **changes):
        if "ended" in changes:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(folder, **changes)

    monkeypatch.setattr(Folder, "write", full)
    device.start()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert {file.name for file in end.files} == set(storage.stored)
    await device.wait_until_forgotten()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), RuntimeError("a bug")])
async def test_a_process_that_cannot_be_recorded_is_watched_or_ended(
    device, server, monkeypatch, error
):
    write, started = Folder.write, []

    def full(folder, **changes):
        if "process" in changes:
            started.append(changes["process"].pid)
            raise error
        write(folder, **changes)

    monkeypatch.setattr(Folder, "write", full)
    device.start("time.sleep(0.5); write_profile()")
    end = await server.run()
    is_full = isinstance(error, OSError)
    assert end.reason is (EndReason.EXITED if is_full else EndReason.AGENT_ERROR)
    assert started
    assert not any(is_alive(pid) for pid in started)


async def test_the_output_that_filled_the_disk_makes_room_for_the_log(
    device, server, storage, monkeypatch
):
    write = Path.write_text

    def full(path, text, **how):
        if path.name == "log.txt" and (path.parent.parent / "output").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    device.start('say("hello"); write_profile()')
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert b"hello" in storage.stored["log.txt"]


async def test_a_failed_run_whose_log_cannot_be_written_is_reported(device, server, monkeypatch):
    write = Path.write_text

    def full(path, text, **how):
        if path.name == "log.txt":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    device.start('say("last words"); sys.exit(3)')
    end = await server.run()
    assert (end.reason, end.exit_code, end.log_end) == (EndReason.EXITED, 3, "")


@pytest.mark.parametrize("does", ["sys.exit(120)", "pass"], ids=["fails", "leaves nothing"])
async def test_a_failure_on_a_full_disk_is_an_error_of_the_agent(device, server, monkeypatch, does):
    was_full = device.folder / "was-full"
    usage = shutil.disk_usage

    def full_at_first(path):
        if path.name != "work":
            return usage(path)
        free = 1 << 40 if was_full.exists() else 0
        was_full.touch()
        return usage(path)._replace(free=free)

    monkeypatch.setattr("agent.execution.watchdog.shutil.disk_usage", full_at_first)
    device.start(f'wait_for("{was_full}"); {does}')
    end = await server.run()
    assert (end.reason, end.notes) == (EndReason.AGENT_ERROR, (Note.of("disk_full"),))


@pytest.mark.parametrize("name", ["measurement.json", "manifest.json", "log.txt"])
async def test_a_truncated_result_file_is_not_uploaded(device, server, storage, monkeypatch, name):
    write = Path.write_text

    def full(path, text, **how):
        if path.name == name:
            write(path, text[: len(text) // 2 if name == "manifest.json" else 0], **how)
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    device.start()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert {file.name for file in end.files} == set(storage.stored)
    assert "profile.json" in storage.stored
    assert name not in storage.stored
    await device.wait_until_forgotten()


async def test_the_end_of_a_failed_run_contains_the_last_output(device, server):
    device.start('say("x" * 5000); say("lar::ModelError: it is none"); sys.exit(3)')
    end = await server.run()
    assert end.log_end.endswith("lar::ModelError: it is none\n")
    assert len(end.log_end) == 4000


@pytest.mark.parametrize("character", ["\x01", "🙂"])
async def test_output_with_special_characters_fits_into_the_end(device, server, character):
    device.start(f"say({character!r} * 12000); sys.exit(3)")
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 3)
    assert len(end.log_end) >= 2500
    assert set(end.log_end) == {character, "\n"}
    assert len(encode(end).encode()) <= MAX_FRAME_BYTES
    await device.wait_until_forgotten()


async def test_a_file_name_that_is_not_utf_8_fits_into_the_end(device, server):
    # a file that exists before the watchdog starts does not count
    watched = device.folder / "watched"
    device.start(f"""
        wait_for("{watched}")
        with open(b"large \\xff", "wb") as file: file.truncate(2 << 30)
        time.sleep(60)
    """)
    order = await server.start_attempt()
    watched.touch()
    end = await server.wait_for_end(order)
    assert end.reason is EndReason.OUTPUT_TOO_LARGE
    assert explanation(end) == "The file large ? reached the size limit of 2.0 GiB."
    await device.wait_until_forgotten()


async def test_the_working_folder_is_removed_before_the_end_is_acknowledged(device, server):
    server.acks.discard("attempt.finished")
    device.start("""
        os.makedirs("locked/inner"); os.chmod("locked/inner", 0); os.chmod("locked", 0)
        write_profile()
    """)
    await server.run()
    (folder,) = device.attempts()
    assert sorted(path.name for path in folder.iterdir()) == ["record.json", "result"]
    assert "signature" not in (folder / "record.json").read_text()


async def test_only_the_owner_can_access_the_folders(device, server):
    device.start("time.sleep(20)")
    await server.start_attempt()
    (folder,) = device.attempts()
    for path in (folder.parent, folder, folder / "work", folder / "result"):
        assert path.stat().st_mode & 0o077 == 0


async def test_an_abort_has_the_exit_code_of_a_shell(device, server):
    device.start("""
        say("going to warmup"); say("iter 0/3: e2e=1 ms"); write_profile(); os.abort()
    """)
    end = await server.run()
    assert (end.reason, end.exit_code, end.detail) == (EndReason.EXITED, 134, "SIGABRT")
    # including the output of the timed part
    assert server.log_text().endswith("iter 0/3: e2e=1 ms\n")


@pytest.mark.parametrize(
    "body",
    ['say("nothing to do")', 'write_profile("")', 'os.symlink("/etc/hostname", "profile.json")'],
    ids=["nothing", "empty", "link"],
)
async def test_exit_0_without_a_profile_is_a_failure(device, server, body):
    device.start(body)
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.NO_PROFILE, 0)
    assert "profile.json" not in {file.name for file in end.files}


async def test_a_missing_runtime_is_reported(device, server):
    device.start()
    end = await server.run(runtime="1.9.0")
    assert (end.reason, end.exit_code) == (EndReason.NO_RUNTIME, None)
    assert end.notes == (Note.of("runtime_not_configured", version="1.9.0"),)


async def test_an_invalid_option_is_refused(device, server):
    device.start()
    end = await server.run(options={"iter": -1})
    assert end.reason is EndReason.REFUSED
    assert end.notes == (Note.of("option_too_small", option="iter", limit=1),)
    assert (await server.run(options={"io_dump": "/etc/passwd"})).reason is EndReason.REFUSED


async def test_a_name_that_load_and_run_would_split_is_refused(device, server, storage):
    device.start()
    data = (storage.input_file("data.npy", "x;y:/etc/passwd"),)
    # a compiled load_and_run does not read such a name
    assert (await server.run(data=data)).reason is EndReason.INPUT_WRONG
    twice = storage.input_file("model.mge", "x")
    assert (await server.run(data=(twice,))).reason is EndReason.REFUSED


async def test_two_ordered_attempts_run_concurrently(device, server, tmp_path):
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    # neither ends before the other one has begun
    device.start(f"""\
import os
open(os.path.join({str(meeting)!r}, str(os.getpid())), "w").close()
last = time.time() + 20
while len(os.listdir({str(meeting)!r})) < 2:
    assert time.time() < last, "alone"
    time.sleep(0.02)
write_profile()
""")
    orders = [server.make_order(), server.make_order()]
    for order in orders:
        await server.send(order)
    for order in orders:
        assert (await server.wait_for_end(order, 30)).exit_code == 0


async def test_heartbeats_contain_an_attempt_until_its_end_is_acknowledged(device, server):
    server.heartbeat_s = 0.05
    server.acks.discard("attempt.finished")
    enough = device.folder / "enough"
    device.start(f'wait_for("{enough}"); write_profile()')
    order = await server.send_order()
    # over HTTP while it is measured, over the socket until its end is acknowledged
    await wait_until(lambda: len(server.front.heartbeats) >= 3)
    enough.touch()
    await server.wait_for_end(order)
    assert all(heartbeat.running == {order.attempt} for heartbeat in server.front.heartbeats)
    heartbeat = await server.expect(Heartbeat, len(server.messages(Heartbeat)) + 2)
    assert heartbeat.running == {order.attempt}


async def test_log_chunks_join_to_the_uploaded_log(device, server, storage):
    device.start("""
        for i in range(3000): say(f"line {i} ä")
        time.sleep(0.3)
        os.write(1, "cut: \\u20ac".encode()[:-1]); time.sleep(0.3); os.write(1, b"\\xac \\xff")
        write_profile()
    """)
    await server.run()
    chunks = server.messages(AttemptLog)
    assert [chunk.seq for chunk in chunks] == list(range(1, len(chunks) + 1))
    offset = 0
    for chunk in chunks:
        assert (chunk.offset, chunk.size) == (offset, len(chunk.text.encode()))
        assert chunk.size <= 8192
        offset += chunk.size
    text = "".join(chunk.text for chunk in chunks)
    assert text.encode() == storage.stored["log.txt"]
    assert text.startswith("line 0 ä\nline 1 ä\n")
    assert text.endswith("cut: € \ufffd")


async def test_a_long_log_keeps_its_begin_and_end(device, server):
    device.install("""
        say("begin")
        for i in range(40): os.write(1, b"x" * 4095 + b"\\n")
        say("end"); write_profile()
    """)
    device.changes["log_limit_bytes"] = 20_000
    device.start()
    end = await server.run()
    text = server.log_text()
    assert end.exit_code == 0
    assert text.startswith("begin\n")
    assert text.endswith("end\n")
    assert "\n[log truncated at 20000 bytes: 163850 were printed, the end follows]\n" in text
    assert len(text) < 20_000 + 65_536 + 200


async def test_an_attempt_fails_without_a_run_if_the_spool_cannot_be_written(device, server):
    device.start()
    await server.run()
    await device.wait_until_forgotten()
    attempts = device.spool / "attempts"
    attempts.rmdir()
    attempts.write_text("in the way")
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.AGENT_ERROR, None)
    assert "NotADirectoryError" in end.detail
    assert [report.passes_done for report in server.messages(AttemptStarted)] == [0, 1]
