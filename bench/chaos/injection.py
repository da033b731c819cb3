"""Inject each kind of fault and end it."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.chaos.chaos_site import ChaosSite
from bench.chaos.frames import drawn_fate
from bench.chaos.links import Slowness
from bench.chaos.plan import AGENTS, Fault
from webprofile.operations.devserver.guard import family_of

#: a part that still runs so long after SIGTERM is killed, and the run reports it as broken
RESTART_PATIENCE_S = 30.0
UP_PATIENCE_S = 120.0
POLL_S = 0.1
#: threads of a ready Dramatiq worker: two process messages, the others fetch, delay and watch
_ACTORS_THREADS = 4


class InjectionError(Exception):
    """A fault could not be injected, or a part did not become ready again."""


class FaultInjector:
    """Injects single faults. `do` returns when the part works again."""

    def __init__(self, chaos_site: ChaosSite, log_line: Callable[[str], None]) -> None:
        self._chaos_site, self._log_line = chaos_site, log_line

    async def do(self, fault: Fault) -> str:
        """Inject a fault, end it, and return the part it affected. Raises InjectionError."""
        return await self._handler(fault.kind)(fault) or fault.target

    def _handler(self, kind: str) -> Callable[[Fault], Awaitable[str | None]]:
        handlers: dict[str, Callable[[Fault], Awaitable[str | None]]] = {
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
        return handlers[kind]

    # -- parts ----------------------------------------------------------------------------------

    async def _kill(self, fault: Fault) -> None:
        pid = await self._pid(fault.target)
        with contextlib.suppress(ProcessLookupError):  # it died just before
            os.kill(pid, signal.SIGKILL)
        await self._wait_until_restarted(fault.target, pid)

    async def _restart(self, fault: Fault) -> None:
        pid = await self._pid(fault.target)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + RESTART_PATIENCE_S
        while self._chaos_site.supervisor.pid(fault.target) == pid:
            if time.monotonic() > deadline:
                self._log_line(f"{fault.target} did not end {RESTART_PATIENCE_S:.0f} s after TERM")
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.1)
        await self._wait_until_restarted(fault.target, pid)

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
        """Wait until a part is up and return its pid. Raises InjectionError."""
        deadline = time.monotonic() + UP_PATIENCE_S
        while time.monotonic() < deadline:
            pid = self._chaos_site.supervisor.pid(part)
            if pid is not None and self._chaos_site.supervisor.is_up(part):
                return pid
            await asyncio.sleep(0.1)
        raise InjectionError(f"{part} is not up after {UP_PATIENCE_S:.0f} s")

    async def _wait_until_restarted(self, part: str, former: int) -> None:
        """Wait until a new process of the part is ready. Raises InjectionError."""
        for _ in range(int(UP_PATIENCE_S / POLL_S)):
            pid = await self._pid(part)
            if pid != former and await asyncio.to_thread(is_booted, part, pid):
                return
            await asyncio.sleep(POLL_S)
        raise InjectionError(f"{part} is not back after {UP_PATIENCE_S:.0f} s")

    # -- links, disks, clocks -------------------------------------------------------------------

    async def _cut(self, fault: Fault) -> None:
        link = self._chaos_site.links[fault.target]
        link.cut()
        await _hold(fault, link.heal)

    async def _silence(self, fault: Fault) -> None:
        link = self._chaos_site.links[fault.target]
        link.silence()
        then = {"breaks": link.break_connections, "is forgotten": link.forget_connections}
        await _hold(fault, then.get(fault.facts["then"], link.heal))
        link.heal()

    async def _slow(self, fault: Fault) -> None:
        link = self._chaos_site.links[fault.target]
        link.slow(Slowness(fault.facts["latency_s"], fault.facts["bytes_per_s"]))
        await _hold(fault, link.heal)

    async def _frames(self, fault: Fault) -> None:
        link = self._chaos_site.links[fault.target]
        facts = fault.facts
        link.lose_frames(drawn_fate(facts["seed"], lost=facts["lost"], repeated=facts["repeated"]))
        await _hold(fault, link.heal)

    async def _clock(self, fault: Fault) -> None:
        clock = self._chaos_site.clocks[fault.target]
        clock.step(fault.facts["step_s"])
        await _hold(fault, lambda: clock.step(0))

    async def _disk(self, fault: Fault) -> None:
        disk = self._chaos_site.disks[fault.target]
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
        """Wait for a running load_and_run and return its agent and pid. Raises InjectionError.

        Looks at the preferred agent first, then at the others in order.
        """
        first = AGENTS.index(preferred)
        deadline = time.monotonic() + UP_PATIENCE_S
        while time.monotonic() < deadline:
            for agent in (*AGENTS[first:], *AGENTS[:first]):
                if pid := self._running(agent):
                    return agent, pid
            await asyncio.sleep(0.05)
        raise InjectionError("no benchmark runs")

    def _running(self, agent: str) -> int | None:
        spool = self._chaos_site.layout.home / "agents" / agent / "spool" / "attempts"
        for record in spool.glob("*/record.json"):
            with contextlib.suppress(OSError, ValueError):
                state = json.loads(record.read_text(encoding="utf-8"))
                if state["process"] and not state["ended"]:
                    # the innermost process; the outer ones belong to the sandbox
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
    """Whether a part that offers no readiness check has started up.

    Always true for parts whose readiness the supervisor checks itself.
    """
    if part in ("dispatch", "actors"):
        return any(_threads(member) >= _ACTORS_THREADS for member, _ in family_of(pid))
    if part in AGENTS:
        # the agent starts it after it has examined the runtimes, just before it connects
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
