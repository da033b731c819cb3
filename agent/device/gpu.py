"""NVIDIA GPUs through the driver's own library (NVML); nothing where there is no driver."""

from collections.abc import Callable
from typing import Any, TypeVar

import pynvml  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict

T = TypeVar("T")

#: bits of NVML's clock event reasons, by the names we use on the wire
REASONS = {
    0x1: "gpu_idle",
    0x2: "clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
    0x100: "display_clocks_setting",
}


class GpuState(BaseModel):
    """One GPU now. What its driver does not tell is None."""

    model_config = ConfigDict(frozen=True)

    name: str = ""
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    utilisation_percent: int | None = None
    memory_used_bytes: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    other_processes: int | None = None


class GpuReader:
    """Keeps the library open, since opening it takes long. `problem` says why there is no GPU."""

    def __init__(self) -> None:
        self.problem = ""
        self._handles: list[Any] = []
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(count)]
        except pynvml.NVMLError as exc:
            self.problem = str(exc)

    def __len__(self) -> int:
        return len(self._handles)

    def read(self, own: frozenset[int] = frozenset()) -> tuple[GpuState, ...]:
        """All of each GPU's state; `own` are the processes that are not others'."""
        return tuple(_read_all(handle, own) for handle in self._handles)

    def glance(self) -> tuple[GpuState, ...]:
        """What changes while a run lasts, and what may spoil it."""
        return tuple(_glance(handle) for handle in self._handles)

    def close(self) -> None:
        """Let go of the library; a reader without a GPU has nothing to let go of."""
        if self._handles:
            self._handles = []
            _ask(pynvml.nvmlShutdown)


def _glance(handle: Any) -> GpuState:
    return GpuState(
        sm_clock_mhz=_ask(lambda: _clock(handle, pynvml.NVML_CLOCK_SM)),
        temperature_c=_ask(lambda: _temperature(handle)),
        power_w=_ask(lambda: _power(handle)),
        utilisation_percent=_ask(lambda: _utilisation(handle)),
        memory_used_bytes=_ask(lambda: _memory_used(handle)),
        throttle_reasons=_reasons(handle),
    )


def _read_all(handle: Any, own: frozenset[int]) -> GpuState:
    name = _ask(lambda: pynvml.nvmlDeviceGetName(handle))
    limit = _ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    processes = _ask(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    return GpuState(
        name=name.decode() if isinstance(name, bytes) else name or "",
        sm_clock_mhz=_ask(lambda: _clock(handle, pynvml.NVML_CLOCK_SM)),
        memory_clock_mhz=_ask(lambda: _clock(handle, pynvml.NVML_CLOCK_MEM)),
        max_sm_clock_mhz=_ask(lambda: _max_clock(handle)),
        temperature_c=_ask(lambda: _temperature(handle)),
        power_w=_ask(lambda: _power(handle)),
        power_limit_w=None if limit is None else limit / 1000,
        utilisation_percent=_ask(lambda: _utilisation(handle)),
        memory_used_bytes=_ask(lambda: _memory_used(handle)),
        throttle_reasons=_reasons(handle),
        other_processes=None if processes is None else sum(p.pid not in own for p in processes),
    )


def _reasons(handle: Any) -> tuple[str, ...]:
    bits = _ask(lambda: int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))) or 0
    return tuple(name for bit, name in REASONS.items() if bits & bit)


def _clock(handle: Any, kind: int) -> int:
    return int(pynvml.nvmlDeviceGetClockInfo(handle, kind))


def _max_clock(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM))


def _temperature(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))


def _power(handle: Any) -> float:
    return float(pynvml.nvmlDeviceGetPowerUsage(handle)) / 1000


def _utilisation(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)


def _memory_used(handle: Any) -> int:
    return int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


def _ask(question: Callable[[], T]) -> T | None:
    """A board answers some questions with "not supported"."""
    try:
        return question()
    except pynvml.NVMLError:
        return None
