"""Read the kernel's settings that disturb measuring, and judge them.

Paths are relative to a root folder, which is / except in tests. `agent tune` changes the settings,
`agent doctor` reports them, and the manifest of each attempt records them.
"""

import glob
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.device.cores import Cores, available_cores, choose_cores, format_cores, parse_cores
from agent.device.process_table import read_group_files, read_text

_CPU = "sys/devices/system/cpu"
SMT = f"{_CPU}/smt/control"
_ASLR = "proc/sys/kernel/randomize_va_space"
_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
_TUNED = "`agent tune` sets it"
#: files of turbo: the value that means off, and the one that means on
_TURBO = {f"{_CPU}/intel_pstate/no_turbo": ("1", "0"), f"{_CPU}/cpufreq/boost": ("0", "1")}


@dataclass(frozen=True)
class Setting:
    """A setting, whether it disturbs measuring, and why.

    `value` is empty if the kernel does not provide it. `files` are the current contents of its
    files by path, `wanted` the contents that `agent tune` writes.
    """

    name: str
    level: Literal["ok", "unfavourable", "unknown"]
    value: str
    reason: str
    files: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{self.value}: {self.reason}" if self.value else self.reason


@dataclass(frozen=True)
class Machine:
    """The files of a machine, and the cores of the agent and its runs.

    `configured` is `cores` of `[measure]`; `available` the cores that this process may use, None
    to ask the kernel.
    """

    root: Path = Path("/")
    configured: Literal["auto"] | tuple[int, ...] = "auto"
    available: frozenset[int] | None = None

    def read(self, path: str) -> str:
        """Return the content of a file; empty if it cannot be read.

        Of `always [madvise] never`, it is the word in brackets.
        """
        text = read_text(str(self.root / path))
        match = re.search(r"\[(\w+)\]", text)
        return match[1] if match else text

    def find(self, pattern: str) -> list[str]:
        """Return the paths that match, in the order of their numbers."""
        return sorted(glob.glob(pattern, root_dir=self.root), key=_by_number)

    def online(self) -> frozenset[int]:
        return parse_cores(self.read(f"{_CPU}/online"))

    def offered(self) -> frozenset[int]:
        """Return the cores that this process may use and that are online."""
        available = available_cores() if self.available is None else self.available
        return available & (self.online() or available)

    def cores(self) -> Cores:
        """Return the cores of runs and of the agent. Raises CoresUnavailable."""
        return choose_cores(self.configured, self.offered())

    def boot(self) -> str:
        """Return the id of the kernel's last start."""
        return self.read("proc/sys/kernel/random/boot_id")


def read_settings(machine: Machine) -> tuple[Setting, ...]:
    """Return all settings; SMT is the first, because it changes which cores there are.

    Raises CoresUnavailable.
    """
    cores = machine.cores()
    readers: tuple[Callable[[Machine, Cores], Setting], ...] = (
        _read_smt,
        _read_governor,
        _read_turbo,
        _read_aslr,
        _read_huge_pages,
        _read_interrupts,
        _read_quota,
        _read_cpuset,
    )
    return tuple(read(machine, cores) for read in readers)


def clock_settings(machine: Machine) -> dict[str, str]:
    """Return the values of the settings that decide how fast the cores are."""
    readers = (_read_smt, _read_governor, _read_turbo)
    return {setting.name: setting.value for setting in (read(machine, Cores()) for read in readers)}


def _by_number(path: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path)]


def _read_smt(machine: Machine, cores: Cores) -> Setting:
    value = machine.read(SMT)
    if value in ("off", "forceoff", "notsupported", "notimplemented"):
        return Setting("smt", "ok", value, "each core runs one thread", {SMT: value})
    if value != "on":
        return Setting(
            "smt", "unknown", value, "the kernel does not report whether threads share a core"
        )
    siblings = {
        thread
        for path in machine.find(f"{_CPU}/cpu[0-9]*/topology/thread_siblings_list")
        # `off` keeps the first thread of each core
        for thread in sorted(parse_cores(machine.read(path)))[1:]
    }
    reason = "two threads share a core, so the other thread can slow a run down. "
    if lost := sorted(siblings & set(cores.measured if machine.configured != "auto" else ())):
        names = ", ".join(map(str, lost))
        reason += "`agent tune` leaves it on, because `cores` of [measure] contains the second "
        reason += f"threads {names}: remove them first"
        return Setting("smt", "unfavourable", value, reason, {SMT: value})
    return Setting("smt", "unfavourable", value, reason + _TUNED, {SMT: value}, {SMT: "off"})


def _read_governor(machine: Machine, _: Cores) -> Setting:
    paths = machine.find(f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor")
    files = {path: value for path in paths if (value := machine.read(path))}
    if not files:
        reason = "the kernel does not control the clock; for a virtual machine the host does"
        return Setting("governor", "unknown", "", reason)
    value = ", ".join(sorted(set(files.values())))
    slow = [path for path in files if files[path] != "performance"]
    if not slow:
        return Setting("governor", "ok", value, "the clock does not follow the load", files)
    wanted = {
        path: "performance"
        for path in slow
        if "performance"
        in (machine.read(path.replace("_governor", "_available_governors")) or "performance")
    }
    step = _TUNED if wanted else "the kernel has no `performance`: load its cpufreq driver"
    reason = f"the clock follows the load, so short runs are slower. {step}"
    return Setting("governor", "unfavourable", value, reason, files, wanted)


def _read_turbo(machine: Machine, _: Cores) -> Setting:
    files = {path: value for path in _TURBO if (value := machine.read(path)) in ("0", "1")}
    if not files:
        reason = "the kernel does not report whether the clock can exceed its nominal value"
        return Setting("turbo", "unknown", "", reason)
    wanted = {path: _TURBO[path][0] for path in files if files[path] != _TURBO[path][0]}
    if not wanted:
        return Setting("turbo", "ok", "off", "the clock stays at or below its nominal value", files)
    reason = "the clock depends on the temperature and the number of busy cores. " + _TUNED
    return Setting("turbo", "unfavourable", "on", reason, files, wanted)


def _read_aslr(machine: Machine, _: Cores) -> Setting:
    value = machine.read(_ASLR)
    if value == "2":
        reason = "each process has different addresses, so their effect averages out over passes"
        return Setting("aslr", "ok", "on", reason, {_ASLR: value})
    if value not in ("0", "1"):
        reason = "the kernel does not report whether the addresses of processes are random"
        return Setting("aslr", "unknown", "", reason)
    reason = "all processes have the same addresses, so their effect is the same in every pass. "
    name = "off" if value == "0" else "partly"
    return Setting("aslr", "unfavourable", name, reason + _TUNED, {_ASLR: value}, {_ASLR: "2"})


def _read_huge_pages(machine: Machine, _: Cores) -> Setting:
    value = machine.read(_HUGE_PAGES)
    if value in ("madvise", "never"):
        reason = "a run does not get huge pages by chance"
        return Setting("thp", "ok", value, reason, {_HUGE_PAGES: value})
    if value != "always":
        return Setting("thp", "unknown", value, "the kernel has no transparent huge pages")
    reason = "the number of huge pages of a run depends on what ran before. " + _TUNED
    return Setting(
        "thp", "unfavourable", value, reason, {_HUGE_PAGES: value}, {_HUGE_PAGES: "madvise"}
    )


def _read_interrupts(machine: Machine, cores: Cores) -> Setting:
    files = {}
    for path in machine.find("proc/irq/[0-9]*/smp_affinity_list"):
        # an interrupt in use has a folder that is named after its driver
        in_use = any((machine.root / path).parent.glob("*/"))
        if in_use and (value := machine.read(path)):
            files[path] = value
    if not files:
        return Setting("irq", "unknown", "", "the cores of interrupts cannot be read")
    measured = frozenset(cores.measured)
    if not measured:
        value = f"{len(files)} on any core"
        reason = "runs use all cores, so interrupts delay them. On a device with 4 or more cores, "
        reason += "set `cores` of [measure] to the cores of runs, and omit at least one"
        return Setting("irq", "unfavourable", value, reason, files)
    on_runs = [path for path in files if parse_cores(files[path]) & measured]
    value = f"{len(on_runs)} of {len(files)} on cores of runs"
    if not on_runs:
        return Setting("irq", "ok", value, "interrupts do not delay runs", files)
    rest = format_cores((machine.online() or machine.offered()) - measured)
    if not rest:
        reason = "runs use all cores, so interrupts delay them. Remove a core from `cores` of "
        return Setting("irq", "unfavourable", value, reason + "[measure]", files)
    reason = "interrupts delay runs. `agent tune` moves those that the kernel allows to move"
    return Setting("irq", "unfavourable", value, reason, files, dict.fromkeys(on_runs, rest))


def _read_quota(machine: Machine, cores: Cores) -> Setting:
    """Judge the CPU limit of the agent's control group, which runs share."""
    root = str(machine.root)
    if not read_text(f"{root}/proc/self/cgroup"):
        return Setting("quota", "unknown", "", "the kernel does not report control groups")
    quotas = read_group_files("cpu", "cpu.max", "cpu.cfs_quota_us", root)
    periods = read_group_files("cpu", "cpu.max", "cpu.cfs_period_us", root)
    # cpu.max contains both: `150000 100000`, or `max 100000` without a limit
    limits = [
        int(words[0]) / int(words[-1])
        for quota, period in zip(quotas, periods, strict=False)
        if (words := [quota.split()[0], period.split()[-1]])[0].isdecimal()
    ]
    if not limits or min(limits) >= len(machine.offered()):
        return Setting("quota", "ok", "none", "no CPU limit below the number of cores")
    reason = "a CPU limit stops runs in the middle of an iteration. Start the agent without it: "
    reason += "CPUQuota of its systemd unit, --cpus of its container"
    return Setting("quota", "unfavourable", f"{min(limits):g} cores", reason)


def _read_cpuset(machine: Machine, cores: Cores) -> Setting:
    """Judge which cores the agent may use; they depend on how the agent was started."""
    online, offered = machine.online(), machine.offered()
    if not online:
        return Setting("cpuset", "unknown", "", "the kernel does not list its cores")
    value = f"{format_cores(offered)} of {format_cores(online)}"
    used = frozenset(cores.measured) or offered
    isolated = used & parse_cores(machine.read(f"{_CPU}/isolated"))
    if isolated and len(used) > 1:
        reason = "the kernel does not spread threads over the isolated cores "
        reason += f"{format_cores(isolated)}: remove them from `cores` of [measure]"
        return Setting("cpuset", "unfavourable", value, reason)
    if not cores.own and offered < online:
        reason = "the agent shares its few cores with runs. Start it with more cores: set "
        reason += "AllowedCPUs in its systemd unit, or --cpuset-cpus for its container"
        return Setting("cpuset", "unfavourable", value, reason)
    return Setting("cpuset", "ok", value, "the agent's cores do not limit its measurements")
