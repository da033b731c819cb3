"""What a process that waits for an attempt can reach, and that none is left."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from agent.protocol import AttemptStarted, EndReason, Hello
from agent.sandbox import find_sandbox
from agent.tests.conftest import Device
from agent.tests.fakes import is_alive
from agent.tests.warmed import LOOK_AROUND, until_gone
from webprofile.tests.needs import need

AGENT = """\
import asyncio, sys
from pathlib import Path
from agent.config import Config
from agent.daemon import work
from agent.inventory import Runtime
from agent.protocol import RuntimeInfo
from agent.retry import Policies
from agent.sandbox import Sandbox, find_sandbox
config = Config(server=sys.argv[1], token="mgw_x", spool=Path(sys.argv[2]))
runtime = Runtime(RuntimeInfo(version="1.13.0", kind="wheel"), (sys.argv[3], "folder"))
sandbox = find_sandbox((config.spool,), ()) if sys.argv[4] == "boxed" else Sandbox()
asyncio.run(work(config, Policies(), {"1.13.0": runtime}, sandbox))
"""


def box(device: Device) -> None:
    need("bubblewrap")
    device.spool.mkdir(exist_ok=True)
    device.sandbox = find_sandbox((device.spool,), ())
    if device.sandbox.problem:
        pytest.skip(device.sandbox.problem)


@pytest.mark.parametrize("how", ["plain", "boxed"])
async def test_a_killed_agent_leaves_no_process(warmed, device, server, how):
    if how == "boxed":
        box(device)
        # inside the sandbox nothing can be noted outside of its folder
        warmed.pids = Path("/dev/null")
        warmed.install()
    (command, _) = device.runtimes["1.13.0"].command
    arguments = [sys.executable, "-c", AGENT, server.url, str(device.spool), command, how]
    agent = await asyncio.create_subprocess_exec(*arguments)
    try:
        pids = await children_of(agent.pid)
    finally:
        agent.kill()
        await agent.wait()
    assert len(pids) == (3 if how == "boxed" else 1)
    for pid in pids:
        await until_gone(pid)
    (left,) = warmed.folders()
    device.start()
    await server.expect(Hello, 2)
    assert not left.exists()


async def children_of(parent: int) -> list[int]:
    """Wait for the agent's child that lives on, and return it and its own children.

    The process of its heartbeat is none that waits for an attempt.
    """
    async with asyncio.timeout(10):
        while True:
            await asyncio.sleep(0.3)
            first = warming(parent)
            await asyncio.sleep(0.3)
            if first and warming(parent) == first:
                break
    found = list(first)
    for pid in found:
        inner = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found.extend(int(child) for child in inner)
    return found


def warming(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [
        int(pid)
        for pid in children
        if b"agent/heart.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


async def test_a_killed_agents_warm_run_is_ended_by_the_next_agent(warmed, device, server):
    warmed.install("""
if os.fork() == 0:
    os.setsid()
    open("../escaped", "w").write(str(os.getpid()))
time.sleep(60)
""")
    (command, _) = device.runtimes["1.13.0"].command
    arguments = [sys.executable, "-c", AGENT, server.url, str(device.spool), command, "plain"]
    agent = await asyncio.create_subprocess_exec(*arguments)
    await warmed.waits()
    order = server.order()
    await server.send(order)
    await server.expect(AttemptStarted)
    await asyncio.sleep(0.2)
    agent.kill()
    await agent.wait()
    escaped = int((device.spool / "attempts" / str(order.attempt) / "escaped").read_text())
    assert is_alive(warmed.pid()) and is_alive(escaped)
    device.start()
    end = await server.end_of(order)
    assert end.reason is EndReason.AGENT_RESTARTED
    await until_gone(warmed.pid())
    await until_gone(escaped)


async def test_a_sandboxed_warm_run_sees_only_its_own_folder(warmed, device, server):
    box(device)
    token = device.folder / "agent.token"
    token.write_text("mgw_secret")
    device.sandbox = find_sandbox((device.spool,), (token,))
    look = LOOK_AROUND.format(
        token=str(token),
        site=str(device.folder / "no such folder" / "secrets.json"),
        outside=str(device.folder / "file"),
        port=server.port,
        home=str(Path.home() / "diary"),
        agent=os.getpid(),
    )
    look += 'say("files " + " ".join(sorted(os.listdir("."))))\n'
    # what it notes elsewhere is lost inside: it says itself that it was warm
    warmed.pids = Path("/dev/null")
    warmed.install('say("warm " + str(is_warm))\n' + look)
    device.start()
    await server.wait(lambda: server.connection is not None)
    await asyncio.sleep(0.5)
    (device.spool / "attempts" / "another").mkdir()
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    lines = server.log_text().splitlines()
    assert "warm True" in lines
    assert "token PermissionError" in lines or "token ''" in lines
    assert "others True" in lines
    assert "write OSError" in lines
    assert "network ConnectionRefusedError" in lines or "network OSError" in lines
    assert "processes True" in lines
    assert "files model.mge profile.json" in lines
    assert "bwrap" not in server.of(AttemptStarted)[0].command
