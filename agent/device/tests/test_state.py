"""Readings of this machine, with a real disturbance."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace as Answer

import pynvml
import pytest

from agent.config import GateLimits
from agent.device import gpu, sensors, state
from agent.device.gate import GateResult, wait_until_idle
from agent.device.gpu import GpuReader, find_gpus
from agent.device.observe import Observer
from agent.device.process_table import (
    descendants,
    read_children,
    read_stat,
    read_table,
    read_tree,
    task_count,
)
from agent.device.state import heavy_processes, read_counters, snapshot_now
from agent.protocol.messages import Gpu

SPIN = "import time\nend = time.time() + 30\nwhile time.time() < end: pass"


def start_other_process(folder, name: str) -> int:
    """Start a process outside of our process tree that spins for 30 s; its parent has ended."""
    program = folder / name
    program.write_text(f"#!{sys.executable} -SE\n{SPIN}\n")
    program.chmod(0o755)
    start = ["sh", "-c", f"setsid {program} >/dev/null 2>&1 & echo $!"]
    return int(subprocess.run(start, capture_output=True, text=True, check=True).stdout)


def poll(read, is_ready):
    """Read until the result is as expected; return it."""
    deadline = time.monotonic() + 30
    while not is_ready(result := read()):
        assert time.monotonic() < deadline, result
        time.sleep(0.02)
    return result


@pytest.fixture
def other_process(tmp_path):
    pid = start_other_process(tmp_path, "spinner-7f3a")
    yield "spinner-7f3a"
    os.kill(pid, signal.SIGKILL)


def test_a_snapshot_describes_this_machine_and_becomes_json():
    begin, after = snapshot_now(), snapshot_now()
    assert abs(begin.at - time.time()) < 10
    assert len(begin.core_percents) == os.cpu_count()
    assert all(0 <= percent <= 100 for percent in begin.core_percents)
    assert 0 < begin.memory_available_bytes <= begin.memory_total_bytes
    assert after.busy_s >= begin.busy_s > 0
    text = json.loads(begin.model_dump_json(exclude_none=True))
    assert text["memory_total_bytes"] == begin.memory_total_bytes


@pytest.mark.exhaustive
async def test_another_busy_process_is_named(other_process):
    observer = Observer(every_s=0.5)
    observer.begin(GateResult(), read_counters())
    own = await asyncio.create_subprocess_exec(
        sys.executable, "-SEc", "import time\nwhile time.process_time() < 1.5: pass"
    )
    await own.wait()
    result = await observer.end()
    names = {process.name for process in result.after.processes}
    assert other_process in names
    assert any(other_process in process for process in result.other_load.processes)
    assert max(sample.own_cores for sample in result.during) > 0.02
    assert any(
        process.name == other_process for sample in result.during for process in sample.processes
    )
    json.dumps(result.to_json())


async def test_the_gate_names_another_busy_process(other_process):
    await asyncio.sleep(0.3)
    result = await wait_until_idle(
        GateLimits(wait_s=1, max_load=0.2), asyncio.Event(), read_counters()
    )
    assert not result.passed
    assert other_process in str(result.reasons[0])


@pytest.mark.exhaustive
async def test_cpu_time_of_a_child_process_counts_as_the_agents_own():
    before = read_counters()
    cpu_seconds = "import time\nwhile time.process_time() < 1: 0"
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", f"{sys.executable} -SEc '{cpu_seconds}'"
    )
    during = read_counters()
    async with asyncio.timeout(60):
        while during.own_s - before.own_s < 0.2:
            await asyncio.sleep(0.05)
            during = read_counters()
    assert child.returncode is None
    assert child.pid not in during.others
    assert all(row.parent != child.pid for row in during.others.values())
    async with asyncio.timeout(60):
        await child.wait()
    # The kernel adds the CPU time of an ended child to its parent, which is the agent.
    assert read_counters().own_s - before.own_s > 0.9


def test_a_process_with_the_mark_of_the_attempt_is_not_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("WEB_PROFILE_ATTEMPT", "5f0c1d2e-3b4a-4c5d-8e6f-7a8b9c0d1e2f")
    since = read_counters()
    pid = start_other_process(tmp_path, "escaped-7f3a")
    poll(lambda: read_stat(pid), lambda row: row.name == "escaped-7f3a" and row.cpu_s > 0.2)
    now = read_counters()
    named = [process.name for process in heavy_processes(since, now)]
    os.kill(pid, signal.SIGKILL)
    assert pid in now.others
    assert "escaped-7f3a" not in named


async def test_a_long_run_keeps_a_bounded_number_of_samples(monkeypatch):
    monkeypatch.setattr("agent.device.observe._MOST_SAMPLES", 8)
    observer = Observer(every_s=0.01)
    observer.begin(GateResult(), read_counters())
    await asyncio.sleep(0.8)
    result = await observer.end()
    assert 2 <= len(result.during) <= 8
    assert [sample.at for sample in result.during] == sorted(sample.at for sample in result.during)


def test_the_process_tree_is_read_with_and_without_lists_of_children(monkeypatch):
    with subprocess.Popen(["sh", "-c", "sleep 5 & sleep 5; true"]) as shell:
        quick = poll(
            lambda: read_tree(shell.pid),
            lambda rows: [row.name for row in rows.values()].count("sleep") == 2,
        )
        children = {row.pid for row in read_children(shell.pid)}
        monkeypatch.setattr("agent.device.process_table._lists_children", lambda: False)
        slow = read_tree(shell.pid)
        assert {row.pid for row in read_children(shell.pid)} == children
        for pid in quick:
            os.kill(pid, signal.SIGKILL)
    assert set(quick) == set(slow) == set(descendants({**slow}, [shell.pid]))
    assert children == set(quick) - {shell.pid}
    assert sorted(row.name for row in quick.values()) == ["sh", "sleep", "sleep"]


def test_the_process_table_contains_this_process():
    row = read_table()[os.getpid()]
    assert (row.parent, row.group) == (os.getppid(), os.getpgid(0))
    assert row.resident_bytes > 1 << 20
    assert task_count() > 0
    assert read_stat(2**22 + 1) is None


@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    """Make a /sys with all files that are read."""
    files = {
        "cpu/cpu0/cpufreq/scaling_governor": "powersave",
        "cpu/cpu1/cpufreq/scaling_governor": "powersave",
        "cpu/cpu0/cpufreq/scaling_cur_freq": "1200000",
        "cpu/cpu1/cpufreq/scaling_cur_freq": "3400000",
        "cpu/cpu0/thermal_throttle/core_throttle_count": "3",
        "cpu/cpu1/thermal_throttle/core_throttle_count": "4",
        "cpu/cpu0/thermal_throttle/package_throttle_count": "9",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(sensors, "_CPU", str(tmp_path / "cpu"))
    caches = (sensors._clock_files, sensors._throttle_files)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def test_clocks_governor_and_throttling_are_read(sysfs):
    assert sensors.read_governor() == "powersave"
    assert sensors.read_max_clock_mhz() == 3400
    assert sensors.read_max_clock_mhz((0,)) == 1200
    assert sensors.read_throttle_counts() == {"core": 7, "package": 9}


@pytest.mark.parametrize(
    "text",
    ["nr_throttled 5\nthrottled_usec 2500000\n", "nr_throttled 5\nthrottled_time 2500000000\n"],
    ids=["cgroup v2", "cgroup v1"],
)
def test_the_time_in_which_a_cpu_limit_stopped_the_group_is_read(monkeypatch, text):
    monkeypatch.setattr(sensors, "read_group_files", lambda *_: ["nr_periods 0", text])
    assert sensors.read_limited_s() == 2.5
    assert read_counters().limited_s == 2.5


def test_no_clock_is_reported_if_the_run_may_be_on_a_core_that_is_not_read(sysfs, tmp_path):
    for core in range(2, 9):
        path = tmp_path / f"cpu/cpu{core}/cpufreq/scaling_cur_freq"
        path.parent.mkdir(parents=True)
        path.write_text("800000\n")
    assert sensors.read_max_clock_mhz(range(9)) is None
    assert sensors.read_max_clock_mhz(range(8)) == 3400


STAT = """\
cpu  900 0 0 0 0 0 0 0 0 0
cpu0 100 10 20 9000 90 5 5 30 7 0
cpu2 {busy} 0 0 9000 0 0 0 40 0 0
intr 12345 0 9
ctxt 1
"""


def test_the_load_of_a_core_is_known_by_its_number_where_others_are_offline(monkeypatch):
    def read(busy):
        monkeypatch.setattr(state, "read_text", lambda path: STAT.format(busy=busy))
        return read_counters(processes=False)

    before, after = read(busy=200), read(busy=300)
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    assert before.busy_on((0,)) == pytest.approx(140 / ticks_per_s)
    assert before.busy_on((2,)) == pytest.approx(200 / ticks_per_s)
    assert after.busy_on((0, 2)) - before.busy_on((0, 2)) == pytest.approx(100 / ticks_per_s)
    assert before.stolen_on((2,)) == pytest.approx(40 / ticks_per_s)
    assert before.busy_on() == before.busy_on((0, 1, 2))


def test_the_hottest_plausible_sensor_is_read(tmp_path, monkeypatch):
    files = []
    for number, text in enumerate(("45000", "71500", "-273000", "none")):
        files.append(str(tmp_path / str(number)))
        (tmp_path / str(number)).write_text(text)
    monkeypatch.setattr(sensors, "_temperature_files", lambda: (*files, "/nowhere"))
    assert sensors.read_temperature_c() == 71.5
    monkeypatch.setattr(sensors, "_temperature_files", tuple)
    assert sensors.read_temperature_c() is None


def test_without_a_driver_there_is_no_gpu_but_a_reason(monkeypatch):
    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", fail)
    reader = GpuReader()
    assert (len(reader), reader.read(), reader.sample(), find_gpus()) == (0, (), (), ())
    assert "Not Found" in reader.problem
    reader.close()


def test_the_memory_of_processes_is_added_up_over_all_gpus(monkeypatch):
    running = {
        0: [Answer(pid=1, usedGpuMemory=5 << 30), Answer(pid=2, usedGpuMemory=1 << 30)],
        1: [Answer(pid=2, usedGpuMemory=2 << 30), Answer(pid=3, usedGpuMemory=None)],
    }
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 2)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda n: n)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", running.__getitem__)
    reader = GpuReader()
    assert reader.used_bytes({2, 7}) == 3 << 30
    # the driver does not tell the size, or does not know the process
    assert reader.used_bytes({3}) is None
    assert reader.used_bytes({7}) is None


def test_a_gpu_is_read_if_its_driver_supports_only_some_readings(monkeypatch):
    def refuse(*_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "550.54.15",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda n: n,
        "nvmlDeviceGetName": lambda h: b"NVIDIA H200",
        "nvmlDeviceGetPowerUsage": lambda h: 123_456,
        "nvmlDeviceGetClockInfo": lambda h, kind: 1980,
        "nvmlDeviceGetTemperature": lambda h, kind: 41,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda h: 0x4 | 0x40,
        "nvmlDeviceGetComputeRunningProcesses": lambda h: [Answer(pid=1)],
        "nvmlDeviceGetEnforcedPowerLimit": refuse,
        "nvmlDeviceGetMaxClockInfo": refuse,
        "nvmlDeviceGetUtilizationRates": refuse,
        "nvmlDeviceGetMemoryInfo": refuse,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(gpu.pynvml, name, answer)
    reader = GpuReader()
    (state,) = reader.read()
    assert (state.name, state.power_w, state.sm_clock_mhz) == ("NVIDIA H200", 123.456, 1980)
    assert state.throttle_reasons == ("sw_power_cap", "hw_thermal_slowdown")
    assert state.other_processes == 1
    assert state.memory_used_bytes is None
    assert find_gpus() == (Gpu(name="NVIDIA H200", driver="550.54.15"),)
    assert reader.read(frozenset({1}))[0].other_processes == 0
    (reading,) = reader.sample()
    assert (reading.temperature_c, reading.sm_clock_mhz, reading.power_w) == (41, 1980, 123.456)
    assert (reading.utilisation_percent, reading.memory_used_bytes) == (None, None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", lambda h: Answer(gpu=97))
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetMemoryInfo", lambda h: Answer(used=5 << 30, total=9 << 30)
    )
    (reading,) = reader.sample()
    assert (reading.utilisation_percent, reading.memory_used_bytes) == (97, 5 << 30)
    assert reader.describe()[0].memory_bytes == 9 << 30
    reader.close()
