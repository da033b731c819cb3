"""The device while an attempt is measured: calm before, watched meanwhile, and an agent that rests.

From the first pass to the last the agent says nothing on its socket but what it must. Its leases
are renewed by a process of its own (`agent.link.heartbeat_process`), which a benchmark cannot
starve.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agent.device.gate import GateResult, cool_down, wait_until_calm
from agent.device.gpu import GpuReader
from agent.device.observe import Observation, Observer
from agent.device.state import Counters
from agent.link.heartbeat import HeartbeatProcess
from agent.tables import GateLimits


@dataclass
class Watch:
    """One attempt's time on the device. `observation` is there once it has ended."""

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


class Bench:
    """One for the agent; several attempts may be measured at once where the server allows it."""

    def __init__(self, limits: GateLimits, heart: HeartbeatProcess, cores: tuple[int, ...]) -> None:
        self.heartbeat_s = 5.0
        self.held: Callable[[], frozenset[UUID]] = frozenset
        self._limits, self._heart, self._cores = limits, heart, cores
        self._gpus = GpuReader()
        self._measured = 0
        self._ended_s: float | None = None

    @property
    def is_quiet(self) -> bool:
        """An attempt is measured, and its lease is renewed without us."""
        return self._measured > 0 and self._heart.is_well

    def renew(self) -> None:
        """`held()` or the rhythm is another one: what renews the leases must know."""
        if self._measured:
            self._heart.beat(self.held(), self.heartbeat_s)

    async def begin(self, halted: asyncio.Event, since: Counters | None = None) -> Watch:
        """Wait for calm, then begin to watch and to be quiet. Returns early if `halted` is set.

        since: counters that were read before, so that a calm device need not be looked at anew
        """
        rested_s = await cool_down(self._limits, self._ended_s, halted)
        gate = await wait_until_calm(self._limits, halted, since, self._gpus)
        observer = Observer(gpus=self._gpus, cores=self._cores)
        observer.begin(gate, since)
        self._measured += 1
        self.renew()
        return Watch(gate, observer, rested_s)

    async def end(self, watch: Watch) -> None:
        """Look at the device once more; the agent may speak again."""
        self._measured -= 1
        self._ended_s = time.monotonic()
        if not self._measured:
            self._heart.rest()
        watch.observation = await watch.observer.end()
