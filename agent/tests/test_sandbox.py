"""Access of a run inside bubblewrap; skipped if this machine does not support it."""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from agent.protocol.messages import AttemptStarted, Cancel, EndReason
from agent.tests.fakes import require_sandbox, wait_until
from agent.tests.warm_device import PROBE

AGENT = Path(__file__).resolve().parents[1]


@pytest.fixture
def sandboxed_device(device, monkeypatch):
    device.spool.mkdir()
    token = device.folder / "agent.token"
    token.write_text("mgw_secret")
    site = device.folder / "site"
    site.mkdir()
    (site / "secrets.json").write_text("keys")
    # not below the folder of pytest, which is visible because it contains the runtime
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        (Path(home) / "diary").write_text("private")
        monkeypatch.setenv("HOME", home)
        device.home = Path(home)
        device.sandbox = require_sandbox((device.spool, site), (token,))
        yield device


def program_runs_in_sandbox(log: str) -> bool:
    """Return whether bubblewrap of a pre-started process has started the program.

    Until then it needs the folder that an attempt would move.
    """
    started = re.search(r"process_warmed pid=(\d+)", log)
    if started is None:
        return False
    processes = psutil.Process(int(started[1])).children(recursive=True)
    return any(process.name() != "bwrap" for process in processes)


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
async def test_a_sandboxed_run_can_access_only_its_folder(
    sandboxed_device, warm_device, server, is_warm, caplog
):
    caplog.set_level(logging.INFO, logger="agent")
    look = PROBE.format(
        token=str(sandboxed_device.folder / "agent.token"),
        site=str(sandboxed_device.folder / "site" / "secrets.json"),
        outside=str(sandboxed_device.folder / "file"),
        port=server.port,
        home=str(sandboxed_device.home / "diary"),
        agent=os.getpid(),
    )
    look += 'say("files " + " ".join(sorted(os.listdir("."))))\n'
    if is_warm:
        # files outside are not writable, so the run prints how it was started
        warm_device.pids = Path("/dev/null")
        warm_device.install('say("warm " + str(is_warm))\n' + look)
    else:
        sandboxed_device.install(look)
    sandboxed_device.start()
    await server.wait(lambda: server.connection is not None)
    if is_warm:
        await wait_until(lambda: program_runs_in_sandbox(caplog.text))
    (sandboxed_device.spool / "attempts" / "another").mkdir()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    lines = server.log_text().splitlines()
    assert ("warm True" in lines) == is_warm
    assert "token PermissionError" in lines or "token ''" in lines
    assert "site FileNotFoundError" in lines
    assert "others True" in lines
    assert "write OSError" in lines
    assert "network ConnectionRefusedError" in lines or "network OSError" in lines
    assert "processes True" in lines
    assert "home FileNotFoundError" in lines
    assert "homes []" in lines or "homes PermissionError" in lines
    assert "services []" in lines or "services ['opengl-driver']" in lines
    assert "memory []" in lines
    assert "powers 0000000000000000" in lines
    assert "disk []" in lines
    assert "kernel OSError" in lines or "kernel PermissionError" in lines
    assert "parent ProcessLookupError" in lines
    assert "files model.mge profile.json" in lines
    assert "bwrap" not in server.messages(AttemptStarted)[0].command


async def test_a_sandboxed_run_can_be_cancelled(sandboxed_device, server):
    sandboxed_device.install(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    )
    sandboxed_device.start()
    order = await server.start_attempt()
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert end.reason is EndReason.CANCELLED


async def test_an_abort_in_the_sandbox_has_the_exit_code_of_a_shell(sandboxed_device, server):
    sandboxed_device.install("os.abort()")
    sandboxed_device.start()
    end = await server.run()
    assert (end.exit_code, end.detail) == (134, "SIGABRT")


#: burns 0.6 s of CPU time in a sandbox and prints how much of it came to the agent's account
ACCOUNT = """
import asyncio, sys, tempfile, uuid
from pathlib import Path
from agent.device.state import read_counters
from agent.execution.runner import Limits, adopt_orphans, start_run
from agent.execution.sandbox import find_sandbox
from agent.execution.watchdog import Watchdog, WatchLimits
BURN = "import time\\nwhile time.process_time() < 0.6: pass"
async def main():
    adopt_orphans()
    work = Path(tempfile.mkdtemp(dir="/var/tmp"))
    command = find_sandbox((work,), ()).wrap([sys.executable, "-S", "-c", BURN], work)
    begin = read_counters().own_s
    run = await start_run(command, work, work / "output", Limits(), uuid.uuid4())
    watchdog = Watchdog(work, work / "output", WatchLimits())
    await run.wait(20, lambda: 1.0, asyncio.Event(), watchdog)
    print(read_counters().own_s - begin)
asyncio.run(main())
"""


def test_the_cpu_time_of_a_sandboxed_run_counts_as_the_agents():
    require_sandbox((Path("/var/tmp"),))
    done = subprocess.run(
        [sys.executable, "-c", ACCOUNT], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) > 0.5


RUN_IN_SANDBOX = """
import subprocess, sys
from pathlib import Path
from agent.runtimes.command import command_for
from agent.execution.sandbox import find_sandbox
sandbox, work = find_sandbox((Path(sys.argv[1]),), ()), Path(sys.argv[1])
subprocess.run(sandbox.wrap([*command_for("wheel", sys.executable)], work))
"""


def test_load_and_run_of_a_wheel_starts_if_the_agent_is_in_a_home_folder():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home, tempfile.TemporaryDirectory() as work:
        require_sandbox((Path(work),))
        source = Path(home) / "lib"
        shutil.copytree(AGENT, source / "agent", ignore=shutil.ignore_patterns("tests"))
        done = subprocess.run(
            [sys.executable, "-c", RUN_IN_SANDBOX, work],
            cwd=source,
            env=os.environ | {"HOME": home, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "no model is given" in done.stderr
