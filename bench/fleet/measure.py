"""Measurements at each size of the fleet."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from bench.fleet import rows
from bench.fleet.meter import Meter, Taken
from bench.fleet.plant import Helper, Plant

FINISH_WITHIN_S = 300.0
SERVER = ("web", "postgres", "redis", "dispatch", "actors", "sweep", "storage")
OURS = ("agents", "clients")


@dataclass(frozen=True)
class Wishes:
    """`idle_s`: how long only heartbeats are measured; `tasks`: of a burst; `together`: in each
    request; `connections`: of users who wait for answers; `half_s`: at half of the rate."""

    sizes: Sequence[int]
    leave: str
    file: str
    idle_s: float
    tasks: int
    together: int
    connections: int
    half_s: float
    processes: int


@dataclass(frozen=True)
class Found:
    """The figures of one size. Bytes, seconds and milliseconds; `burst`, of so many `tasks`, and
    `idle` by part.
    """

    agents: int
    connected: int
    connect_s: float
    idle: Taken
    beats: int
    memory: dict[str, int]
    burst: Taken
    tasks: int
    per_s: float
    ends: dict[str, int]
    half_per_s: float
    starts_ms: list[float]
    counted: dict[str, int]
    load: float


class Bench:
    """The programs of the benchmark at a running site."""

    def __init__(self, plant: Plant, wishes: Wishes) -> None:
        self._plant, self._wishes = plant, wishes
        tokens = rows.make_users()
        self._agents = [
            Helper("bench.fleet.agents", self._first(number)) for number in range(wishes.processes)
        ]
        first = {"ports": plant.ports, "tokens": tokens, "threads": wishes.connections}
        self._clients = Helper("bench.fleet.clients", first)
        ours = {
            "agents": [helper.process.pid for helper in self._agents],
            "clients": [self._clients.process.pid],
        }
        self.meter = Meter({**plant.pids, **ours})
        self._there = 0

    def _first(self, number: int) -> dict[str, Any]:
        port = self._plant.ports[number % len(self._plant.ports)]
        socket_port = self._plant.socket_ports[number % len(self._plant.socket_ports)]
        return {
            "socket": f"ws://127.0.0.1:{socket_port}/ws/agent/",
            "http": f"http://127.0.0.1:{port}",
            "leave": self._wishes.leave,
            "file": self._wishes.file,
        }

    def run(self) -> Iterator[Found]:
        for size in self._wishes.sizes:
            yield self._measure(size)

    def close(self) -> None:
        for helper in (*self._agents, self._clients):
            helper.close()

    def without_agents(self) -> tuple[Taken, dict[str, int]]:
        """What the idle site takes, and its memory."""
        self.meter.read()
        time.sleep(self._wishes.idle_s)
        return self.meter.read(), self._memory()

    def _measure(self, size: int) -> Found:
        connect_s = self._grow(size)
        self._count()
        self.meter.read()
        time.sleep(self._wishes.idle_s)
        idle = self.meter.read()
        beats = self._count().get("beats", 0)
        memory = self._memory()
        burst_tasks, burst = self._burst()
        per_s = len(burst_tasks) / rows.span_s(burst_tasks)
        half, sent = self._half(per_s / 2)
        counted = self._count()
        return Found(
            agents=size,
            connected=counted.pop("connected"),
            connect_s=connect_s,
            idle=idle,
            beats=beats,
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
        """Let agents enrol and connect until there are so many."""
        codes = rows.make_workers(self._there, size)
        begin, self._there = time.monotonic(), size
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

    def _burst(self) -> tuple[list[int], Taken]:
        """Submit as fast as the clients can."""
        tasks = self._tasks(self._wishes.tasks)
        self.meter.read()
        self._submit(tasks, None)
        return tasks, self.meter.read()

    def _half(self, per_s: float) -> tuple[list[int], dict[int, float]]:
        tasks = self._tasks(max(2, int(per_s * self._wishes.half_s)))
        return tasks, self._submit(tasks, per_s)

    def _submit(self, tasks: list[int], per_s: float | None) -> dict[int, float]:
        """Submit tasks and wait until all of them ended; when each was sent, by the clock."""
        together = self._wishes.together
        self._clients.tell({"tasks": tasks, "per_s": per_s, "together": together})
        answer = self._clients.hear()
        if failed := answer["failed"]:
            raise SystemExit(f"{failed} of {len(tasks)} tasks were not taken")
        _wait_for(tasks)
        return {int(task): at for task, at in answer["sent"].items()}

    def _tasks(self, number: int) -> list[int]:
        return rows.make_tasks(number, leave=self._wishes.leave)


def _wait_for(tasks: list[int]) -> None:
    deadline = time.monotonic() + FINISH_WITHIN_S
    while (left := rows.unfinished(tasks)) and time.monotonic() < deadline:
        time.sleep(0.25)
    if left:
        raise SystemExit(
            f"{left} of {len(tasks)} tasks had not ended after {FINISH_WITHIN_S:.0f} s\n"
            + rows.where_they_hang(tasks)
        )


def machine() -> str:
    return f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB"
