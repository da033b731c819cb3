"""Inject each kind of fault and end it."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.chaos.frames import drawn_fate
from bench.chaos.links import Slowness
from bench.chaos.plan import AGENTS, Fault
from bench.chaos.world import World
from webprofile.operations.devserver.guard import family_of

#: a part that was asked to end and did not is killed: that is a finding, and is told
RESTART_PATIENCE_S = 30.0
UP_PATIENCE_S = 120.0
LOOK_S = 0.1
#: Dramatiq's worker process: two for messages, and those that fetch, delay and watch
_ACTORS_THREADS = 4


class ActError(Exception):
    """A fault could not be done, or a part did not come back."""


class Acts:
    """Does faults one by one; each coroutine comes back when the part is back."""

    def __init__(self, world: World, tell: Callable[[str], None]) -> None:
        self._world, self._tell = world, tell

    async def do(self, fault: Fault) -> str:
        """Do a fault from its begin to its end; return whom it met. Raises ActError."""
        return await self._act(fault.kind)(fault) or fault.target

    def _act(self, kind: str) -> Callable[[Fault], Awaitable[str | None]]:
        acts: dict[str, Callable[[Fault], Awaitable[str | None]]] = {
            "kill": self._kill,
            "restart": self._restart,
            "stop": self._stop,
            "cut": self._cut,
            "silence": self._silence,
            "slow": self._slow,
            "frames": self._frames,
            "clock": self._clock,
            "bench-kill": self._bench_kill,
            "bench-stop": self._bench_stop,
            "disk-storage": self._disk,
            "disk-agent": self._disk,
        }
        return acts[kind]

    # -- parts ----------------------------------------------------------------------------------

    async def _kill(self, fault: Fault) -> None:
        pid = await self._pid(fault.target)
        with contextlib.suppress(ProcessLookupError):  # it died just before
            os.kill(pid, signal.SIGKILL)
        await self._back(fault.target, pid)

    async def _restart(self, fault: Fault) -> None:
        pid = await self._pid(fault.target)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + RESTART_PATIENCE_S
        while self._world.supervisor.pid(fault.target) == pid:
            if time.monotonic() > deadline:
                self._tell(f"{fault.target} did not end {RESTART_PATIENCE_S:.0f} s after TERM")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.1)
        await self._back(fault.target, pid)

    async def _stop(self, fault: Fault) -> None:
        pid = await self._pid(fault.target)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(fault.lasts_s)
            finally:
                os.killpg(pid, signal.SIGCONT)
        await self._pid(fault.target)

    async def _pid(self, part: str) -> int:
        """The part's process, once it is up."""
        deadline = time.monotonic() + UP_PATIENCE_S
        while time.monotonic() < deadline:
            pid = self._world.supervisor.pid(part)
            if pid is not None and self._world.supervisor.is_up(part):
                return pid
            await asyncio.sleep(0.1)
        raise ActError(f"{part} is not up after {UP_PATIENCE_S:.0f} s")

    async def _back(self, part: str, former: int) -> None:
        """Wait for a new process of the part that works."""
        for _ in range(int(UP_PATIENCE_S / LOOK_S)):
            pid = await self._pid(part)
            if pid != former and await asyncio.to_thread(is_booted, part, pid):
                return
            await asyncio.sleep(LOOK_S)
        raise ActError(f"{part} is not back after {UP_PATIENCE_S:.0f} s")

    # -- links, disks, clocks -------------------------------------------------------------------

    async def _cut(self, fault: Fault) -> None:
        link = self._world.links[fault.target]
        link.cut()
        await _hold(fault, link.heal)

    async def _silence(self, fault: Fault) -> None:
        link = self._world.links[fault.target]
        link.silence()
        then = {"breaks": link.break_connections, "is forgotten": link.forget_connections}
        await _hold(fault, then.get(fault.facts["then"], link.heal))
        link.heal()

    async def _slow(self, fault: Fault) -> None:
        link = self._world.links[fault.target]
        link.slow(Slowness(fault.facts["latency_s"], fault.facts["bytes_per_s"]))
        await _hold(fault, link.heal)

    async def _frames(self, fault: Fault) -> None:
        link = self._world.links[fault.target]
        facts = fault.facts
        link.lose_frames(drawn_fate(facts["seed"], lost=facts["lost"], repeated=facts["repeated"]))
        await _hold(fault, link.heal)

    async def _clock(self, fault: Fault) -> None:
        clock = self._world.clocks[fault.target]
        clock.step(fault.facts["step_s"])
        await _hold(fault, lambda: clock.step(0))

    async def _disk(self, fault: Fault) -> None:
        disk = self._world.disks[fault.target]
        disk.fill()
        await _hold(fault, disk.empty)

    # -- benchmarks -----------------------------------------------------------------------------

    async def _bench_kill(self, fault: Fault) -> str:
        agent, pid = await self._benchmark(fault.target)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return agent

    async def _bench_stop(self, fault: Fault) -> str:
        agent, pid = await self._benchmark(fault.target)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(fault.lasts_s)
            os.kill(pid, signal.SIGCONT)
        return agent

    async def _benchmark(self, preferred: str) -> tuple[str, int]:
        """A load_and_run that runs now, of this agent or the next one that has any."""
        first = AGENTS.index(preferred)
        deadline = time.monotonic() + UP_PATIENCE_S
        while time.monotonic() < deadline:
            for agent in (*AGENTS[first:], *AGENTS[:first]):
                if pid := self._running(agent):
                    return agent, pid
            await asyncio.sleep(0.05)
        raise ActError("no benchmark runs")

    def _running(self, agent: str) -> int | None:
        spool = self._world.layout.home / "agents" / agent / "spool" / "attempts"
        for record in spool.glob("*/record.json"):
            with contextlib.suppress(OSError, ValueError):
                state = json.loads(record.read_text(encoding="utf-8"))
                if state["process"] and not state["ended"]:
                    # the innermost: around it is the sandbox
                    inside = sorted(pid for pid, _ in family_of(state["process"]["pid"]))
                    if inside:
                        return inside[-1]
        return None


async def _hold(fault: Fault, heal: Callable[[], None]) -> None:
    try:
        await asyncio.sleep(fault.lasts_s)
    finally:
        heal()


def is_booted(part: str, pid: int) -> bool:
    """Whether a part that has no address to answer at has come so far that it works.

    True for one that the supervisor itself asks.
    """
    if part in ("dispatch", "actors"):
        return any(_threads(member) >= _ACTORS_THREADS for member, _ in family_of(pid))
    if part in AGENTS:
        # started after the runtimes were looked at, just before the socket
        return any(b"heartbeat_process.py" in _command(member) for member, _ in family_of(pid))
    return True


def _threads(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    return 0


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
