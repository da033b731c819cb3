"""The gate: an idle device is recognized in 0.1 s; for a busy device the wait is limited."""

import asyncio
import time

import pytest

from agent.config import GateLimits
from agent.device import gate
from agent.device.gate import busy_reasons, cool_down, wait_until_idle
from agent.device.state import WINDOW_S, Counters, OtherProcess, read_counters
from agent.device.tests.make import snapshot
from agent.protocol.notes import Note

CALM = GateLimits(max_load=1000.0, max_temperature_c=1000.0, min_memory_bytes=0)


@pytest.fixture
def load(monkeypatch):
    """Replace the load of other processes (in cores) by the items of a list, then its last item."""
    loads = [0.0]
    monkeypatch.setattr(
        gate, "other_cores", lambda since, now: loads.pop(0) if len(loads) > 1 else loads[0]
    )
    monkeypatch.setattr(gate, "_PAUSE_S", 0.05)
    return loads


@pytest.fixture
def pauses(monkeypatch):
    """Record the requested pauses in seconds; their real duration depends on the machine."""
    durations = []
    sleep = gate.sleep_unless_halted

    async def record(seconds, halted):
        if seconds > 0:
            durations.append(seconds)
        return await sleep(seconds, halted)

    monkeypatch.setattr(gate, "sleep_unless_halted", record)
    return durations


async def test_a_disabled_gate_neither_waits_nor_reads_the_device(pauses):
    result = await wait_until_idle(GateLimits(enabled=False), asyncio.Event(), read_counters())
    assert (result.passed, result.before, result.waited_s) == (True, None, 0.0)
    assert pauses == []


async def test_an_idle_device_is_recognized_after_one_window(pauses):
    result = await wait_until_idle(CALM, asyncio.Event(), read_counters())
    assert result.passed
    (pause,) = pauses
    assert 0 < pause <= WINDOW_S
    assert WINDOW_S - 0.01 <= result.before.window_s <= result.waited_s + 0.01


async def test_recent_counters_avoid_the_wait(pauses):
    since = read_counters()
    await asyncio.sleep(0.15)
    result = await wait_until_idle(CALM, asyncio.Event(), since)
    assert result.passed
    assert pauses == []
    assert result.before.window_s >= 0.15


async def test_old_counters_are_not_used():
    old = Counters(time.monotonic() - 60, (), (), 0.0)
    result = await wait_until_idle(CALM, asyncio.Event(), old)
    assert result.before.window_s < 5


async def test_the_gate_waits_until_a_busy_device_is_idle(load):
    load[:] = [2.0, 2.0, 0.1]
    result = await wait_until_idle(
        GateLimits(max_temperature_c=200.0), asyncio.Event(), read_counters()
    )
    assert (result.passed, result.reasons) == (True, ())
    assert result.waited_s >= 0.2


async def test_the_gate_gives_up_after_wait_s_and_reports_the_reason(load):
    load[:] = [1.9]
    result = await wait_until_idle(GateLimits(wait_s=0.5), asyncio.Event(), read_counters())
    assert not result.passed
    assert "190 % of a core" in str(result.reasons[0])
    assert result.waited_s >= 0.5


async def test_cancel_ends_the_wait(load):
    load[:] = [1.9]
    halted = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, halted.set)
    result = await wait_until_idle(GateLimits(wait_s=60), halted, read_counters())
    assert result.waited_s < 30


def test_busy_reasons_name_load_temperature_and_memory():
    busy = OtherProcess(name="make", cpu_percent=99.0, memory_bytes=1)
    busy_snapshot = snapshot(temperature_c=90.0, memory_available_bytes=5 << 20, processes=(busy,))
    assert busy_reasons(busy_snapshot, 0.6, GateLimits()) == (
        Note.of("named_processes", percent=60, names="make"),
        Note.of("hot", degrees=90),
        Note.of("memory_low", mib=5),
    )
    bare = snapshot(temperature_c=None, memory_available_bytes=None)
    assert busy_reasons(bare, 0.4, GateLimits()) == ()


async def test_cool_down_waits_for_the_rest_of_the_pause(pauses):
    limits, halted = GateLimits(cool_down_s=0.5), asyncio.Event()
    assert await cool_down(limits, None, halted) == 0
    await cool_down(limits, time.monotonic() - 5, halted)
    assert pauses == []
    assert await cool_down(limits, time.monotonic() - 0.1, halted) >= pauses[0] - 0.01
    assert 0 < pauses[0] <= 0.4
    halted.set()
    assert await cool_down(GateLimits(cool_down_s=60), time.monotonic(), halted) < 30
