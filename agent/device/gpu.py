"""Read the state of NVIDIA GPUs with NVML, the driver's library. Without a driver: no GPUs."""

from collections.abc import Callable, Collection
from typing import Any

import pynvml  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict

from agent.protocol.messages import Gpu

#: bit of NVML's clock event reasons -> name in our records
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
    """The current state of one GPU. Values that its driver does not provide are None."""

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
    """Keeps NVML open, since opening it is slow. `problem` is the reason if there is no GPU."""

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
        """Return the full state of each GPU. Processes in `own` do not count as other processes."""
        return tuple(_read_all(handle, own) for handle in self._handles)

    def sample(self) -> tuple[GpuState, ...]:
        """Return the values that may change during a run; the others stay unset."""
        return tuple(_sample(handle) for handle in self._handles)

    def used_bytes(self, pids: Collection[int]) -> int | None:
        """Return the memory that processes use on all GPUs together.

        None if the driver names none of them, as in some containers, or no sizes.
        """
        running = [_query(pynvml.nvmlDeviceGetComputeRunningProcesses, h) for h in self._handles]
        sizes = [
            process.usedGpuMemory
            for processes in running
            for process in processes or ()
            if process.pid in pids and process.usedGpuMemory is not None
        ]
        return sum(sizes) if sizes else None

    def describe(self) -> tuple[Gpu, ...]:
        """Return name, memory and driver of each GPU."""
        driver = _text(_query(pynvml.nvmlSystemGetDriverVersion))[:100]
        memories = [_query(pynvml.nvmlDeviceGetMemoryInfo, handle) for handle in self._handles[:64]]
        names = [_text(_query(pynvml.nvmlDeviceGetName, handle))[:200] for handle in self._handles]
        return tuple(
            Gpu(name=name, memory_bytes=memory.total if memory else None, driver=driver)
            for name, memory in zip(names, memories, strict=False)
        )

    def close(self) -> None:
        """Shut NVML down, unless there is no GPU."""
        if self._handles:
            self._handles = []
            _query(pynvml.nvmlShutdown)


def find_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs of this device as reported to the server; none without a driver."""
    reader = GpuReader()
    try:
        return reader.describe()
    finally:
        reader.close()


def _sample(handle: Any) -> GpuState:
    power = _query(pynvml.nvmlDeviceGetPowerUsage, handle)
    utilisation = _query(pynvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _query(pynvml.nvmlDeviceGetMemoryInfo, handle)
    bits = _query(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
    return GpuState(
        sm_clock_mhz=_query(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        temperature_c=_query(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power_w=None if power is None else power / 1000,
        utilisation_percent=None if utilisation is None else utilisation.gpu,
        memory_used_bytes=None if memory is None else memory.used,
        throttle_reasons=tuple(name for bit, name in REASONS.items() if bits & bit),
    )


def _read_all(handle: Any, own: frozenset[int]) -> GpuState:
    limit = _query(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    processes = _query(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
    more = {
        "name": _text(_query(pynvml.nvmlDeviceGetName, handle)),
        "memory_clock_mhz": _query(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        "max_sm_clock_mhz": _query(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "power_limit_w": None if limit is None else limit / 1000,
        "other_processes": None if processes is None else sum(p.pid not in own for p in processes),
    }
    return _sample(handle).model_copy(update=more)


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


def _query(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call an NVML function; return None if the board does not support it."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None
