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
from agent.protocol.measurement import Measurement
from agent.protocol.messages import AttemptStarted, Cancel, EndReason, RuntimeInfo
from agent.protocol.plan import Plan
from agent.runtimes.command import command_for
from agent.tests.fakes import is_alive, wait_until
from agent.tests.warm_device import wait_until_gone


async def test_an_attempt_uses_the_pre_started_process(warm_device, device, server, storage):
    device.start()
    await warm_device.wait_for_processes()
    order = await server.send_order(
        data=(storage.input_file("data.npy", "data"),), options={"iter": 3}
    )
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert warm_device.start_kinds()[:1] == ["warm"]
    assert "cold" not in warm_device.start_kinds()
    assert json.loads(storage.stored["profile.json"]) == {"graph_exec": {}}
    assert server.log_text().startswith("load model")
    command = server.messages(AttemptStarted)[0].command
    assert command.endswith(
        "load_and_run folder model.mge --input=data:input_0.npy --no_sanity_check --iter=3 "
        "--profile=profile.json"
    )
    await device.wait_until_forgotten()


async def test_a_pre_started_process_serves_one_attempt(warm_device, device, server):
    warm_device.install("say(str(os.getpid())); write_profile()")
    device.start()
    pids = []
    for number in (1, 2):
        await warm_device.wait_for_processes(number)
        pids.append(warm_device.pid())
        await server.run()
        assert server.log_text() == f"{pids[-1]}\n"
        await wait_until_gone(pids[-1])
    assert len(set(pids)) == 2
    assert "cold" not in warm_device.start_kinds()


async def test_run_s_does_not_include_the_time_before_the_arguments(warm_device, device, server):
    device.start()
    await warm_device.wait_for_processes()
    await asyncio.sleep(0.6)
    begin = time.monotonic()
    end = await server.run()
    assert end.run_s < time.monotonic() - begin


async def test_the_start_up_of_a_pre_started_process_is_unknown(
    warm_device, device, server, storage
):
    """It does not include the import of MegEngine, so it says nothing about the next run."""
    device.start()
    await warm_device.wait_for_processes()
    plan = Plan(preset="custom", clean=True, clean_passes=2, profiled=0)
    assert (await server.run(plan=plan)).exit_code == 0
    first, second = Measurement.model_validate_json(storage.stored["measurement.json"]).passes
    assert (first.start_s, second.start_s is None) == (None, False)


async def test_a_new_process_replaces_a_dead_one(warm_device, device, server):
    device.start()
    await warm_device.wait_for_processes()
    os.kill(warm_device.pid(), signal.SIGKILL)
    await wait_until_gone(warm_device.pid())
    end = await server.run()
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert warm_device.start_kinds()[:2] == ["warm", "cold"]
    await warm_device.wait_for_processes(2)
    assert len(warm_device.folders()) == 1


async def test_a_new_process_replaces_one_that_dies_during_the_download(
    warm_device, device, server, storage
):
    storage.delay_s = 0.3
    device.start()
    await warm_device.wait_for_processes()
    order = await server.send_order()
    await wait_until(lambda: "GET model.mge" in storage.requests)
    os.kill(warm_device.pid(), signal.SIGKILL)
    end = await server.wait_for_end(order)
    assert (end.reason, end.exit_code) == (EndReason.EXITED, 0)
    assert warm_device.start_kinds()[:2] == ["warm", "cold"]


async def test_other_pre_started_processes_end_while_an_attempt_runs(warm_device, device, server):
    go_on = device.folder / "go-on"
    warm_device.install(f'wait_for("{go_on}"); write_profile()', ("1.13.0", "1.12.0"))
    device.start()
    await warm_device.wait_for_processes(2)
    idle = {warm_device.pid(0), warm_device.pid(1)}
    order = await server.start_attempt()
    assert sum(is_alive(pid) for pid in idle) == 1
    await asyncio.sleep(0.3)
    assert len(warm_device.start_kinds()) == 2
    assert not warm_device.folders()
    go_on.touch()
    await server.wait_for_end(order)
    await warm_device.wait_for_processes(4)


async def test_a_cancelled_attempt_ends_its_pre_started_process(
    warm_device, device, server, storage
):
    storage.delay_s = 600
    device.start()
    await warm_device.wait_for_processes()
    pid = warm_device.pid()
    order = await server.send_order()
    await wait_until(lambda: "GET model.mge" in storage.requests)
    await server.send(Cancel(attempt=order.attempt))
    end = await server.wait_for_end(order)
    assert end.reason is EndReason.CANCELLED
    await wait_until_gone(pid)
    await warm_device.wait_for_processes(2)


async def test_no_process_is_pre_started_if_warm_is_off(warm_device, device, server):
    device.changes["warm"] = False
    device.start()
    await server.run()
    await asyncio.sleep(0.3)
    assert warm_device.start_kinds() == ["cold"]


async def test_a_stopped_agent_leaves_no_process_and_no_folder(warm_device, device):
    device.start()
    await warm_device.wait_for_processes()
    await device.stop()
    assert not is_alive(warm_device.pid())
    assert not warm_device.folders()


@pytest.mark.megengine
async def test_a_pre_started_interpreter_prints_the_same_as_a_new_one(
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
