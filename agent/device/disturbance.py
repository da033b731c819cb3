"""Detect disturbances of a run: effects on its processes, and the state of the device.

A pass was disturbed if its threads waited for a core while they were ready to run, or if the host
gave the cores to other machines. The load of other processes does not define a disturbance, since
it may have had no effect on the run; it is recorded as an explanation. Load on the cores of the run
is the criterion only if the kernel does not count waiting, or if the run waits for itself because
it has more threads than cores.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from agent.device.state import Counters, DeviceSample, OtherProcess, Snapshot, other_cores
from agent.protocol.measurement import WAITED_PERCENT, Disturbance, OtherLoad
from agent.protocol.notes import Note
from agent.protocol.run_log import CoreWaits

#: throttling reasons that are disturbances; idling, fixed clocks and the power limit are not
_GPU_FAULTS = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"}
#: the kernel counts CPU time per core in steps of 10 ms, so a short run shows spurious load
_COUNTING_SLACK_S = 0.05
#: `WAITED_PERCENT` of a pair of processes that take turns, whose waiting costs all of them alike;
#: the trial is in docs/decisions/measured-in-pairs.md
PAIR_WAITED_PERCENT = 20.0
#: load of other processes, in percent of one core: a criterion where waiting is not counted, and
#: elsewhere the load from which processes are named
OTHER_PERCENT = 10.0
#: steal time, in percent of one core
_STOLEN_PERCENT = 5.0
#: the kernel reports steal time per core in steps of 10 ms
_STEAL_SLACK_S = 0.02
#: allowed drop of the highest clock below the maximum of the run
_CLOCK_DROP_PERCENT = 15.0
_HOT_C = 90.0
_LEAST_MEMORY_BYTES = 256 << 20
_MOST_SWAPPED_BYTES = 1 << 20
#: with less load the clock is low because the device is idle
_AT_WORK_CORES = 0.5
#: most details of a disturbance, as in `Disturbance`
_MOST_DETAILS = 10


_States = Sequence[Snapshot | DeviceSample]


class DisturbanceCode(StrEnum):
    """Kinds of disturbance."""

    WAITED = "waited"
    OTHER_LOAD = "other_load"
    STOLEN = "stolen"
    THROTTLED = "throttled"
    CLOCK_DROPPED = "clock_dropped"
    HOT = "hot"
    MEMORY_LOW = "memory_low"
    SWAPPED = "swapped"
    GPU_SHARED = "gpu_shared"
    NOT_ITSELF = "not_itself"


def pass_disturbances(
    waits: CoreWaits | None,
    before: Counters,
    after: Counters,
    cores: Sequence[int] = (),
    *,
    most_waited: float = WAITED_PERCENT,
) -> list[Disturbance]:
    """Return the disturbances of one pass or pair.

    `waits` is None if the waiting of its threads does not indicate other processes. The counters
    are those just before and after the pass; `cores` are those of the run, empty for all.
    `most_waited` is the limit of the waiting time in percent, and that of the time in which a CPU
    limit stopped the cores of the agent and the run.
    """
    return [
        *_waiting(waits, before, after, cores, most_waited),
        *_stealing(waits, before, after, cores),
    ]


def run_disturbances(
    before: Snapshot,
    during: Sequence[DeviceSample],
    after: Snapshot,
) -> list[Disturbance]:
    """Return the disturbances of the whole run, one per kind, beyond those of single passes."""
    states: _States = (before, *during, after)
    return [
        *_throttling(states, before, after),
        *_clocks(during),
        *_heat(states),
        *_memory(states),
        *_swapping(before, after),
        *_shared_gpus(before, after),
    ]


def other_load(
    before: Snapshot, during: Sequence[DeviceSample], after: Snapshot
) -> OtherLoad | None:
    """Return how much other processes used during the run; None if the clock was set meanwhile."""
    elapsed_s = after.at - before.at
    if elapsed_s <= 0:
        return None
    others_s = max((after.busy_s - before.busy_s) - (after.own_s - before.own_s), 0.0)
    percent = 100 * others_s / elapsed_s
    # only the samples show a short load during a long run
    most = max([percent, *(100 * sample.other_cores for sample in during)])
    return OtherLoad(percent=percent, most_percent=most, processes=_names(during, after))


def _disturbance(code: DisturbanceCode, *details: Note) -> Disturbance:
    return Disturbance(code=code.value, details=details)


def _waiting(
    waits: CoreWaits | None,
    before: Counters,
    after: Counters,
    cores: Sequence[int],
    most_waited: float,
) -> Iterator[Disturbance]:
    elapsed_s = max(after.monotonic_s - before.monotonic_s, 1e-6)
    load_s = other_cores(before, after, cores) * elapsed_s
    load = 100 * max(load_s - _COUNTING_SLACK_S, 0.0) / elapsed_s
    others = Note.of("other_processes", percent=round(load))
    limited = 100 * (after.limited_s - before.limited_s) / elapsed_s
    details = []
    if waits is not None and (waited := 100 * waits.waited_ms / waits.elapsed_ms) > most_waited:
        details.append(Note.of("waited", percent=round(waited)))
    if limited > most_waited:
        details.append(Note.of("cpu_limited", percent=round(limited)))
    if details:
        if load > OTHER_PERCENT or limited <= most_waited:
            details.append(others)
        yield _disturbance(DisturbanceCode.WAITED, *details)
    elif waits is None and load > OTHER_PERCENT:
        yield _disturbance(DisturbanceCode.OTHER_LOAD, others)


def _stealing(
    waits: CoreWaits | None, before: Counters, after: Counters, cores: Sequence[int]
) -> Iterator[Disturbance]:
    if waits is not None and waits.stolen_ms is not None:  # of the timed iterations only
        stolen_s, elapsed_s = waits.stolen_ms / 1000, (waits.whole_ms or waits.elapsed_ms) / 1000
    else:
        stolen_s = after.stolen_on(cores) - before.stolen_on(cores)
        elapsed_s = after.monotonic_s - before.monotonic_s
    stolen = 100 * max(stolen_s - _STEAL_SLACK_S, 0.0) / max(elapsed_s, 1e-6)
    if stolen > _STOLEN_PERCENT:
        yield _disturbance(DisturbanceCode.STOLEN, Note.of("stolen", percent=round(stolen)))


def _names(during: Sequence[DeviceSample], after: Snapshot) -> tuple[str, ...]:
    """Format the three processes with the highest load, each name once with its maximum."""
    processes: list[OtherProcess] = [*after.processes]
    for sample in during:
        processes += sample.processes
    most: dict[str, float] = {}
    for process in processes:
        most[process.name] = max(most.get(process.name, 0.0), process.cpu_percent)
    # leave out processes that are listed for their memory only
    top = sorted(((percent, name) for name, percent in most.items() if percent >= 1), reverse=True)
    return tuple(f"{name} ({percent:.0f} %)"[:100] for percent, name in top[:3])


def _throttling(states: _States, before: Snapshot, after: Snapshot) -> Iterator[Disturbance]:
    parts = []
    for kind, count in after.throttle_counts.items():
        rose = count - before.throttle_counts.get(kind, count)
        if rose > 0:
            parts.append(Note.of("cpu_throttled", times=rose, kind=kind))
    # not before the run
    gpus = [gpu for state in states[1:] for gpu in state.gpus]
    reasons = {reason for gpu in gpus for reason in gpu.throttle_reasons}
    if faults := sorted(reasons & _GPU_FAULTS):
        parts.append(Note.of("gpu_throttled", reasons=", ".join(faults)))
    if parts:
        yield _disturbance(DisturbanceCode.THROTTLED, *parts[:_MOST_DETAILS])


def _clocks(during: Sequence[DeviceSample]) -> Iterator[Disturbance]:
    clocks = [
        sample.max_clock_mhz
        for sample in during
        if sample.max_clock_mhz and sample.own_cores >= _AT_WORK_CORES
    ]
    if not clocks:
        return
    drop = 100 * (1 - min(clocks) / max(clocks))
    if drop > _CLOCK_DROP_PERCENT:
        clock = Note.of("clock_dropped", before=round(max(clocks)), after=round(min(clocks)))
        yield _disturbance(DisturbanceCode.CLOCK_DROPPED, clock)


def _heat(states: _States) -> Iterator[Disturbance]:
    cpu = max((s.temperature_c for s in states if s.temperature_c is not None), default=0.0)
    if cpu >= _HOT_C:
        yield _disturbance(DisturbanceCode.HOT, Note.of("hot", degrees=round(cpu)))


def _memory(states: _States) -> Iterator[Disturbance]:
    values = [state.memory_available_bytes for state in states]
    least = min((value for value in values if value is not None), default=_LEAST_MEMORY_BYTES)
    if least < _LEAST_MEMORY_BYTES:
        yield _disturbance(DisturbanceCode.MEMORY_LOW, Note.of("memory_low", mib=least >> 20))


def _swapping(before: Snapshot, after: Snapshot) -> Iterator[Disturbance]:
    if before.swapped_bytes is None or after.swapped_bytes is None:
        return
    moved = after.swapped_bytes - before.swapped_bytes
    if moved > _MOST_SWAPPED_BYTES:
        yield _disturbance(DisturbanceCode.SWAPPED, Note.of("swapped", mib=moved >> 20))


def _shared_gpus(before: Snapshot, after: Snapshot) -> Iterator[Disturbance]:
    most = max(sum(gpu.other_processes or 0 for gpu in state.gpus) for state in (before, after))
    if most > 0:
        yield _disturbance(DisturbanceCode.GPU_SHARED, Note.of("gpu_shared", count=most))
