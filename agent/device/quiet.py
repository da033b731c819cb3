"""Keep the device quiet during a measurement: wait until it is idle, observe it, pause the agent.

From the first to the last pass the agent sends only necessary messages. A separate process renews
the leases (`agent.link.heartbeat_process`), which a benchmark cannot starve.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from agent.config import GateLimits
from agent.device.gate import cool_down, wait_until_idle
from agent.device.gpu import GpuReader
from agent.device.observe import Observer
from agent.device.state import Counters
from agent.link.heartbeat import HeartbeatProcess


class QuietMode:
    """Tracks the attempts that are being measured; the server may start several at once."""

    def __init__(
        self, limits: GateLimits, heartbeat: HeartbeatProcess, cores: tuple[int, ...]
    ) -> None:
        self.heartbeat_s = 5.0
        self.held: Callable[[], frozenset[UUID]] = frozenset
        self._limits, self._heartbeat, self._cores = limits, heartbeat, cores
        self.gpus = GpuReader()
        self._measured = 0
        self._ended_s: float | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether an attempt is measured, its lease is renewed, and the server has no orders."""
        return self._measured > 0 and self._heartbeat.is_well

    @property
    def is_shared(self) -> bool:
        """Whether several attempts are measured at the same time."""
        return self._measured > 1

    def renew(self) -> None:
        """Tell the heartbeat process that `held()` or the heartbeat interval has changed."""
        if self._measured:
            self._heartbeat.renew_leases(self.held(), self.heartbeat_s)

    async def begin(self, halted: asyncio.Event, since: Counters, *, may_use_gpu: bool) -> Observer:
        """Wait until the device is idle, then start observing it. Returns early if `halted` is set.

        `since` are counters that were read before, so that an idle device causes no delay. What
        happens on the GPUs of the device does not matter to a run that may not use one.
        """
        gpus = self.gpus if may_use_gpu else None
        rested_s = await cool_down(self._limits, self._ended_s, halted)
        gate = await wait_until_idle(self._limits, halted, since, gpus)
        observer = Observer(gpus=gpus, cores=self._cores)
        observer.begin(replace(gate, rested_s=rested_s), since)
        self._measured += 1
        self.renew()
        return observer

    async def end(self, observer: Observer) -> None:
        """Finish the observation, and let the agent send heartbeats itself again."""
        self._measured -= 1
        self._ended_s = time.monotonic()
        if not self._measured:
            self._heartbeat.pause()
        await observer.end()
