"""Wait until no other process keeps the device busy, with a timeout after which the run starts.

An idle device is recognized within a window of 0.1 s, or at once if the caller has read the
counters before. Without a `[gate]` table in the configuration there is no check and no wait.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from agent.config import GateLimits
from agent.device.gpu import GpuReader
from agent.device.state import (
    WINDOW_S,
    Counters,
    Snapshot,
    other_cores,
    read_counters,
    take_snapshot,
)
from agent.halting import sleep_unless_halted
from agent.protocol.notes import Note

#: older counters are not used
_MOST_WINDOW_S = 3.0
#: interval of checks of a busy device
_PAUSE_S = 0.5


@dataclass(frozen=True)
class GateResult:
    """Result of the wait. `passed` is False if the device was not idle in time; see `reasons`.

    `before` and `counters` are of the last check, None if the gate is disabled. `rested_s` is the
    duration of the pause before the wait (`cool_down`).
    """

    waited_s: float = 0.0
    passed: bool = True
    reasons: tuple[Note, ...] = ()
    before: Snapshot | None = field(default=None, repr=False)
    counters: Counters | None = field(default=None, repr=False)
    rested_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the data for `Measurement.gate`."""
        return {
            "waited_s": self.waited_s,
            "passed": self.passed,
            "reasons": [reason.model_dump() for reason in self.reasons],
            "rested_s": self.rested_s,
        }


async def wait_until_idle(
    limits: GateLimits,
    halted: asyncio.Event,
    since: Counters,
    gpus: GpuReader | None = None,
) -> GateResult:
    """Wait until the device is idle, at most `wait_s` seconds and until `halted` is set.

    `since` are counters that were read before; if that was recently, an idle device causes no
    delay.
    """
    if not limits.enabled:
        return GateResult()
    begin = time.monotonic()
    # reading the counters takes about 2 ms, too short for a thread
    if begin - since.monotonic_s > _MOST_WINDOW_S:
        since = read_counters()
    wait_s = max(0.0, WINDOW_S - (time.monotonic() - since.monotonic_s))
    while True:
        await sleep_unless_halted(wait_s, halted)
        now = read_counters()
        snapshot = take_snapshot(since, now, gpus)
        reasons = busy_reasons(snapshot, other_cores(since, now), limits)
        waited_s = time.monotonic() - begin
        if not reasons or halted.is_set() or waited_s >= limits.wait_s:
            return GateResult(waited_s, not reasons, reasons, snapshot, now)
        since, wait_s = now, min(_PAUSE_S, max(WINDOW_S, limits.wait_s - waited_s))


async def cool_down(
    limits: GateLimits, ended_monotonic_s: float | None, halted: asyncio.Event
) -> float:
    """Wait until `cool_down_s` have passed since the last attempt's end; return the seconds."""
    if not limits.enabled or ended_monotonic_s is None:
        return 0.0
    return await sleep_unless_halted(
        ended_monotonic_s + limits.cool_down_s - time.monotonic(), halted
    )


def busy_reasons(snapshot: Snapshot, others: float, limits: GateLimits) -> tuple[Note, ...]:
    """Return why the device is not idle; `others` is the load of other processes in cores."""
    reasons = []
    if others > limits.max_load:
        percent = round(100 * others)
        names = ", ".join(p.name for p in snapshot.processes if p.cpu_percent >= 10)
        if names:
            reasons.append(Note.of("named_processes", percent=percent, names=names))
        else:
            reasons.append(Note.of("other_processes", percent=percent))
    degrees = snapshot.temperature_c
    if degrees is not None and degrees > limits.max_temperature_c:
        reasons.append(Note.of("hot", degrees=round(degrees)))
    memory = snapshot.memory_available_bytes
    if memory is not None and memory < limits.min_memory_bytes:
        reasons.append(Note.of("memory_low", mib=memory >> 20))
    return tuple(reasons)
