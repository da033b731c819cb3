"""Peak memory of runs: of real processes, with and without a sandbox, and of MegEngine."""

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from agent.execution import memory, processes
from agent.execution.memory import PeakMemory
from agent.protocol.messages import EndReason
from agent.protocol.plan import Plan
from agent.runtimes.command import command_for
from agent.tests.fakes import require_sandbox, start_agent, wait_until
from testdata import DATA

PYTHON = [sys.executable, "-SEc"]
MIB = 1 << 20
#: an interpreter without packages, and what the processes of one test may differ by
SLACK_MIB = 60

#: uses 400 MiB for a moment, and ends before the first sample
MOMENT = "b = b'x' * (400 << 20); del b"
#: the child of a shell does
CHILD = f'{sys.executable} -SEc "{MOMENT}"; true'
#: parent and child hold 150 MiB each until a sample has been taken
TREE = "import os, time; os.fork(); b = b'x' * (150 << 20); time.sleep(1.2)"
#: holds 400 MiB, tells it, and does not end
HOLD = "b = b'x' * (400 << 20); import time; open('ready', 'w'); time.sleep(60)"


@pytest.mark.parametrize(
    ("command", "least_mib", "method"),
    [
        ([*PYTHON, MOMENT], 400, "exit"),
        (["sh", "-c", CHILD], 400, "exit"),
        ([*PYTHON, TREE], 300, "samples"),
    ],
    ids=["a moment", "a child", "a tree"],
)
async def test_the_peak_of_a_run_is_known_to_a_few_mib(watched_run, command, least_mib, method):
    if method == "exit":  # without a sandbox, the kernel passes the peak of this process on
        own_mib = psutil.Process().memory_info().rss // MIB
        command = [part.replace("400", str(400 + own_mib)) for part in command]
        least_mib += own_mib
    found = (await watched_run.run(command)).memory
    assert least_mib * MIB <= found.host_memory_bytes <= (least_mib + SLACK_MIB) * MIB
    assert (found.memory_method, found.gpu_memory_bytes) == (method, None)


async def test_a_killed_run_has_a_peak(watched_run):
    run = await watched_run.start([*PYTHON, HOLD])
    stop = asyncio.Event()
    ending = asyncio.create_task(watched_run.wait(run, stop))
    await wait_until((watched_run.work / "ready").exists)
    stop.set()
    result = await ending
    assert result.reason is EndReason.CANCELLED
    assert 400 * MIB <= result.memory.host_memory_bytes <= (400 + SLACK_MIB) * MIB


async def test_a_peak_below_that_of_the_agent_is_known_from_samples_only(watched_run):
    assert (await watched_run.run(["true"])).memory == PeakMemory()
    found = (await watched_run.run(["sleep", "0.8"])).memory
    assert found.memory_method == "samples"
    assert 0 < found.host_memory_bytes < 20 * MIB


async def test_without_proc_the_peak_is_unknown(watched_run, monkeypatch):
    for module in (memory, processes):
        monkeypatch.setattr(module, "read_peak_bytes", lambda pid: None)
    result = await watched_run.run([*PYTHON, MOMENT])
    assert (result.exit_code, result.memory) == (0, PeakMemory())


class FakeGpus:
    """GPUs on which the processes of a run use as much as the last of `samples`."""

    def __init__(self, *samples):
        self._samples = list(samples)

    def __len__(self):
        return 1

    def used_bytes(self, pids):
        assert pids
        return self._samples.pop(0) if self._samples else None


async def test_the_gpu_memory_is_the_largest_sample(watched_run):
    found = (await watched_run.run(["sleep", "1.8"], gpus=FakeGpus(None, 3 << 30, MIB))).memory
    assert found.gpu_memory_bytes == 3 << 30
    found = (await watched_run.run(["sleep", "0.7"], gpus=FakeGpus(None))).memory
    assert found.gpu_memory_bytes is None


#: runs a program in the sandbox and prints its peak; in a process of its own, since it adopts
#: orphans as the agent does
IN_SANDBOX = """
import asyncio, json, sys, tempfile, uuid
from dataclasses import asdict
from pathlib import Path
from agent.execution.runner import Limits, adopt_orphans, start_run
from agent.execution.sandbox import find_sandbox
from agent.execution.watchdog import Watchdog, WatchLimits
async def main():
    adopt_orphans()
    work = Path(tempfile.mkdtemp(dir="/var/tmp"))
    command = find_sandbox((work,), ()).wrap([sys.executable, "-SEc", sys.argv[1]], work)
    run = await start_run(command, work, work / "output", Limits(), uuid.uuid4())
    watchdog, stop = Watchdog(work, work / "output", WatchLimits()), asyncio.Event()
    async def end_when_ready():
        while not (work / "ready").exists():
            await asyncio.sleep(0.05)
        stop.set()
    ending = asyncio.create_task(end_when_ready())
    result = await run.wait(60, lambda: 0.1, stop, watchdog)
    ending.cancel()
    print(json.dumps(asdict(result.memory)))
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [MOMENT, HOLD], ids=["a moment", "killed"])
def test_a_sandbox_does_not_hide_the_peak(program):
    require_sandbox((Path("/var/tmp"),))
    done = subprocess.run(
        [sys.executable, "-c", IN_SANDBOX, program], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["memory_method"]
    assert 400 * MIB <= found["host_memory_bytes"] <= (400 + SLACK_MIB) * MIB


TWO_PASSES = Plan(preset="custom", clean=True, clean_min_s=0.0, clean_min_iterations=5, profiled=1)
IMAGE_SHAPE = (4, 24, 24)


def npy_file(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.exhaustive
@pytest.mark.megengine
@pytest.mark.parametrize("is_boxed", [True, False], ids=["in the sandbox", "without a sandbox"])
async def test_a_larger_input_of_a_model_raises_its_peak(
    device, server, storage, megengine_python, is_boxed
):
    if is_boxed:
        require_sandbox((device.folder,))
    storage.files["model.mge"] = (DATA / "models" / "dynamic_shape.mge").read_bytes()
    command = command_for("wheel", megengine_python)
    agent = await start_agent(server, device.spool, "wheel", command, boxed=is_boxed)

    async def measure_bytes(batch: int) -> list[int]:
        storage.files["data.npy"] = npy_file(np.zeros((batch, *IMAGE_SHAPE), "float32"))
        data = storage.input_file("data.npy", "data")
        order = await server.send_order(plan=TWO_PASSES, data=(data,))
        end = await server.wait_for_end(order, 120)
        assert end.exit_code == 0
        passes = json.loads(storage.stored["measurement.json"])["passes"]
        assert {record["memory_method"] for record in passes} == {"exit"}
        sizes = [record["host_memory_bytes"] for record in passes]
        assert (end.host_memory_bytes, end.gpu_memory_bytes) == (max(sizes), None)
        return sizes

    try:
        await server.wait(lambda: server.connection is not None)
        fresh = await measure_bytes(1)
        warm = device.spool / "warm"
        await wait_until(lambda: warm.exists() and any(warm.iterdir()))
        await asyncio.sleep(1.5)
        # the first pass uses the interpreter that has just been started
        prestarted = await measure_bytes(1)
        large = await measure_bytes(4000)
    finally:
        agent.terminate()
        await agent.wait()
    assert prestarted == pytest.approx(fresh, rel=0.1)
    added = 4000 * np.prod(IMAGE_SHAPE) * 4
    for few, many in zip(fresh, large, strict=True):
        assert added < many - few < 12 * added
