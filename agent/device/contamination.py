"""Detect disturbances of a run from the observations of the device before, during and after it."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from agent.device.gpu import GpuState
from agent.device.state import Moment, OtherProcess, Snapshot
from agent.protocol.measurement import Contamination

#: throttling reasons that are disturbances; idling, fixed clocks and the power limit are not
_GPU_FAULTS = {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"}
#: the kernel counts CPU time per core in steps of 10 ms, so a short run shows spurious load
_COUNTING_SLACK_S = 0.05
#: thresholds for load by other processes and for steal time, in percent of one core
OTHER_PERCENT = 10.0
_STOLEN_PERCENT = 5.0
#: allowed drop of the highest clock below the maximum of the run
_CLOCK_DROP_PERCENT = 15.0
_HOT_C = 90.0
_LEAST_MEMORY_BYTES = 256 << 20
_MOST_SWAPPED_BYTES = 1 << 20
#: with less load the clock is low because the device is idle
_AT_WORK_CORES = 0.5


class Code(StrEnum):
    """The kinds of disturbance."""

    OTHER_LOAD = "other_load"
    STOLEN = "stolen"
    THROTTLED = "throttled"
    CLOCK_DROPPED = "clock_dropped"
    HOT = "hot"
    MEMORY_LOW = "memory_low"
    SWAPPED = "swapped"
    GPU_SHARED = "gpu_shared"
    GATE_GAVE_UP = "gate_gave_up"


def contaminations(
    before: Snapshot,
    during: Sequence[Moment],
    after: Snapshot,
) -> list[Contamination]:
    """Return the disturbances of the run, one per kind."""
    return [
        *_loads(before, during, after),
        *_throttling(before, during, after),
        *_clocks(during),
        *_heat(before, during, after),
        *_memory(before, during, after),
        *_shared_gpus(before, after),
    ]


def gate_gave_up(reasons: Sequence[str], waited_s: float) -> Contamination:
    """Return the contamination of a run that started although the device was not idle."""
    text = f"not calm after {waited_s:.0f} s: {'; '.join(reasons)}"
    return _told(Code.GATE_GAVE_UP, text)


def _told(code: Code, detail: str) -> Contamination:
    return Contamination(code=code.value, detail=detail[:500])


def _loads(
    before: Snapshot,
    during: Sequence[Moment],
    after: Snapshot,
) -> Iterator[Contamination]:
    elapsed_s = after.at - before.at
    if elapsed_s <= 0:
        return  # the clock was set meanwhile
    others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    percent = 100 * (others_s - _COUNTING_SLACK_S) / elapsed_s
    # a short disturbance of a long run is seen by the glances only
    peak = max((100 * moment.other_cores for moment in during), default=0.0)
    if percent > OTHER_PERCENT or peak > OTHER_PERCENT:
        others_percent = max(100 * others_s / elapsed_s, 0.0)
        most = max(peak, others_percent)
        text = f"other processes used {others_percent:.0f} % of a core, at most {most:.0f} %"
        yield _told(Code.OTHER_LOAD, text + _names(during, after))
    stolen = 100 * (after.stolen_s - before.stolen_s) / elapsed_s
    if stolen > _STOLEN_PERCENT:
        text = f"the host gave {stolen:.0f} % of a core to other machines"
        yield _told(Code.STOLEN, text)


def _names(during: Sequence[Moment], after: Snapshot) -> str:
    """Who it was, the heaviest first, each name once with the most it used."""
    seen: list[OtherProcess] = [*after.processes]
    for moment in during:
        seen += moment.processes
    most: dict[str, float] = {}
    for process in seen:
        most[process.name] = max(most.get(process.name, 0.0), process.cpu_percent)
    # one that only holds much memory is no load
    named = sorted(((used, name) for name, used in most.items() if used >= 1), reverse=True)[:3]
    return ": " + ", ".join(f"{name} ({used:.0f} %)" for used, name in named) if named else ""


def _throttling(
    before: Snapshot, during: Sequence[Moment], after: Snapshot
) -> Iterator[Contamination]:
    parts = []
    for kind, count in after.throttle_counts.items():
        rose = count - before.throttle_counts.get(kind, count)
        if rose > 0:
            parts.append(f"the CPU slowed down {rose} times to cool ({kind})")
    glances = (after.gpus, *(moment.gpus for moment in during))
    reasons = {reason for gpus in glances for gpu in gpus for reason in gpu.throttle_reasons}
    if faults := sorted(reasons & _GPU_FAULTS):
        parts.append(f"the GPU slowed down ({', '.join(faults)})")
    if parts:
        yield _told(Code.THROTTLED, "; ".join(parts))


def _clocks(during: Sequence[Moment]) -> Iterator[Contamination]:
    clocks = [
        moment.max_clock_mhz
        for moment in during
        if moment.max_clock_mhz and moment.own_cores >= _AT_WORK_CORES
    ]
    if not clocks:
        return
    drop = 100 * (1 - min(clocks) / max(clocks))
    if drop > _CLOCK_DROP_PERCENT:
        text = f"the CPU's clock fell from {max(clocks):.0f} to {min(clocks):.0f} MHz"
        yield _told(Code.CLOCK_DROPPED, text)


def _heat(before: Snapshot, during: Sequence[Moment], after: Snapshot) -> Iterator[Contamination]:
    seen = [before.temperature_c, after.temperature_c, *(m.temperature_c for m in during)]
    cpu = max((value for value in seen if value is not None), default=None)
    if cpu is not None and cpu >= _HOT_C:
        yield _told(Code.HOT, f"the CPU reached {cpu:.0f} degrees Celsius")


def _memory(before: Snapshot, during: Sequence[Moment], after: Snapshot) -> Iterator[Contamination]:
    seen = [
        before.memory_available_bytes,
        after.memory_available_bytes,
        *(moment.memory_available_bytes for moment in during),
    ]
    least = min((value for value in seen if value is not None), default=None)
    if least is not None and least < _LEAST_MEMORY_BYTES:
        yield _told(Code.MEMORY_LOW, f"only {least >> 20} MiB of memory were left")
    if before.swapped_bytes is None or after.swapped_bytes is None:
        return
    moved = after.swapped_bytes - before.swapped_bytes
    if moved > _MOST_SWAPPED_BYTES:
        text = f"{moved >> 20} MiB were moved between memory and swap"
        yield _told(Code.SWAPPED, text)


def _shared_gpus(before: Snapshot, after: Snapshot) -> Iterator[Contamination]:
    counts = [_strangers(before.gpus), _strangers(after.gpus)]
    if max(counts) > 0:
        yield _told(Code.GPU_SHARED, f"{max(counts)} other processes used a GPU")


def _strangers(gpus: Sequence[GpuState]) -> int:
    return sum(gpu.other_processes or 0 for gpu in gpus)
