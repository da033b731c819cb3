"""Read clocks, temperatures and throttling counters from /sys; empty where Linux has none.

The paths are looked up once and cached, because that takes longer than reading the files.
"""

import functools
import glob
import re
from collections.abc import Sequence

from agent.device.process_table import read_group_files, read_text

_CPU = "/sys/devices/system/cpu"
#: drivers of sensors inside or next to the CPU; others measure disks, batteries, network cards
_DRIVERS = {
    "coretemp", "k10temp", "k8temp", "zenpower", "fam15h_power", "via_cputemp", "cpu_thermal",
    "soc_thermal", "scpi_sensors",
}  # fmt: skip
_ZONE = re.compile(r"x86_pkg_temp|cpu|soc|bigcore|littlecore", re.IGNORECASE)
#: in microseconds with cgroup v2, in nanoseconds with v1
_LIMITED = re.compile(r"^throttled_(usec|time) (\d+)$", re.MULTILINE)
_LIMITED_UNITS_S = {"usec": 1e-6, "time": 1e-9}
#: reading a core's clock may wake it, so during a run only a few are read
_MOST_CORES = 8


def read_temperature_c() -> float | None:
    """Return the highest temperature of the CPU's sensors."""
    degrees = [
        value / 1000 for path in _temperature_files() if (value := _number(path)) is not None
    ]
    # sensors that are not connected return arbitrary values
    plausible = [value for value in degrees if -50 < value < 150]
    return max(plausible) if plausible else None


def read_throttle_counts() -> dict[str, int]:
    """Return how often the hardware throttled since boot: totals over all cores and packages."""
    counts: dict[str, int] = {}
    for kind in ("core", "package"):
        values = [_number(path) for path in _throttle_files(kind)]
        known = [value for value in values if value is not None]
        if known:
            counts[kind] = sum(known)
    return counts


def read_limited_s() -> float:
    """Return how long CPU limits of the agent's control groups stopped its cores, in seconds.

    The agent and its runs share these groups. The time is the sum over all cores.
    """
    texts = read_group_files("cpu", "cpu.stat", "cpu.stat")
    matches = (match for text in texts if (match := _LIMITED.search(text)))
    return sum(int(match[2]) * _LIMITED_UNITS_S[match[1]] for match in matches)


def read_governor() -> str:
    """Return the kernel's clock governor, e.g. `performance`; empty if it is unknown."""
    names = {read_text(path) for path in _clock_files("scaling_governor")}
    return ",".join(sorted(names - {""}))


def read_max_clock_mhz(cores: Sequence[int] = ()) -> float | None:
    """Return the highest clock of `cores`, of all if it is empty; None if they are many.

    The clock of only some of them would be useless: the run may be on the others.
    """
    files = _clock_files("scaling_cur_freq", tuple(cores))
    if len(files) > _MOST_CORES:
        return None
    values = [value for path in files if (value := _number(path)) is not None]
    return max(values) / 1000 if values else None


@functools.cache
def _temperature_files() -> tuple[str, ...]:
    paths = []
    for folder in glob.glob("/sys/class/hwmon/hwmon*"):
        if read_text(f"{folder}/name") in _DRIVERS:
            paths += glob.glob(f"{folder}/temp*_input") + glob.glob(f"{folder}/device/temp*_input")
    for folder in glob.glob("/sys/class/thermal/thermal_zone*"):
        if _ZONE.search(read_text(f"{folder}/type")):
            paths.append(f"{folder}/temp")
    return tuple(paths)


@functools.cache
def _throttle_files(kind: str) -> tuple[str, ...]:
    return tuple(glob.glob(f"{_CPU}/cpu[0-9]*/thermal_throttle/{kind}_throttle_count"))


@functools.cache
def _clock_files(name: str, cores: tuple[int, ...] = ()) -> tuple[str, ...]:
    numbers = cores or ("[0-9]*",)
    return tuple(path for core in numbers for path in glob.glob(f"{_CPU}/cpu{core}/cpufreq/{name}"))


def _number(path: str) -> int | None:
    try:
        return int(read_text(path))
    except ValueError:
        return None
