"""Division of the cores, and binding of runs and of the agent."""

import os
import subprocess
import sys

import pytest

from agent.device.cores import (
    Cores,
    CoresUnavailable,
    available_cores,
    choose_cores,
    oversubscription,
)
from agent.execution import runner
from agent.execution.report import _describe_host
from agent.execution.runner import Limits
from agent.protocol.messages import Facts

SHOW = [sys.executable, "-SEc", "import os; print(sorted(os.sched_getaffinity(0)))"]


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        ({}, None),
        ({"multithread": 2}, None),
        ({"multithread": 3}, 3),
        ({"thread": 4}, 4),
        ({"thread": 2, "multithread_default": 4}, 8),
        ({"cpu": True, "iter": 50}, None),
    ],
)
def test_more_threads_than_cores_cause_a_note(options, threads):
    notes = oversubscription(options, cores=(4, 5))
    assert len(notes) == (threads is not None)
    for note in notes:
        assert (note.code, note.values) == ("oversubscribed", {"threads": threads, "cores": 2})


def test_without_bound_cores_those_of_this_process_count():
    many = len(os.sched_getaffinity(0)) + 1
    assert oversubscription({"multithread": many})
    assert not oversubscription({"multithread": many - 1})


@pytest.mark.parametrize(
    ("config", "available", "expected"),
    [
        ("auto", {0, 1, 2, 3}, Cores((0, 1, 2), (3,))),
        ("auto", {8, 2, 4, 6}, Cores((2, 4, 6), (8,))),
        ("auto", {0, 1, 2}, Cores()),
        ("auto", set(), Cores()),
        ((1,), {0, 1}, Cores((1,), (0,))),
        ((1, 0), {0, 1}, Cores((0, 1), ())),
        ((), {0, 1}, Cores()),
    ],
)
def test_cores_are_divided_between_runs_and_the_agent(config, available, expected):
    assert choose_cores(config, available) == expected


def test_missing_cores_are_named_in_the_error():
    with pytest.raises(CoresUnavailable, match=r"cores \[7\] are not available.*\[0, 1\]"):
        choose_cores((0, 7), {0, 1})


@pytest.mark.parametrize("with_taskset", [True, False])
async def test_a_run_is_bound_to_the_measured_cores(watched_run, monkeypatch, with_taskset):
    if not with_taskset:
        monkeypatch.setattr(runner, "_which", lambda program: None)
    core = max(available_cores())
    # without taskset, the run is bound right after its start
    wait = "until [ -e bound ]; do sleep 0.01; done; "
    command = ["sh", "-c", f"{wait} exec {SHOW[0]} {SHOW[1]} '{SHOW[2]}'"]
    run = await watched_run.start(command, Limits(cores=(core,)))
    (watched_run.work / "bound").touch()
    await watched_run.wait(run)
    assert watched_run.output.read_text() == f"[{core}]\n"


def test_a_pinned_agent_does_not_pin_its_runs():
    first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    code = f"""
import asyncio, os, pathlib, tempfile, threading, uuid
from agent.device.cores import pin_self
from agent.execution.runner import Limits, start_run
from agent.execution.watchdog import Watchdog, WatchLimits
started = threading.Event()
thread = threading.Thread(target=started.wait)
thread.start()
pin_self(({last},))
print(*[sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")])
started.set()
async def run():
    folder = pathlib.Path(tempfile.mkdtemp())
    run = await start_run({SHOW!r}, folder, folder / "o", Limits(cores=({first},)), uuid.uuid4())
    watchdog = Watchdog(folder, folder / "o", WatchLimits())
    await run.wait(20, lambda: 0.1, asyncio.Event(), watchdog)
    print((folder / "o").read_text(), end="")
asyncio.run(run())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"[{last}] [{last}]\n[{first}]\n"


def test_manifest_names_the_cores_of_runs_and_not_those_of_the_agent():
    facts = Facts(hostname="h", platform="p", machine="m", cores=4, memory_bytes=1)
    assert _describe_host(facts, (0, 1, 2))["allowed_cores"] == [0, 1, 2]
    assert _describe_host(facts, ())["allowed_cores"] == sorted(os.sched_getaffinity(0))
