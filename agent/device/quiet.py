"""Keep the device quiet during a measurement: wait until it is idle, observe it, pause the agent.

From the first to the last pass the agent sends only necessary messages. A separate process renews
the leases (`agent.link.heartbeat_process`), which a benchmark cannot starve.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agent.config import GateLimits
from agent.device.gate import GateResult, cool_down, wait_until_idle
from agent.device.gpu import GpuReader
from agent.device.observe import Observation, Observer
from agent.device.state import Counters
from agent.link.heartbeat import HeartbeatProcess


@dataclass
class QuietPeriod:
    """The time in which one attempt is measured. `observation` is set when it has ended."""

    gate: GateResult
    observer: Observer
    rested_s: float = 0.0
    observation: Observation | None = None

    def gate_json(self) -> dict[str, Any]:
        return {
            "waited_s": self.gate.waited_s,
            "passed": self.gate.passed,
            "reasons": list(self.gate.reasons),
            "rested_s": self.rested_s,
        }


class QuietMode:
    """Tracks the attempts that are being measured; the server may start several at once."""

    def __init__(
        self, limits: GateLimits, heartbeat: HeartbeatProcess, cores: tuple[int, ...]
    ) -> None:
        self.heartbeat_s = 5.0
        self.held: Callable[[], frozenset[UUID]] = frozenset
        self._limits, self._heartbeat, self._cores = limits, heartbeat, cores
        self._gpus = GpuReader()
        self._measured = 0
        self._ended_s: float | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether an attempt is measured, its lease is renewed, and the server has no orders."""
        return self._measured > 0 and self._heartbeat.is_well

    def renew(self) -> None:
        """Tell the heartbeat process that `held()` or the heartbeat interval has changed."""
        if self._measured:
            self._heartbeat.renew_leases(self.held(), self.heartbeat_s)

    async def begin(self, halted: asyncio.Event, since: Counters | None = None) -> QuietPeriod:
        """Wait until the device is idle, then start observing it. Returns early if `halted` is set.

        `since` are counters that were read before, so that an idle device causes no delay.
        """
        rested_s = await cool_down(self._limits, self._ended_s, halted)
        gate = await wait_until_idle(self._limits, halted, since, self._gpus)
        observer = Observer(gpus=self._gpus, cores=self._cores)
        observer.begin(gate, since)
        self._measured += 1
        self.renew()
        return QuietPeriod(gate, observer, rested_s)

    async def end(self, period: QuietPeriod) -> None:
        """Finish the observation, and let the agent send heartbeats itself again."""
        self._measured -= 1
        self._ended_s = time.monotonic()
        if not self._measured:
            self._heartbeat.pause()
        period.observation = await period.observer.end()
