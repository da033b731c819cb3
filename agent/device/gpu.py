"""NVIDIA GPUs through the driver's own library (NVML); nothing where there is no driver."""

from collections.abc import Callable
from typing import Any

import pynvml  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict

from agent.protocol import Gpu

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

    def describe(self) -> tuple[Gpu, ...]:
        """Name, memory and driver of each."""
        driver = _text(_ask(pynvml.nvmlSystemGetDriverVersion))[:100]
        memories = [_ask(pynvml.nvmlDeviceGetMemoryInfo, handle) for handle in self._handles[:64]]
        names = [_text(_ask(pynvml.nvmlDeviceGetName, handle))[:200] for handle in self._handles]
        return tuple(
            Gpu(name=name, memory_bytes=memory.total if memory else None, driver=driver)
            for name, memory in zip(names, memories, strict=False)
        )

    def close(self) -> None:
        """Let go of the library; a reader without a GPU has nothing to let go of."""
        if self._handles:
            self._handles = []
            _ask(pynvml.nvmlShutdown)


def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs of this device as the server is told of them; none without a driver."""
    reader = GpuReader()
    try:
        return reader.describe()
    finally:
        reader.close()


def _glance(handle: Any) -> GpuState:
    power = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
    utilisation = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    bits = _ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
    return GpuState(
        sm_clock_mhz=_ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        temperature_c=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power_w=None if power is None else power / 1000,
        utilisation_percent=None if utilisation is None else utilisation.gpu,
        memory_used_bytes=None if memory is None else memory.used,
        throttle_reasons=tuple(name for bit, name in REASONS.items() if bits & bit),
    )


def _read_all(handle: Any, own: frozenset[int]) -> GpuState:
    limit = _ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    processes = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    more = {
        "name": _text(_ask(pynvml.nvmlDeviceGetName, handle)),
        "memory_clock_mhz": _ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        "max_sm_clock_mhz": _ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "power_limit_w": None if limit is None else limit / 1000,
        "other_processes": None if processes is None else sum(p.pid not in own for p in processes),
    }
    return _glance(handle).model_copy(update=more)


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    """A board answers some questions with "not supported"; then None."""
    try:
        return question(*arguments)
    except pynvml.NVMLError:
        return None
