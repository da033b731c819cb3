"""Run a process in its own process group, with resource limits, a timeout and cleanup."""

import asyncio
import ctypes
import functools
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

from agent.config import Config
from agent.device.cores import Cores, format_cores
from agent.device.process_table import read_tree
from agent.execution.memory import PeakMemory
from agent.execution.processes import (
    ATTEMPT_VARIABLE,
    ChildProcess,
    end_group,
    oom_kills,
    reap_group,
    signal_group,
    unless_gone,
)
from agent.execution.watchdog import LimitHit, Watchdog, WatchLimits, limit_of_exit, signal_name
from agent.protocol.messages import EndReason, Facts
from agent.protocol.run_log import CoreWaits

FILE_LIMIT_BYTES = 2 << 30
_MEMORY_SHARE = 0.9
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
#: measured CPU time is slightly larger than wall time, and the timeout excludes the start-up
_CPU_SLACK = 1.1
_CPU_SLACK_S = 30
#: time between SIGXCPU and SIGKILL
_CPU_GRACE_S = 5
#: RLIMIT_NPROC counts all threads of the user; a desktop user has one or two thousand
_TASKS_PER_PROCESS = 16
#: for a user without other processes; libraries start some threads per core
_OWN_TASKS_PER_PROCESS = 4
_OWN_TASKS_PER_CORE = 32


@dataclass(frozen=True)
class Limits:
    """Resource limits of each process of a run; None is no limit, empty `cores` are all cores.

    Memory is limited by RLIMIT_DATA instead of RLIMIT_AS: the libraries of the wheel take 1.7 GiB
    of address space, and with a GPU CUDA reserves some for the whole memory of host and device.

    `cpu_s` depends on the task, see `for_task`. `processes` is converted to a limit on the user's
    tasks (RLIMIT_NPROC), which only slows down a fork bomb; the watchdog (`watch`) enforces the
    limit of the attempt. `tasks` sets RLIMIT_NPROC directly.
    """

    memory_bytes: int | None = None
    nice: int = 0
    file_bytes: int = FILE_LIMIT_BYTES
    cpu_s: int | None = None
    processes: int | None = None
    tasks: int | None = None
    cores: tuple[int, ...] = ()
    watch: WatchLimits = field(default_factory=WatchLimits)

    def for_task(self, timeout_s: float) -> "Limits":
        """Return these limits with the CPU time that a task can use until its timeout."""
        return replace(self, cpu_s=cpu_limit_s(timeout_s, len(self.cores)))

    def for_a_user_of_its_own(self) -> "Limits":
        """Return tighter limits on the number of tasks, for a user without other processes."""
        if not self.processes:
            return self
        least = _OWN_TASKS_PER_CORE * (os.cpu_count() or 1)
        return replace(self, tasks=max(self.processes * _OWN_TASKS_PER_PROCESS, least))

    def rows(self) -> list[tuple[str, int, int, int]]:
        """Return the limits as (option of prlimit(1), number of the resource, soft, hard)."""
        limits: dict[str, int] = {"core": 0, "fsize": self.file_bytes}
        if self.memory_bytes is not None:
            limits["data"] = self.memory_bytes
        if self.cpu_s is not None:
            limits["cpu"] = self.cpu_s
        # RLIMIT_NPROC has no effect on root, and would be misleading in the record
        if self.tasks is not None:
            limits["nproc"] = self.tasks
        elif self.processes is not None and os.geteuid() != 0:
            limits["nproc"] = self.processes * _TASKS_PER_PROCESS
        return [_row(option, value) for option, value in limits.items()]


@dataclass(frozen=True)
class RunResult:
    """How a process ended. `reason` is exited, timed_out, cancelled or killed.

    `exit_code` is the value that a shell shows. `limit` is the limit that ended the process; the
    reason is then exited. `disk_was_full`: a failure may be due to the device, not the model.
    `waits` is of the whole process, None if it was not sampled. `memory` is of all its processes.
    `is_prestarted`: it had imported MegEngine before; `run_s` does not include that.
    """

    reason: EndReason
    exit_code: int
    run_s: float
    limit: LimitHit | None = None
    disk_was_full: bool = False
    waits: CoreWaits | None = None
    memory: PeakMemory = field(default_factory=PeakMemory)
    is_prestarted: bool = False


def choose_limits(config: Config, facts: Facts, cores: Cores | None = None) -> Limits:
    """Return the limits for runs on this device.

    If the configured `memory_limit_bytes` is None, it is a share of the machine's memory; 0 is no
    limit.
    """
    configured, runs = config.memory_limit_bytes, config.limits
    memory = int(facts.memory_bytes * _MEMORY_SHARE) if configured is None else configured
    return Limits(
        memory_bytes=memory or None,
        nice=config.nice,
        processes=runs.processes or None,
        cores=cores.measured if cores else (),
        watch=WatchLimits(**runs.model_dump(), memory_bytes=memory),
    )


def cpu_limit_s(timeout_s: float, cores: int = 0) -> int:
    """Return the CPU time that a run of `timeout_s` can use; `cores` 0 stands for all cores."""
    used = cores or os.cpu_count() or 1
    return int(timeout_s * used * _CPU_SLACK) + _CPU_SLACK_S


def limit_cpu(pid: int, cpu_s: int) -> None:
    """Limit the CPU time of a process that was started before its task was known, recursively."""
    _, number, soft, hard = _row("cpu", cpu_s)
    for member in read_tree(pid):
        unless_gone(resource.prlimit, member, number, (soft, hard))


def _row(option: str, value: int) -> tuple[str, int, int, int]:
    """Cap a limit at our own hard limit, which prlimit(1) could not raise."""
    number: int = getattr(resource, f"RLIMIT_{option.upper()}")
    most = resource.getrlimit(number)[1]
    hard = value + _CPU_GRACE_S if option == "cpu" else value
    if most == resource.RLIM_INFINITY:
        return option, number, value, hard
    return option, number, min(value, most), min(hard, most)


def drop_privileges() -> None:
    """Set no_new_privs, so that child processes gain no rights by setuid programs."""
    _prctl(_PR_SET_NO_NEW_PRIVS)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends first (subreaper).

    bubblewrap does not wait for its child. Without this, the CPU time of a run would not be
    accounted to the agent, and would look like load by other processes.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER)


def _prctl(option: int) -> None:
    ctypes.CDLL(None).prctl(option, 1, 0, 0, 0)


def build_environment(work: Path, attempt: UUID) -> dict[str, str]:
    """Return the environment of a run; of the agent's own, only a few variables are passed on.

    LD_LIBRARY_PATH and CUDA's variables let the device's owner configure load_and_run's libraries.
    """
    kept = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": str(work),
        "TMPDIR": str(work),
        "LANG": "C.UTF-8",
        # no colours in the log; `agent.link.log_tail` removes those that are printed anyway
        "NO_COLOR": "1",
        "TERM": "dumb",
        # a cache on disk would carry algorithm timings from one attempt to the next
        "MGE_FASTRUN_CACHE_TYPE": "MEMORY",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        ATTEMPT_VARIABLE: str(attempt),
    }


class Run:
    """A running process group. Its processes have ATTEMPT_VARIABLE=`mark` in their environment.

    `cpu_s` is the limit of each process's CPU time, None if there is none or it is unknown.
    """

    def __init__(
        self,
        process: ChildProcess,
        mark: UUID,
        cpu_s: int | None = None,
        *,
        is_prestarted: bool = False,
    ) -> None:
        self._process, self._mark, self._cpu_s = process, mark, cpu_s
        self._is_prestarted = is_prestarted
        self._begin = time.monotonic()
        self._oom_kills = oom_kills()
        self.pid = process.pid

    async def wait(
        self,
        timeout_s: float,
        grace_s: Callable[[], float],
        stop: asyncio.Event,
        watchdog: Watchdog,
    ) -> RunResult:
        """Wait for the end, the timeout, `stop` or a limit, whichever is first, and clean up.

        No process of the group is left afterwards. `grace_s` is called when the grace period
        begins, since its length depends on the cause. There is no grace period if the caller is
        cancelled, or if a limit was hit: a process that fills the disk would continue.
        """
        ending = asyncio.create_task(self._process.wait())
        stopping = asyncio.create_task(stop.wait())
        barking = asyncio.create_task(watchdog.watch(self.pid, self._mark))
        hit: LimitHit | None = None
        try:
            await asyncio.wait(
                {ending, stopping, barking},
                timeout=timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
            reason = EndReason.TIMED_OUT
            if ending.done():
                reason = EndReason.EXITED
            elif stopping.done():
                reason = EndReason.CANCELLED
            elif barking.done():
                reason, hit = EndReason.EXITED, barking.result()
                await watchdog.end_all(self.pid, self._mark)
            if reason is not EndReason.EXITED:
                watchdog.sample_memory(self.pid, self._mark)
                self._ask_to_end(reason, watchdog)
                await asyncio.wait({ending}, timeout=grace_s())
            run_s = time.monotonic() - self._begin
        finally:
            stopping.cancel()
            barking.cancel()
            await asyncio.gather(stopping, barking, return_exceptions=True)
            ended = await asyncio.shield(end_group(self.pid, self._mark))
            code = await ending
            # only now, because a thread waits for the first process of the group
            ended += reap_group(self.pid)
        # bubblewrap exits with the exit code of its program, and dies by a signal only if it gets
        # one itself: an untrusted program can choose any exit code, but cannot signal bubblewrap
        is_made_up = watchdog.wary and code >= 0
        code = 128 - code if code < 0 else code
        if reason is EndReason.EXITED:
            if not is_made_up or self._may_have_used_its_cpu_time(code, run_s):
                hit = hit or limit_of_exit(code)
            if hit is None and not is_made_up and self._was_killed(code):
                reason = EndReason.KILLED
        return RunResult(
            reason,
            code,
            run_s,
            hit,
            disk_was_full=watchdog.saw_full_disk(),
            memory=watchdog.memory.peak(self._process, ended),
            is_prestarted=self._is_prestarted,
        )

    def _ask_to_end(self, reason: EndReason, watchdog: Watchdog) -> None:
        """Send SIGTERM to the group, or to the program inside the sandbox of a script.

        SIGTERM ends bubblewrap and with it the whole sandbox at once. On a timeout, a script's
        program is signalled directly, so that it can still write its files; not on a cancel.
        """
        inner: list[int] = []
        if reason is EndReason.TIMED_OUT and watchdog.wary:
            rows = read_tree(self.pid)
            # bubblewrap outside, bubblewrap as first process inside, the program
            inside = {row.pid for row in rows.values() if row.parent == self.pid}
            inner = [row.pid for row in rows.values() if row.parent in inside]
        for pid in inner:
            unless_gone(os.kill, pid, signal.SIGTERM)
        if not inner:
            signal_group(self.pid, signal.SIGTERM)

    def _was_killed(self, code: int) -> bool:
        """Return whether a signal from outside ended it, rather than the out-of-memory killer."""
        if signal_name(code) not in ("SIGKILL", "SIGTERM"):
            return False
        return self._oom_kills is not None and self._oom_kills == oom_kills()

    def _may_have_used_its_cpu_time(self, code: int, run_s: float) -> bool:
        """Return whether the kernel may have ended the process for its CPU time (SIGXCPU)."""
        most_s = run_s * (os.cpu_count() or 1)
        return signal_name(code) == "SIGXCPU" and self._cpu_s is not None and most_s >= self._cpu_s


async def start_run(
    command: Sequence[str], work: Path, output: Path, limits: Limits, attempt: UUID
) -> Run:
    """Start the command with stdout and stderr merged into `output`. Raises OSError."""
    return Run(await start_process(command, work, output, limits, attempt), attempt, limits.cpu_s)


async def start_process(
    command: Sequence[str],
    work: Path,
    output: Path,
    limits: Limits,
    mark: UUID,
    *,
    stdin: int = subprocess.DEVNULL,
) -> ChildProcess:
    """Start the command in its own process group. Raises OSError.

    prlimit(1) and taskset(1) set limits and cores before the command begins, in 1 ms each. A
    `preexec_fn` would cost 2 ms, because Python then cannot use vfork. If these programs are
    missing, limits and cores are set right after the start.
    """
    prefix = _prefix(limits)
    with output.open("ab") as sink:
        process = ChildProcess(
            [*prefix, *command], work, build_environment(work, mark), stdin, sink
        )
    if not _which("prlimit"):
        for _, number, soft, hard in limits.rows():
            unless_gone(resource.prlimit, process.pid, number, (soft, hard))
    if limits.cores and not _which("taskset"):
        unless_gone(os.sched_setaffinity, process.pid, limits.cores)
    if limits.nice:
        unless_gone(os.setpriority, os.PRIO_PGRP, process.pid, limits.nice)
    return process


def _prefix(limits: Limits) -> list[str]:
    prefix: list[str] = []
    if prlimit := _which("prlimit"):
        rows = limits.rows()
        prefix += [prlimit, *(f"--{option}={soft}:{hard}" for option, _, soft, hard in rows)]
    if limits.cores and (taskset := _which("taskset")):
        prefix += [taskset, "-c", format_cores(limits.cores)]
    return prefix


@functools.cache
def _which(program: str) -> str | None:
    return shutil.which(program)
