"""Measure CPU time and memory of the parts, including their child processes."""

import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class CpuUsage:
    """CPU time by part in s, and the duration of the measurement in s."""

    cpu_s: dict[str, float]
    wall_s: float

    def percent(self, part: str) -> float:
        """Return the CPU time of a part in percent of one core."""
        return 100 * self.cpu_s[part] / self.wall_s


class Meter:
    """Reads the CPU time since it was created or read last."""

    def __init__(self, pids: dict[str, list[int]]) -> None:
        self._pids = pids
        self._last, self._at = self._read(), time.monotonic()

    def read(self) -> CpuUsage:
        now, at = self._read(), time.monotonic()
        taken = {name: now[name] - self._last[name] for name in now}
        self._last, wall_s, self._at = now, at - self._at, at
        return CpuUsage(taken, wall_s)

    def memory(self, part: str) -> int:
        """Return the memory of a part in bytes. Pages shared between processes count once."""
        return sum(
            process.memory_full_info().pss for pid in self._pids[part] for process in _family(pid)
        )

    def _read(self) -> dict[str, float]:
        return {name: sum(map(_cpu_s, pids)) for name, pids in self._pids.items()}


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process tree, including children that have been waited for."""
    total = 0.0
    for process in _family(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
