"""Measure a site with fleets of increasing size."""

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from bench.fleet import rows
from bench.fleet.bench_site import BenchSite, HelperProcess
from bench.fleet.meter import CpuUsage, Meter
from testdata import DATA

FINISH_WITHIN_S = 300.0
SERVER = ("web", "postgres", "redis", "dispatch", "actors", "sweep", "storage")
OURS = ("agents", "clients")


@dataclass(frozen=True)
class SizeResult:
    """The figures of one fleet size.

    idle, heartbeats: CPU time with heartbeats only, and their number meanwhile
    memory: bytes by part
    burst, tasks, per_s: CPU time, number and throughput of the tasks of the burst
    ends: number of tasks by state, outcome and reason
    half_per_s, starts_ms: rate and start latencies of the measurement at half load
    counted: counters of the simulated agents
    load: load average of the machine
    """

    agents: int
    connected: int
    connect_s: float
    idle: CpuUsage
    heartbeats: int
    memory: dict[str, int]
    burst: CpuUsage
    tasks: int
    per_s: float
    ends: dict[str, int]
    half_per_s: float
    starts_ms: list[float]
    counted: dict[str, int]
    load: float


class FleetBenchmark:
    """The helper processes of the benchmark at a running site.

    options: the arguments of `python -m bench.fleet`
    """

    def __init__(self, bench_site: BenchSite, options: argparse.Namespace) -> None:
        self._bench_site, self._options = bench_site, options
        tokens = rows.make_users()
        self._agents = [
            HelperProcess("bench.fleet.agents", self._first(number))
            for number in range(options.processes)
        ]
        first = {"ports": bench_site.ports, "tokens": tokens, "threads": options.connections}
        self._clients = HelperProcess("bench.fleet.clients", first)
        ours = {
            "agents": [helper.process.pid for helper in self._agents],
            "clients": [self._clients.process.pid],
        }
        self.meter = Meter({**bench_site.pids, **ours})
        self._agent_count = 0

    def _first(self, number: int) -> dict[str, Any]:
        port = self._bench_site.ports[number % len(self._bench_site.ports)]
        socket_port = self._bench_site.socket_ports[number % len(self._bench_site.socket_ports)]
        return {
            "socket": f"ws://127.0.0.1:{socket_port}/ws/agent/",
            "http": f"http://127.0.0.1:{port}",
            "leave": self._options.leave,
            "file": str(DATA / "profiles/tiny.json"),
        }

    def run(self) -> Iterator[SizeResult]:
        for size in self._options.sizes:
            yield self._measure(size)

    def close(self) -> None:
        for helper in (*self._agents, self._clients):
            helper.close()

    def without_agents(self) -> tuple[CpuUsage, dict[str, int]]:
        """Return CPU time and memory in bytes of the site without agents."""
        self.meter.read()
        time.sleep(self._options.idle_s)
        return self.meter.read(), self._memory()

    def _measure(self, size: int) -> SizeResult:
        connect_s = self._grow(size)
        self._count()
        self.meter.read()
        time.sleep(self._options.idle_s)
        idle = self.meter.read()
        heartbeats = self._count().get("heartbeats", 0)
        memory = self._memory()
        burst_tasks, burst = self._burst()
        per_s = len(burst_tasks) / rows.span_s(burst_tasks)
        half, sent = self._half(per_s / 2)
        counted = self._count()
        return SizeResult(
            agents=size,
            connected=counted.pop("connected"),
            connect_s=connect_s,
            idle=idle,
            heartbeats=heartbeats,
            memory=memory,
            burst=burst,
            tasks=len(burst_tasks),
            per_s=per_s,
            ends=rows.ends(burst_tasks + half),
            half_per_s=per_s / 2,
            starts_ms=rows.starts_ms(sent),
            counted=counted,
            load=os.getloadavg()[0],
        )

    def _grow(self, size: int) -> float:
        """Connect further agents until there are `size`; return how long that took in s."""
        codes = rows.make_workers(self._agent_count, size)
        begin, self._agent_count = time.monotonic(), size
        for number, helper in enumerate(self._agents):
            helper.tell({"connect": codes[number :: len(self._agents)]})
        for helper in self._agents:
            helper.hear()
        return time.monotonic() - begin

    def _count(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for helper in self._agents:
            helper.tell({"count": True})
            for name, number in helper.hear().items():
                total[name] = total.get(name, 0) + number
        return total

    def _memory(self) -> dict[str, int]:
        return {part: self.meter.memory(part) for part in ("web", "postgres", "redis")}

    def _burst(self) -> tuple[list[int], CpuUsage]:
        """Submit tasks as fast as the clients can; return their ids and the CPU time."""
        tasks = self._tasks(self._options.tasks)
        self.meter.read()
        self._submit(tasks, None)
        return tasks, self.meter.read()

    def _half(self, per_s: float) -> tuple[list[int], dict[int, float]]:
        tasks = self._tasks(max(2, int(per_s * self._options.half_s)))
        return tasks, self._submit(tasks, per_s)

    def _submit(self, tasks: list[int], per_s: float | None) -> dict[int, float]:
        """Submit tasks and wait until all have ended; return the epoch time of each request."""
        together = self._options.together
        self._clients.tell({"tasks": tasks, "per_s": per_s, "together": together})
        answer = self._clients.hear()
        if failed := answer["failed"]:
            raise SystemExit(f"{failed} of {len(tasks)} tasks were not taken")
        _wait_for(tasks)
        return {int(task): at for task, at in answer["sent"].items()}

    def _tasks(self, number: int) -> list[int]:
        return rows.make_tasks(number, leave=self._options.leave)


def _wait_for(tasks: list[int]) -> None:
    deadline = time.monotonic() + FINISH_WITHIN_S
    while (left := rows.unfinished(tasks)) and time.monotonic() < deadline:
        time.sleep(0.25)
    if left:
        raise SystemExit(
            f"{left} of {len(tasks)} tasks had not ended after {FINISH_WITHIN_S:.0f} s\n"
            + rows.describe_live_attempts(tasks)
        )


def machine() -> str:
    return f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"
