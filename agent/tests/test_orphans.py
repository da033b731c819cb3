"""The agent reaps all processes of a sandbox."""

import asyncio
import sys
from pathlib import Path

import pytest

from agent.device.process_table import descendants, read_table
from agent.protocol.messages import EndReason
from agent.protocol.plan import Plan
from agent.runtimes.command import command_for
from agent.tests.fakes import require_sandbox, start_agent
from agent.tests.script_device import ScriptDevice

RUNS = 8
TIMEOUT_S = 60.0

#: prints the children that are left after trials of bubblewrap
TRIAL = """\
import tempfile
from pathlib import Path
from agent.device.process_table import read_table
from agent.execution.runner import adopt_orphans
from agent.execution.sandbox import find_sandbox
import os
adopt_orphans()
for _ in range(10):
    sandbox = find_sandbox((Path(tempfile.mkdtemp(dir="/var/tmp")),), ())
assert not sandbox.problem, sandbox.problem
print([row for row in read_table().values() if row.parent == os.getpid()])
"""


def ended_below(pid: int) -> list[str]:
    """Return the zombies in this process's tree."""
    rows = descendants(read_table(), [pid]).values()
    return [f"{row.name} {row.pid} of {row.parent}" for row in rows if row.state == "Z"]


async def test_trials_of_bubblewrap_leave_no_zombies(sandbox):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", TRIAL, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().strip() == "[]"


@pytest.fixture
def sandbox(tmp_path: Path) -> None:
    require_sandbox((tmp_path,))


@pytest.mark.exhaustive
@pytest.mark.megengine
async def test_many_scripts_and_models_leave_no_zombies(
    sandbox, device, server, storage, megengine_python, testdata
):
    storage.files["model.mge"] = (testdata / "models" / "tiny.mge").read_bytes()
    command = command_for("wheel", megengine_python)
    agent = await start_agent(
        server, device.spool, "wheel", command, boxed=True, python=megengine_python
    )
    try:
        await server.wait(lambda: server.connection is not None, TIMEOUT_S)
        assert ended_below(agent.pid) == []
        script_device = ScriptDevice(device, server)
        end = await script_device.run("import megengine as mge\nmge.tensor([1.0]) + 1\n")
        assert (end.reason, end.exit_code) == (EndReason.EXITED, 0), end.detail
        for _ in range(RUNS - 1):
            # the sandbox is the same without MegEngine, whose import takes a second
            end = await script_device.run("print('hello')")
            assert (end.reason, end.exit_code) == (EndReason.NO_PROFILE, 0), end.detail
        for _ in range(RUNS):
            plan = Plan(preset="custom", clean=False, profiled=1)
            order = await server.send_order(plan=plan, options={"iter": 1}, fill=True)
            end = await server.wait_for_end(order, TIMEOUT_S)
            assert (end.reason, end.exit_code) == (EndReason.EXITED, 0), end.detail
        assert ended_below(agent.pid) == []
    finally:
        agent.terminate()
        await agent.wait()
