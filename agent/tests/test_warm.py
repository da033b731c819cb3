"""Pre-started processes that wait for an attempt while the device is idle."""

import asyncio
import json
import logging
import os
import signal
import time

import pytest

from agent.execution import process_pool
from agent.inventory import LocalRuntime
from agent.protocol import AttemptStarted, Cancel, EndReason, RuntimeInfo
from agent.runtimes.command import command_for
from agent.tests.fakes import is_alive, wait_until
from agent.tests.warmed import until_gone


async def test_an_attempt_uses_the_process_that_waits(warmed, device, server, storage):
    device.start()
    await warmed.waits()
    order = await server.ask(data=(storage.input_file("data.npy", "data"),), options={"iter": 3})
    end = await server.end_of(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert warmed.started()[:1] == ["warm"]
    assert "cold" not in warmed.started()
    assert json.loads(storage.stored["profile.json"]) == {"graph_exec": {}}
    assert server.log_text().startswith("load model")
    command = server.of(AttemptStarted)[0].command
    assert command.endswith(
        "load_and_run folder model.mge --input=data:input_0.npy --no_sanity_check --iter=3 "
        "--profile=profile.json"
    )
    await device.forgets_all()


async def test_each_process_serves_one_attempt(warmed, device, server):
    warmed.install("say(str(os.getpid())); write_profile()")
    device.start()
    pids = []
    for number in (1, 2):
        await warmed.waits(number)
        pids.append(warmed.pid())
        await server.run()
        assert server.log_text() == f"{pids[-1]}\n"
        await until_gone(pids[-1])
    assert len(set(pids)) == 2
    assert "cold" not in warmed.started()


async def test_a_warm_run_is_timed_from_its_arguments(warmed, device, server):
    device.start()
    await warmed.waits()
    await asyncio.sleep(0.6)
    begin = time.monotonic()
    end = await server.run()
    assert end.run_s < time.monotonic() - begin


async def test_a_process_that_died_costs_nothing(warmed, device, server):
    device.start()
    await warmed.waits()
    os.kill(warmed.pid(), signal.SIGKILL)
    await until_gone(warmed.pid())
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert warmed.started()[:2] == ["warm", "cold"]
    await warmed.waits(2)
    assert len(warmed.folders()) == 1


async def test_a_process_that_dies_during_the_download_costs_nothing(
    warmed, device, server, storage
):
    storage.delay_s = 0.3
    device.start()
    await warmed.waits()
    order = await server.ask()
    await wait_until(lambda: "GET model.mge" in storage.requests)
    os.kill(warmed.pid(), signal.SIGKILL)
    end = await server.end_of(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert warmed.started()[:2] == ["warm", "cold"]


async def test_no_process_waits_while_an_attempt_runs(warmed, device, server):
    go_on = device.folder / "go-on"
    warmed.install(f'wait_for("{go_on}"); write_profile()', ("1.13.0", "1.12.0"))
    device.start()
    await warmed.waits(2)
    idle = {warmed.pid(0), warmed.pid(1)}
    order = await server.begin()
    assert sum(is_alive(pid) for pid in idle) == 1
    await asyncio.sleep(0.3)
    assert len(warmed.started()) == 2
    assert not warmed.folders()
    go_on.touch()
    await server.end_of(order)
    await warmed.waits(4)


async def test_a_cancelled_attempt_ends_the_process_it_took(warmed, device, server, storage):
    storage.delay_s = 600
    device.start()
    await warmed.waits()
    pid = warmed.pid()
    order = await server.ask()
    await wait_until(lambda: "GET model.mge" in storage.requests)
    await server.send(Cancel(attempt=order.attempt))
    end = await server.end_of(order)
    assert end.reason is EndReason.CANCELLED
    await until_gone(pid)
    await warmed.waits(2)


async def test_an_agent_that_must_not_warm_does_not(warmed, device, server):
    device.changes["warm"] = False
    device.start()
    await server.run()
    await asyncio.sleep(0.3)
    assert warmed.started() == ["cold"]


async def test_a_stopped_agent_leaves_no_process_and_no_folder(warmed, device, server):
    device.start()
    await warmed.waits()
    await device.stop()
    assert not is_alive(warmed.pid())
    assert not warmed.folders()


@pytest.mark.megengine
async def test_the_real_interpreter_says_warm_what_it_says_cold(
    device, server, monkeypatch, megengine_python, caplog
):
    """The model is invalid, so both runs must end with the same error."""
    caplog.set_level(logging.INFO, logger="agent")
    hand_over, handed_over = process_pool.WarmProcess.hand_over, []

    def record(process, command):
        handed_over.append(process.pid)
        return hand_over(process, command)

    monkeypatch.setattr(process_pool.WarmProcess, "hand_over", record)
    monkeypatch.setattr(process_pool, "REST_S", 600)
    command = tuple(command_for("wheel", megengine_python))
    device.runtimes = {"1.13.0": LocalRuntime(RuntimeInfo(version="1.13.0", kind="wheel"), command)}
    device.start()
    await server.wait(lambda: server.connection is not None)
    monkeypatch.setattr(process_pool, "REST_S", 0.1)
    endings = []
    for count in (0, 1):
        await wait_until(lambda count=count: caplog.text.count("process_warmed") == count)
        end = await server.run()
        assert len(handed_over) == count
        lines = [line.partition("]")[2] or line for line in server.log_text().splitlines()]
        endings.append((end.exit_code, end.detail, lines))
    assert endings[0] == endings[1]
    assert endings[0][:2] == (134, "SIGABRT")
    await wait_until(lambda: caplog.text.count("process_warmed") == 2)
    await asyncio.sleep(1.5)
    (folder,) = (device.spool / "warm").iterdir()
    assert (folder / "output").read_text() == ""
