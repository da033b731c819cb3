"""One run of load_and_run: own process group, limits, a timeout, and nothing left behind."""

import asyncio
import ctypes
import functools
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from agent.processes import ATTEMPT_VARIABLE, end_group, terminate_group
from agent.protocol import EndReason

FILE_LIMIT_BYTES = 2 << 30
_MEMORY_SHARE = 0.9
_PR_SET_NO_NEW_PRIVS = 38


@dataclass(frozen=True)
class Limits:
    """Limits of each process of a run. `memory_bytes` None: no limit.

    With a GPU the limit is on data, not on address space: CUDA reserves address space for all of
    the host's and the device's memory, which costs nothing and would pass any sensible limit.
    """

    memory_bytes: int | None = None
    on_data_only: bool = False
    nice: int = 0

    def rows(self) -> list[tuple[str, int, int]]:
        """The limits as (option of prlimit(1), number of the resource, value)."""
        rows = [
            ("core", resource.RLIMIT_CORE, 0),
            ("fsize", resource.RLIMIT_FSIZE, FILE_LIMIT_BYTES),
        ]
        if self.memory_bytes is not None:
            number = resource.RLIMIT_DATA if self.on_data_only else resource.RLIMIT_AS
            rows.append(("data" if self.on_data_only else "as", number, self.memory_bytes))
        return rows


@dataclass(frozen=True)
class RunResult:
    """`reason` is exited, timed_out or cancelled; `exit_code` as a shell shows it."""

    reason: EndReason
    exit_code: int
    run_s: float


def choose_limits(
    configured: int | None, machine_bytes: int, *, has_gpu: bool, nice: int
) -> Limits:
    """`configured` None: a share of the machine's memory; 0: no limit."""
    memory = int(machine_bytes * _MEMORY_SHARE) if configured is None else configured
    return Limits(memory_bytes=memory or None, on_data_only=has_gpu, nice=nice)


def drop_privileges() -> None:
    """Let no process we start gain rights by a setuid program. Linux only, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def build_environment(work: Path, attempt: UUID) -> dict[str, str]:
    """All that the process sees; nothing of the agent's own environment but where programs are.

    LD_LIBRARY_PATH and CUDA's variables are how an owner points load_and_run to its libraries.
    """
    kept = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": str(work),
        "TMPDIR": str(work),
        "LANG": "C.UTF-8",
        # a cache on disk would carry one attempt's measurements into the next
        "MGE_FASTRUN_CACHE_TYPE": "MEMORY",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        ATTEMPT_VARIABLE: str(attempt),
    }


class Run:
    """A process group that runs. `mark` is what its processes carry in ATTEMPT_VARIABLE."""

    def __init__(self, process: asyncio.subprocess.Process, mark: UUID) -> None:
        self._process, self._mark = process, mark
        self._begin = time.monotonic()
        self.pid = process.pid

    async def wait(
        self, timeout_s: float, grace_s: Callable[[], float], stop: asyncio.Event
    ) -> RunResult:
        """Wait for the end, the timeout or `stop`, whichever comes first; then no process is left.

        `grace_s` is asked when it is needed: it depends on who stops.
        A cancelled caller leaves no process either, but gives it no grace.
        """
        ending = asyncio.create_task(self._process.wait())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait(
                {ending, stopping}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            reason = EndReason.TIMED_OUT
            if ending.done():
                reason = EndReason.EXITED
            elif stopping.done():
                reason = EndReason.CANCELLED
            if reason is not EndReason.EXITED:
                terminate_group(self.pid)
                await asyncio.wait({ending}, timeout=grace_s())
            run_s = time.monotonic() - self._begin
        finally:
            stopping.cancel()
            await asyncio.shield(end_group(self.pid, self._mark))
            code = await ending
        return RunResult(reason, 128 - code if code < 0 else code, run_s)


async def start_run(
    command: Sequence[str], work: Path, output: Path, limits: Limits, attempt: UUID
) -> Run:
    """Start the command with stdout and stderr merged into `output`. Raises OSError."""
    return Run(await start_process(command, work, output, limits, attempt), attempt)


async def start_process(
    command: Sequence[str],
    work: Path,
    output: Path,
    limits: Limits,
    mark: UUID,
    *,
    stdin: int = asyncio.subprocess.DEVNULL,
) -> asyncio.subprocess.Process:
    """Start the command in a group of its own. Raises OSError.

    Limits are put on by prlimit(1) before the command begins: 1 ms. Code between fork and exec
    would cost 2 ms, since Python then cannot use vfork. Without prlimit(1) they follow at once.
    """
    prlimit = _prlimit()
    prefix = [f"--{option}={value}" for option, _, value in limits.rows()]
    with output.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            *([prlimit, *prefix] if prlimit else []),
            *command,
            stdin=stdin,
            stdout=sink,
            stderr=asyncio.subprocess.STDOUT,
            cwd=work,
            env=build_environment(work, mark),
            start_new_session=True,
        )
    if not prlimit:
        _limit_later(process.pid, limits)
    if limits.nice:
        _unless_gone(lambda: os.setpriority(os.PRIO_PGRP, process.pid, limits.nice))
    return process


@functools.cache
def _prlimit() -> str | None:
    return shutil.which("prlimit")


def _limit_later(pid: int, limits: Limits) -> None:
    for _, number, value in limits.rows():
        _unless_gone(functools.partial(resource.prlimit, pid, number, (value, value)))


def _unless_gone(act: Callable[[], object]) -> None:
    """The process may have ended already, or a negative niceness be above our rights."""
    try:
        act()
    except (ProcessLookupError, PermissionError):
        return


def signal_name(exit_code: int) -> str:
    """`SIGABRT` for 134, empty if no signal ended the process."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""
