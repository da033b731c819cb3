"""Observe the device before, during and after a run.

During the run, a sample every second reads a few files of /proc and /sys in the agent's own
process: about 0.3 ms, 0.03 % of a core. Other processes are inspected one by one (1 to 3 ms) only
after a sample that found them busy, which has probably disturbed the measurement already. The CPU
time of the samples is part of the result.
"""

import asyncio
import time
from typing import Any

from pydantic import BaseModel, ConfigDict

from agent.device.disturbance import (
    OTHER_PERCENT,
    other_load,
    run_disturbances,
)
from agent.device.gate import GateResult
from agent.device.gpu import GpuReader
from agent.device.state import (
    Counters,
    DeviceSample,
    Snapshot,
    heavy_processes,
    other_cores,
    read_counters,
    take_sample,
    take_snapshot,
)
from agent.protocol.measurement import Disturbance, OtherLoad

#: most samples of a run; beyond that, every second one is dropped and the interval is doubled
_MOST_SAMPLES = 600


class Observation(BaseModel):
    """The observation of one run. `watch_cpu_s` is the CPU time that the samples took."""

    model_config = ConfigDict(frozen=True)

    before: Snapshot
    during: tuple[DeviceSample, ...]
    after: Snapshot
    disturbances: tuple[Disturbance, ...]
    other_load: OtherLoad | None = None
    watch_cpu_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the data for `Measurement.device`, without data that has a separate field."""
        own = {"disturbances", "other_load"}
        return self.model_dump(mode="json", exclude_none=True, exclude=own)


class Observer:
    """Observes one run: call `begin` just before it and `end` just after it.

    `gate` is the wait before the run. `observation` is set by `end`.
    """

    def __init__(
        self,
        gpus: GpuReader | None = None,
        cores: tuple[int, ...] = (),
        every_s: float = 1.0,
    ) -> None:
        self._gpus, self._cores, self.every_s = gpus, cores, every_s
        self._samples: list[DeviceSample] = []
        self._watch_cpu_s = 0.0
        self._sampling: asyncio.Task[None] | None = None
        self.gate = GateResult()
        self.observation: Observation | None = None

    def begin(self, gate: GateResult, since: Counters) -> None:
        """Take the snapshot before the run, or the one of the gate, and start sampling.

        `since` are counters that were read earlier; loads are computed for the time since then.
        """
        self.gate = gate
        self._begin = gate.counters or read_counters()
        self._processes = self._begin
        self._before = gate.before or take_snapshot(since, self._begin, self._gpus)
        self._sampling = asyncio.create_task(self._sample_repeatedly())

    async def end(self) -> Observation:
        """Stop sampling and detect disturbances. Takes a few milliseconds, mostly in a thread."""
        if self._sampling is not None:
            self._sampling.cancel()
            self._sampling = None
        # the loads of the snapshot after the run are means over the whole run
        after = await asyncio.to_thread(
            lambda: take_snapshot(self._begin, read_counters(), self._gpus)
        )
        self.observation = Observation(
            before=self._before,
            during=tuple(self._samples),
            after=after,
            disturbances=tuple(run_disturbances(self._before, self._samples, after)),
            other_load=other_load(self._before, self._samples, after),
            watch_cpu_s=self._watch_cpu_s,
        )
        return self.observation

    async def _sample_repeatedly(self) -> None:
        last = self._begin
        while True:
            await asyncio.sleep(self.every_s)
            begin_s = time.thread_time()
            last = self._sample(last)
            if len(self._samples) >= _MOST_SAMPLES:
                self._samples = self._samples[::2]
                self.every_s *= 2
            self._watch_cpu_s += time.thread_time() - begin_s

    def _sample(self, last: Counters) -> Counters:
        now = read_counters(processes=False)
        changes: dict[str, Any] = {}
        if 100 * other_cores(last, now) > OTHER_PERCENT:
            # since the last time that processes were read, or since the begin of the run
            now = read_counters()
            changes["processes"] = heavy_processes(self._processes, now)
            self._processes = now
        if self._gpus:
            changes["gpus"] = self._gpus.sample()
        self._samples.append(take_sample(last, now, self._cores).model_copy(update=changes))
        return now
