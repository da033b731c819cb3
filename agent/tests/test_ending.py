"""Runs that are ended by the agent: cancel, timeout, limits; no process is left."""

import signal
import time
import uuid

import pytest

from agent.execution import runner
from agent.protocol.messages import (
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    AttemptUploads,
    Cancel,
    EndReason,
)
from agent.runtimes.command import LOAD_AND_RUN
from agent.tests.conftest import AgentDevice
from agent.tests.fakes import FakeServer, explanation, is_alive, read_pid, wait_until
from agent.tests.warm_device import wait_until_gone
from testdata import DATA

STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN); say("deaf"); time.sleep(60)
"""


async def test_cancel_ends_a_run(device: AgentDevice, server: FakeServer):
    device.start('say("begin"); time.sleep(60)')
    order = await server.start_attempt()
    await server.expect(AttemptLog)
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code, end.detail) == (EndReason.CANCELLED, 143, "SIGTERM")
    assert server.log_text() == "begin\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_run_killed_by_another_program_is_reported_as_killed(device, server, number):
    device.start(f"os.kill(os.getpid(), {int(number)})")
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.KILLED, 128 + number)


@pytest.mark.parametrize("counts", [[4, 5], [None, None]])
async def test_a_run_that_ran_out_of_memory_is_not_reported_as_killed(
    device, server, monkeypatch, counts
):
    monkeypatch.setattr(runner, "oom_kills", lambda: counts.pop(0) if counts else None)
    device.start(f"os.kill(os.getpid(), {int(signal.SIGKILL)})")
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 137)


async def test_cancel_kills_a_process_that_ignores_sigterm_after_grace_s(device, server):
    device.start(STUBBORN)
    order = await server.start_attempt(grace_s=0.4)
    await server.expect(AttemptLog)
    begin = time.monotonic()
    await server.send(Cancel(attempt=order.attempt))
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.CANCELLED, 137)
    assert time.monotonic() - begin >= 0.4


async def test_cancel_during_the_download_starts_nothing(device, server, storage):
    storage.delay_s = 600
    device.start()
    order = await server.send_order()
    await wait_until(lambda: "GET model.mge" in storage.requests)
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.CANCELLED, None)
    assert not server.messages(AttemptStarted)
    await device.wait_until_forgotten()


async def test_cancel_during_the_upload_cancels_the_attempt(device, server):
    server.answers_uploads = False
    device.start()
    order = await server.send_order()
    await server.expect(AttemptUploads)
    await server.send(Cancel(attempt=order.attempt))
    assert (await server.wait_for_end(order)).reason is EndReason.CANCELLED


async def test_cancel_of_an_unknown_attempt_is_confirmed(device, server):
    device.start()
    attempt = uuid.uuid4()
    await server.send(Cancel(attempt=attempt))
    end = await server.expect(AttemptFinished)
    assert (end.attempt, end.reason) == (attempt, EndReason.CANCELLED)


@pytest.mark.exhaustive
async def test_a_timeout_kills_grandchildren(device, server):
    pid_file = device.folder / "pid"
    device.start(f"""
        code = "import os, signal, time; signal.signal(15, signal.SIG_IGN);" \\
            "open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
        import subprocess
        subprocess.Popen([sys.executable, "-SEc", code])
        time.sleep(60)
    """)
    end = await server.run(timeout_s=3)
    assert end.reason is EndReason.TIMED_OUT
    assert explanation(end) == "Stopped after 3 s."
    assert not is_alive(await read_pid(pid_file))


@pytest.mark.parametrize("leaves", ["", "os.setsid()"], ids=["stays", "leaves the group"])
async def test_a_grandchild_that_outlives_its_parent_is_killed(device, server, leaves):
    pid_file = device.folder / "pid"
    device.start(f"""
        if os.fork() == 0:
            {leaves}
            open({str(pid_file)!r}, "w").write(str(os.getpid())); time.sleep(60)
        while not os.path.exists({str(pid_file)!r}): time.sleep(0.01)
        write_profile()
    """)
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    # a busy machine takes a moment to end a process that was killed
    await wait_until_gone(await read_pid(pid_file))


async def test_a_process_above_its_memory_limit_fails(device, server):
    device.changes["memory_limit_bytes"] = 512 << 20
    device.start('x = b"x" * (1 << 30); write_profile()')
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 1)
    assert "MemoryError" in server.log_text()


@pytest.mark.megengine
async def test_a_memory_limit_does_not_count_unused_parts_of_libraries(
    watched_run, megengine_python
):
    """The libraries of the wheel take 1.7 GiB of address space, but 0.2 GiB of memory."""
    model = str(DATA / "models" / "tiny.mge")
    command = [megengine_python, str(LOAD_AND_RUN), model, "--iter=1"]
    result = await watched_run.run(command, runner.Limits(memory_bytes=1 << 30))
    assert result.exit_code == 0, watched_run.output.read_text()


@pytest.mark.parametrize("has_prlimit", [True, False])
async def test_limits_are_set_with_and_without_prlimit(
    watched_run, tmp_path, has_prlimit, monkeypatch
):
    runner._which.cache_clear()
    if not has_prlimit:
        monkeypatch.setenv("PATH", str(tmp_path))
    try:
        # without prlimit, the limits are set right after the start
        shell = "until [ -e limited ]; do /bin/sleep 0.01; done; ulimit -c; ulimit -d; exit 3"
        run = await watched_run.start(["/bin/sh", "-c", shell], runner.Limits(memory_bytes=1 << 30))
        (watched_run.work / "limited").touch()
        result = await watched_run.wait(run)
    finally:
        runner._which.cache_clear()
    assert result.exit_code == 3
    assert watched_run.output.read_text().split() == ["0", str(1 << 20)]
