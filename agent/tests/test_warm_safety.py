"""Access of a pre-started process, and its end."""

import asyncio
from pathlib import Path

import pytest

from agent.protocol.messages import EndReason, Hello
from agent.tests.fakes import TIMEOUT_S, is_alive, read_pid, require_sandbox, start_agent
from agent.tests.warm_device import wait_until_gone


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_sandboxed", [False, True])
async def test_a_killed_agent_leaves_no_pre_started_process(
    warm_device, device, server, is_sandboxed
):
    if is_sandboxed:
        device.spool.mkdir()
        device.sandbox = require_sandbox((device.spool,))
        # files outside of its folder are not writable in the sandbox
        warm_device.pids = Path("/dev/null")
        warm_device.install()
    command = device.runtimes["1.13.0"].command
    agent = await start_agent(server, device.spool, "wheel", command, boxed=is_sandboxed)
    try:
        pids = await children_of(agent.pid)
    finally:
        agent.kill()
        await agent.wait()
    assert len(pids) == (3 if is_sandboxed else 1)
    for pid in pids:
        await wait_until_gone(pid)
    (leftover,) = warm_device.folders()
    device.start()
    await server.expect(Hello, 2)
    assert not leftover.exists()


async def children_of(parent: int) -> list[int]:
    """Wait for the agent's pre-started process; return it and its children.

    The heartbeat process is not one.
    """
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            await asyncio.sleep(0.3)
            first = pre_started(parent)
            await asyncio.sleep(0.3)
            if first and pre_started(parent) == first:
                break
    pids = list(first)
    for pid in pids:
        inner = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pids.extend(int(child) for child in inner)
    return pids


def pre_started(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [
        int(pid)
        for pid in children
        if b"agent/link/heartbeat_process.py" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@pytest.mark.exhaustive
async def test_the_next_agent_ends_the_pre_started_run_of_a_killed_agent(
    warm_device, device, server
):
    warm_device.install("""
if os.fork() == 0:
    os.setsid()
    open("../escaped", "w").write(str(os.getpid()))
time.sleep(60)
""")
    command = device.runtimes["1.13.0"].command
    agent = await start_agent(server, device.spool, "wheel", command)
    await warm_device.wait_for_processes()
    order = await server.start_attempt()
    escaped = await read_pid(device.spool / "attempts" / str(order.attempt) / "escaped")
    agent.kill()
    await agent.wait()
    assert is_alive(warm_device.pid()) and is_alive(escaped)
    device.start()
    end = await server.wait_for_end(order)
    assert end.reason is EndReason.AGENT_RESTARTED
    await wait_until_gone(warm_device.pid())
    await wait_until_gone(escaped)
