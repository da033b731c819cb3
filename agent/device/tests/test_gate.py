"""The gate: an idle device is recognized in 0.1 s; for a busy device the wait is limited."""

import asyncio
import time

import pytest

from agent.config import GateLimits
from agent.device import gate
from agent.device.gate import busy_reasons, cool_down, wait_until_idle
from agent.device.state import WINDOW_S, Counters, OtherProcess, read_counters
from agent.device.tests.make import snapshot

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
def rests(monkeypatch):
    """Record the requested pauses in seconds; their real duration depends on the machine."""
    taken = []
    sleep = gate._sleep

    async def rest(seconds, halted):
        if seconds > 0:
            taken.append(seconds)
        await sleep(seconds, halted)

    monkeypatch.setattr(gate, "_sleep", rest)
    return taken


async def test_a_gate_that_is_off_costs_nothing_and_looks_at_nothing(rests):
    result = await wait_until_idle(GateLimits(enabled=False), asyncio.Event())
    assert (result.passed, result.before, result.waited_s) == (True, None, 0.0)
    assert rests == []


async def test_a_calm_device_costs_one_window(rests):
    result = await wait_until_idle(CALM, asyncio.Event())
    assert result.passed
    (rest,) = rests
    assert 0 < rest <= WINDOW_S
    assert WINDOW_S - 0.01 <= result.before.window_s <= result.waited_s + 0.01


async def test_with_counters_read_before_it_costs_nothing(rests):
    since = read_counters()
    await asyncio.sleep(0.15)
    result = await wait_until_idle(CALM, asyncio.Event(), since)
    assert result.passed
    assert rests == []
    assert result.before.window_s >= 0.15


async def test_counters_of_long_ago_say_nothing():
    old = Counters(time.monotonic() - 60, (), 0.0, 0.0)
    result = await wait_until_idle(CALM, asyncio.Event(), old)
    assert result.before.window_s < 5


async def test_a_busy_device_is_waited_for_until_it_is_calm(load):
    load[:] = [2.0, 2.0, 0.1]
    result = await wait_until_idle(GateLimits(max_temperature_c=200.0), asyncio.Event())
    assert (result.passed, result.reasons) == (True, ())
    assert result.waited_s >= 0.2


async def test_a_device_that_stays_busy_is_used_anyway_and_that_is_told(load):
    load[:] = [1.9]
    result = await wait_until_idle(GateLimits(wait_s=0.5), asyncio.Event())
    assert not result.passed
    assert "1.9 cores" in result.reasons[0]
    assert result.waited_s >= 0.5


async def test_a_cancel_ends_the_waiting(load):
    load[:] = [1.9]
    halted = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, halted.set)
    result = await wait_until_idle(GateLimits(wait_s=60), halted)
    assert result.waited_s < 30


def test_each_reason_is_named():
    busy = OtherProcess(name="make", cpu_percent=99.0, memory_bytes=1)
    seen = snapshot(temperature_c=90.0, memory_available_bytes=5 << 20, processes=(busy,))
    assert busy_reasons(seen, 0.6, GateLimits()) == (
        "other processes use 0.6 cores (make)",
        "the CPU has 90 degrees Celsius",
        "only 5 MiB of memory are free",
    )
    bare = snapshot(temperature_c=None, memory_available_bytes=None)
    assert busy_reasons(bare, 0.4, GateLimits()) == ()


async def test_attempts_are_kept_apart_by_the_rest_of_the_pause(rests):
    limits, halted = GateLimits(cool_down_s=0.5), asyncio.Event()
    assert await cool_down(limits, None, halted) == 0
    await cool_down(limits, time.monotonic() - 5, halted)
    assert rests == []
    assert await cool_down(limits, time.monotonic() - 0.1, halted) >= rests[0] - 0.01
    assert 0 < rests[0] <= 0.4
    halted.set()
    assert await cool_down(GateLimits(cool_down_s=60), time.monotonic(), halted) < 30
