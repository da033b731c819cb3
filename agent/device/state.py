"""The device's state: a full snapshot before and after a run, short samples during it.

"Other" processes are all but those of the agent, which are: the agent, its descendants, and
processes that left this tree but have an attempt's environment variable. Loads are in cores: 1.0 is
one busy core.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psutil  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict

from agent.device import sensors
from agent.device.gpu import GpuReader, GpuState
from agent.device.process_table import (
    TICKS_PER_S,
    ProcessStat,
    descendants,
    read_environment,
    read_table,
    read_text,
    read_tree,
    tree_cpu_s,
)
from agent.execution.processes import ATTEMPT_VARIABLE

#: a shorter window is inaccurate, because the kernel counts in steps of 10 ms
WINDOW_S = 0.1
#: in a shorter window, a single step of the kernel would look like a load
_LEAST_WINDOW_S = 0.05
_MOST_PROCESSES = 5
#: processes below both limits are not listed
_HEAVY_PERCENT = 1.0
_HEAVY_BYTES = 1 << 30
_MARK = ATTEMPT_VARIABLE.encode() + b"="


class _StateModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class OtherProcess(_StateModel):
    """A process not of the agent. `cpu_percent` is in percent of one core, over the window."""

    name: str
    cpu_percent: float
    memory_bytes: int


class CoreClock(_StateModel):
    """The clock of one core; None where the platform does not provide it."""

    current_mhz: float
    min_mhz: float | None = None
    max_mhz: float | None = None


class Snapshot(_StateModel):
    """The device's state in the `window_s` seconds before `at` (UTC, seconds since the epoch).

    `busy_s`, `own_s` and `stolen_s` are CPU seconds of all cores since boot: of all processes, of
    the agent and its attempts, and of other virtual machines on the same host. `swapped_bytes` is
    also a total since boot.
    """

    at: float
    window_s: float
    busy_s: float
    own_s: float
    stolen_s: float = 0.0
    cpu_percent: float | None = None
    core_percents: tuple[float, ...] = ()
    load_average: tuple[float, float, float] | None = None
    clocks: tuple[CoreClock, ...] = ()
    governor: str = ""
    temperature_c: float | None = None
    throttle_counts: dict[str, int] = {}
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_available_bytes: int | None = None
    swap_used_bytes: int | None = None
    swapped_bytes: int | None = None
    processes: tuple[OtherProcess, ...] = ()
    gpus: tuple[GpuState, ...] = ()


class DeviceSample(_StateModel):
    """A sample during a run; loads are means since the previous sample."""

    at: float
    other_cores: float
    own_cores: float
    stolen_cores: float = 0.0
    max_clock_mhz: float | None = None
    temperature_c: float | None = None
    memory_available_bytes: int | None = None
    swapped_bytes: int | None = None
    processes: tuple[OtherProcess, ...] = ()
    gpus: tuple[GpuState, ...] = ()


@dataclass(frozen=True)
class Counters:
    """The kernel's counters at one point in time.

    `core_busy_s` and `core_stolen_s` have the number of each core that is online. `limited_s` is
    how long a CPU limit of the control group stopped cores of the agent and its runs. `others` are
    the other processes by pid, None if they were not read.
    """

    monotonic_s: float
    core_busy_s: Mapping[int, float]
    core_stolen_s: Mapping[int, float]
    own_s: float
    limited_s: float = 0.0
    others: dict[int, ProcessStat] | None = field(default=None, repr=False)

    def busy_on(self, cores: Sequence[int] = ()) -> float:
        """Return the busy seconds of these cores, of all if `cores` is empty."""
        return _sum_of(self.core_busy_s, cores)

    def stolen_on(self, cores: Sequence[int] = ()) -> float:
        """Return the stolen seconds of these cores, of all if `cores` is empty."""
        return _sum_of(self.core_stolen_s, cores)


def read_counters(*, processes: bool = True) -> Counters:
    """Read the counters; if `processes` is true, also those of each other process (slower)."""
    others, own = None, read_tree(os.getpid())
    if processes:
        table = read_table()
        own = descendants(table, [os.getpid()])
        others = {pid: row for pid, row in table.items() if pid not in own}
    busy_s, stolen_s = _read_cores()
    return Counters(
        monotonic_s=time.monotonic(),
        core_busy_s=busy_s,
        core_stolen_s=stolen_s,
        own_s=tree_cpu_s(own.values()),
        limited_s=sensors.read_limited_s(),
        others=others,
    )


def take_snapshot(since: Counters, now: Counters, gpus: GpuReader | None = None) -> Snapshot:
    """Return loads between two readings of the counters, and the current state of the rest."""
    window_s = now.monotonic_s - since.monotonic_s
    percents: tuple[float, ...] = ()
    if window_s >= _LEAST_WINDOW_S:
        before_s = since.core_busy_s
        percents = tuple(
            min(100.0, max(0.0, 100 * (busy_s - before_s[core]) / window_s))
            for core, busy_s in now.core_busy_s.items()
            if core in before_s
        )
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    return Snapshot(
        at=time.time(),
        window_s=window_s,
        busy_s=now.busy_on(),
        own_s=now.own_s,
        stolen_s=now.stolen_on(),
        cpu_percent=sum(percents) / len(percents) if percents else None,
        core_percents=percents,
        load_average=psutil.getloadavg(),
        clocks=_clocks(),
        governor=sensors.read_governor(),
        temperature_c=sensors.read_temperature_c(),
        throttle_counts=sensors.read_throttle_counts(),
        memory_total_bytes=memory.total,
        memory_free_bytes=memory.free,
        memory_available_bytes=memory.available,
        swap_used_bytes=swap.used,
        swapped_bytes=swap.sin + swap.sout,
        processes=heavy_processes(since, now) if percents else (),
        gpus=gpus.read(frozenset(read_tree(os.getpid()))) if gpus else (),
    )


def snapshot_now() -> Snapshot:
    """Return a snapshot over `WINDOW_S`; blocks for that time."""
    since = read_counters()
    time.sleep(WINDOW_S)
    return take_snapshot(since, read_counters())


def take_sample(since: Counters, now: Counters, cores: tuple[int, ...] = ()) -> DeviceSample:
    """Return a sample without reading other processes; takes about a millisecond."""
    window_s, swap = max(now.monotonic_s - since.monotonic_s, 1e-6), psutil.swap_memory()
    return DeviceSample(
        at=time.time(),
        other_cores=other_cores(since, now),
        own_cores=max(0.0, now.own_s - since.own_s) / window_s,
        stolen_cores=max(0.0, now.stolen_on() - since.stolen_on()) / window_s,
        max_clock_mhz=sensors.read_max_clock_mhz(cores),
        temperature_c=sensors.read_temperature_c(),
        memory_available_bytes=psutil.virtual_memory().available,
        swapped_bytes=swap.sin + swap.sout,
    )


def other_cores(since: Counters, now: Counters, cores: Sequence[int] = ()) -> float:
    """Return the mean load of other processes on these cores, on all if `cores` is empty.

    It is the total load minus our own, which is assumed to run on these cores.
    """
    window_s = max(now.monotonic_s - since.monotonic_s, 1e-6)
    busy_s = now.busy_on(cores) - since.busy_on(cores)
    return max(0.0, busy_s - (now.own_s - since.own_s)) / window_s


def heavy_processes(since: Counters, now: Counters) -> tuple[OtherProcess, ...]:
    """Return the other processes with the highest load, ties by memory; empty if none were read."""
    if since.others is None or now.others is None:
        return ()
    window_s = max(now.monotonic_s - since.monotonic_s, 1e-6)
    processes = []
    for pid, row in now.others.items():
        earlier = since.others.get(pid)
        before_s = earlier.cpu_s if earlier and earlier.start_ticks == row.start_ticks else 0.0
        percent = 100 * max(0.0, row.cpu_s - before_s) / window_s
        if percent >= _HEAVY_PERCENT or row.resident_bytes >= _HEAVY_BYTES:
            processes.append((percent, row))
    processes.sort(key=lambda pair: (pair[0], pair[1].resident_bytes), reverse=True)
    others = (pair for pair in processes if not _is_marked(pair[1].pid))
    return tuple(
        OtherProcess(name=row.name, cpu_percent=percent, memory_bytes=row.resident_bytes)
        for (percent, row), _ in zip(others, range(_MOST_PROCESSES), strict=False)
    )


def _sum_of(values: Mapping[int, float], cores: Sequence[int]) -> float:
    # a container may name cores that /proc/stat does not list
    return sum(values.get(core, 0.0) for core in cores or values)


def _is_marked(pid: int) -> bool:
    """Return whether the process has an attempt's environment variable."""
    try:
        return any(part.startswith(_MARK) for part in read_environment(pid))
    except OSError:
        return False  # the process has ended or belongs to another user


def _read_cores() -> tuple[dict[int, float], dict[int, float]]:
    """Return the busy and the stolen seconds since boot of each core that is online, by its number.

    The numbers have gaps, e.g. if SMT was turned off, so a position is not a core's number.
    """
    busy_s, stolen_s = {}, {}
    for line in read_text("/proc/stat").splitlines():
        name, *fields = line.split()
        if not name.removeprefix("cpu").isdigit():
            continue
        user, nice, system, _idle, _iowait, irq, softirq, stolen = map(int, fields[:8])
        core = int(name.removeprefix("cpu"))
        busy_s[core] = (user + nice + system + irq + softirq) / TICKS_PER_S
        stolen_s[core] = stolen / TICKS_PER_S
    return busy_s, stolen_s


def _clocks() -> tuple[CoreClock, ...]:
    try:
        clocks = psutil.cpu_freq(percpu=True)
    except (OSError, NotImplementedError, ValueError):
        return ()  # boards whose clock driver cannot be read
    return tuple(
        CoreClock(current_mhz=clock.current, min_mhz=clock.min or None, max_mhz=clock.max or None)
        for clock in clocks or ()
        if clock.current
    )
