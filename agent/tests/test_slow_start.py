"""A device that is still booting when the agent starts: MegEngine takes longer than usual."""

import asyncio
import threading

from agent import daemon
from agent.config import RuntimeEntry
from agent.execution import process_pool
from agent.inventory import LocalRuntime
from agent.protocol.messages import Hello, RuntimeInfo
from agent.protocol.notes import Note
from agent.tests.fakes import TIMEOUT_S


async def test_a_version_that_was_too_slow_at_the_start_becomes_usable(device, server, monkeypatch):
    good = device.runtimes
    problem = Note.of("start_slow", path="load_and_run", seconds=15)
    info = RuntimeInfo(version="1.13.0", kind="binary", problem=problem)
    device.runtimes = {"1.13.0": LocalRuntime(info, ())}
    device.changes["runtimes"] = (
        RuntimeEntry(version="1.13.0", kind="binary", path="load_and_run"),
    )
    is_heard = threading.Event()

    def take_inventory(*_, **__):
        is_heard.wait(TIMEOUT_S)
        return good

    monkeypatch.setattr(daemon, "_SLOW_AGAIN_S", 0.05)
    monkeypatch.setattr(daemon, "take_inventory", take_inventory)
    device.start()
    assert (await server.expect(Hello)).runtimes[0].problem == problem
    is_heard.set()
    assert (await server.expect(Hello, 2)).runtimes[0].problem is None
    assert (await server.run()).exit_code == 0


async def test_a_version_that_was_too_slow_at_the_start_is_pre_started(
    warm_device, device, server, monkeypatch
):
    good = device.runtimes
    info = RuntimeInfo(version="1.13.0", kind="wheel", problem=Note.of("import_slow", seconds=15))
    device.runtimes = {"1.13.0": LocalRuntime(info, ())}
    device.changes["runtimes"] = (RuntimeEntry(version="1.13.0", kind="wheel", path="python"),)
    is_usable = threading.Event()

    def take_inventory(*_, **__):
        is_usable.wait(TIMEOUT_S)
        return good

    monkeypatch.setattr(daemon, "_SLOW_AGAIN_S", 0.05)
    monkeypatch.setattr(daemon, "take_inventory", take_inventory)
    device.start()
    await server.expect(Hello)
    # the agent has pre-started what was usable at the start: nothing
    await asyncio.sleep(5 * process_pool.REST_S)
    is_usable.set()
    await server.expect(Hello, 2)
    await warm_device.wait_for_processes()
    assert (await server.run()).exit_code == 0
    assert warm_device.start_kinds()[0] == "warm"
