"""Recovery of the attempts in the spool when the agent starts."""

import asyncio
import errno
import json
import os
import signal
import sys
import uuid
from pathlib import Path

import pytest

from agent.execution.processes import mark_process
from agent.execution.spool import SpoolBusy
from agent.protocol.messages import (
    AttemptAccepted,
    AttemptFinished,
    AttemptStarted,
    AttemptUploads,
    EndReason,
    Hello,
)
from agent.tests.fakes import is_alive, read_pid, start_agent


async def test_an_unacknowledged_end_is_repeated_after_a_restart_of_the_agent(device, server):
    server.acks.discard("attempt.finished")
    device.start()
    order = await server.send_order()
    first = await server.wait_for_end(order)
    await device.stop()
    server.acks.add("attempt.finished")
    count = len(server.messages(AttemptFinished))
    device.start()
    hello = await server.expect(Hello, 2)
    assert hello.running == {order.attempt}
    assert await server.expect(AttemptFinished, count + 1) == first
    await device.wait_until_forgotten()
    assert len(server.messages(AttemptUploads)) == 1


async def test_an_upload_continues_after_a_restart_of_the_agent(device, server, storage):
    server.answers_uploads = False
    device.start()
    order = await server.send_order()
    await server.expect(AttemptUploads)
    await device.stop()
    assert not server.messages(AttemptFinished)
    server.answers_uploads = True
    device.start()
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert {file.name for file in end.files} == set(storage.stored)


async def test_a_stopped_agent_ends_its_run_and_reports_it_after_the_restart(device, server):
    pid_file = device.folder / "pid"
    device.start(f"""
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN); say("deaf")
        open({str(pid_file)!r}, "w").write(str(os.getpid())); time.sleep(60)
    """)
    order = await server.send_order(grace_s=30)
    pid = await read_pid(pid_file)
    async with asyncio.timeout(20):
        await device.stop()
    assert not is_alive(pid)
    assert not server.messages(AttemptFinished)
    device.start()
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.AGENT_RESTARTED, None)
    assert server.log_text() == "deaf\n"
    await device.wait_until_forgotten()


async def test_the_next_agent_ends_the_run_of_a_killed_agent(device, server):
    pid_file = device.folder / "pid"
    device.install(f"""
        say("alone"); open({str(pid_file)!r}, "w").write(str(os.getpid())); time.sleep(60)
    """)
    command = device.runtimes["1.13.0"].command
    agent = await start_agent(server, device.spool, "binary", command)
    order = await server.start_attempt()
    pid = await read_pid(pid_file)
    agent.kill()
    await agent.wait()
    assert is_alive(pid)
    device.start()
    end = await server.wait_for_end(order)
    assert end.reason is EndReason.AGENT_RESTARTED
    assert not is_alive(pid)
    assert server.log_text() == "alone\n"


async def test_a_recycled_pid_is_not_killed(device, server):
    """The record contains this pid with another start time."""
    other_process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    try:
        mark = mark_process(other_process.pid)
        attempt = uuid.uuid4()
        folder = device.spool / "attempts" / str(attempt)
        (folder / "result").mkdir(parents=True)
        record = {
            "attempt": str(attempt),
            "process": {"pid": mark.pid, "ticks": mark.ticks - 1, "boot": mark.boot},
        }
        (folder / "record.json").write_text(json.dumps(record))
        device.start()
        end = await server.expect(AttemptFinished)
        assert (end.attempt, end.reason) == (attempt, EndReason.AGENT_RESTARTED)
        assert is_alive(other_process.pid)
    finally:
        other_process.kill()
        await other_process.wait()


async def test_the_files_of_an_interrupted_run_do_not_keep_the_disk_full(
    device, server, storage, monkeypatch
):
    attempt = uuid.uuid4()
    folder = device.spool / "attempts" / str(attempt)
    for name in ("result", "work"):
        (folder / name).mkdir(parents=True)
    (folder / "output").write_text("hello\n")
    (folder / "record.json").write_text(json.dumps({"attempt": str(attempt)}))
    write = Path.write_text

    def full(path, text, **how):
        if path.name == "log.txt" and (folder / "work").exists():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **how)

    monkeypatch.setattr(Path, "write_text", full)
    device.start()
    end = await server.expect(AttemptFinished)
    assert (end.attempt, end.reason) == (attempt, EndReason.AGENT_RESTARTED)
    assert storage.stored["log.txt"] == b"hello\n"


async def test_an_agent_starts_on_a_full_disk_without_scripts(device, server, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("agent.execution.script_rules.find_closed_sandbox", full)
    device.changes["allow_scripts"] = True
    device.start()
    hello = await server.expect(Hello)
    assert "scripts" not in hello.features
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)


async def test_a_known_order_does_not_run_again_after_a_restart(device, server):
    server.answers_uploads = False
    device.start()
    order = await server.send_order()
    await server.expect(AttemptUploads)
    await device.stop()
    device.start()
    await server.expect(Hello, 2)
    await server.send(order)
    await server.expect(AttemptAccepted, 2)
    assert [report.passes_done for report in server.messages(AttemptStarted)] == [0, 1]


async def test_a_folder_without_a_valid_record_is_removed(device, server):
    litter = device.spool / "attempts" / str(uuid.uuid4())
    (litter / "work").mkdir(parents=True)
    (litter / "record.json").write_text("{half")
    device.start()
    hello = await server.expect(Hello)
    assert hello.running == frozenset()
    assert not litter.exists()


async def test_two_agents_do_not_share_a_spool(device, server):
    device.start()
    await server.expect(Hello)
    first, device.running = device.running, None
    with pytest.raises(SpoolBusy, match="another agent uses the spool"):
        await device.start()
    device.running = first


async def test_sigterm_stops_the_agent_with_exit_code_0(device, server, tmp_path):
    device.install("""
        say("using MegBrain 1.13.0(0) and MegDNN 9.3.0")
        if "model.mge" in sys.argv: time.sleep(60)
    """)
    (command,) = device.runtimes["1.13.0"].command
    config = tmp_path / "agent.toml"
    config.write_text(
        f'server = "{server.url}"\ntoken = "mgw_secret"\nspool = "spool"\n'
        f'[[runtime]]\nversion = "1.13.0"\nkind = "binary"\npath = "{command}"\n'
    )
    config.chmod(0o600)
    agent = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "agent", "run", "--config", str(config)],
        stderr=asyncio.subprocess.PIPE,
    )
    await server.start_attempt()
    agent.send_signal(signal.SIGTERM)
    _, errors = await asyncio.wait_for(agent.communicate(), 30)
    assert agent.returncode == 0, errors
    assert b"stopping signal=SIGTERM" in errors
    assert b"mgw_secret" not in errors
    assert os.listdir(device.spool / "attempts")
