"""Identify processes by /proc, wait for them, and end all processes of an attempt.

Processes of an attempt are recognized by their process group and by an environment variable with
the id of the attempt, which children inherit. The variable also identifies processes that left the
group (setsid) and those of an earlier agent; as it names the attempt, no other process is killed.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import UUID

from agent.device.process_table import (
    read_children,
    read_environment,
    read_peak_bytes,
    read_pids,
    read_stat,
    read_table,
    read_text,
    reset_own_peak,
)
from agent.execution.spool import ProcessMark

log = logging.getLogger(__name__)

#: variable in the environment of every process of an attempt
ATTEMPT_VARIABLE = "WEB_PROFILE_ATTEMPT"
_POLL_S = 0.01
_PATIENCE_S = 2.0
#: a killed process ends within a millisecond, unless it waits for a disk
_REAP_S = 0.05
#: pauses between looks for orphans, doubled from the first to the longest
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.02


@dataclass(frozen=True)
class EndedProcess:
    """A process that was waited for. `peak_bytes` is its largest resident set, or that of a
    descendant that it has waited for if that is larger.
    """

    pid: int
    session: int
    peak_bytes: int


class ChildProcess:
    """A process of the agent in its own session. Raises OSError if it cannot be started.

    asyncio's processes do not report their memory, so a thread waits for this one (old kernels have
    no pidfd). `stdin` is its pipe, or None.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: int,
        stdout: IO[bytes],
    ) -> None:
        reset_own_peak()
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        # the kernel passes the peak of the agent on to the process (vfork)
        self._inherited_bytes = read_peak_bytes("self")
        self._peak_bytes = 0
        self.pid, self.stdin = self._process.pid, self._process.stdin
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._wait, name=f"wait-{self.pid}", daemon=True).start()

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    @property
    def peak_bytes(self) -> int | None:
        """As of `EndedProcess`; None if it is unknown, or not larger than that of the agent."""
        known = self._inherited_bytes is not None and self._peak_bytes > self._inherited_bytes
        return self._peak_bytes if known else None

    async def wait(self) -> int:
        """Return the exit code, negative for a signal, when the process has ended."""
        return await asyncio.shield(self._ended)

    def _wait(self) -> None:
        code = 255
        # another thread has waited for it
        with contextlib.suppress(ChildProcessError):
            _, status, usage = os.wait4(self.pid, 0)
            code, self._peak_bytes = os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10
        self._process.returncode = code
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._ended.set_result, code)


def mark_process(pid: int) -> ProcessMark | None:
    """Return the identity of a running process; None if it has ended."""
    row = read_stat(pid)
    if row is None:
        return None
    boot = read_text("/proc/sys/kernel/random/boot_id")
    return ProcessMark(pid=pid, ticks=row.start_ticks, boot=boot)


async def end_group(group: int, attempt: UUID) -> list[EndedProcess]:
    """Kill the group until it is empty, then processes that left it. Takes two seconds at most.

    Return the orphans that were waited for, which may be of other runs.
    """
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    while signal_group(group, signal.SIGKILL) and not _only_zombies(group):
        if asyncio.get_running_loop().time() > deadline:
            log.error("group_survived group=%d attempt=%s", group, attempt)
            break
        await asyncio.sleep(_POLL_S)
    end_marked(attempt)
    return await asyncio.to_thread(reap_orphans)


async def end_leftovers(mark: ProcessMark | None, attempt: UUID) -> None:
    """Kill processes of an earlier agent; the group only if its first process is still the same."""
    if mark is not None and mark_process(mark.pid) == mark:
        await end_group(mark.pid, attempt)
    end_marked(attempt)


def end_marked(attempt: UUID) -> None:
    """Kill every process that has the attempt's variable in its environment."""
    marker = f"{ATTEMPT_VARIABLE}={attempt}".encode()
    for pid in read_pids():
        try:
            if marker in read_environment(pid) and pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
                _reap(pid)
                log.warning("escaped_process_killed pid=%d attempt=%s", pid, attempt)
        except OSError:
            continue  # gone, or another user's


def unless_gone(act: Callable[..., object], *arguments: object) -> None:
    """Call `act`; ignore that the process has ended, or that a negative niceness is forbidden."""
    try:
        act(*arguments)
    except (ProcessLookupError, PermissionError):
        return


def _reap(pid: int) -> None:
    """Wait for a killed process, which is a child of the agent due to `runner.adopt_orphans`."""
    deadline = time.monotonic() + _REAP_S
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(0.001)


def reap_group(group: int) -> list[EndedProcess]:
    """Wait for ended children in the group, so that their CPU time is accounted to the agent."""
    ended = []
    while child := _wait_for(-group, group):
        ended.append(child)
    return ended


def reap_orphans() -> list[EndedProcess]:
    """Wait for the first processes of sandboxes that have ended. Returns after two seconds at most.

    bubblewrap ends as soon as its program does. The first process of the namespace that it created
    ends a moment later, and the kernel makes it a child of the agent (`runner.adopt_orphans`). It
    is recognized by its namespace: the agent starts no children of its own in another namespace.
    """
    deadline, pause_s = time.monotonic() + _PATIENCE_S, _FIRST_PAUSE_S
    ended: list[EndedProcess] = []
    while orphans := [row for row in read_children(os.getpid()) if _is_first(row.pid)]:
        ended += [child for row in orphans if (child := _wait_for(row.pid, row.session))]
        if time.monotonic() > deadline:
            log.error("orphans_survived pids=%s", [row.pid for row in orphans])
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return ended


def _is_first(pid: int) -> bool:
    """Return whether a process is the first of a PID namespace."""
    lines = read_text(f"/proc/{pid}/status").splitlines()
    numbers = next((line for line in lines if line.startswith("NSpid:")), "").split()
    return len(numbers) > 2 and numbers[-1] == "1"


def _wait_for(pid: int, session: int) -> EndedProcess | None:
    """Wait for an ended child; return None if there is none. `pid` as for waitpid."""
    try:
        ended, _, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return EndedProcess(ended, session, usage.ru_maxrss << 10) if ended else None


def signal_group(group: int, number: signal.Signals) -> bool:
    """Send a signal to the group; return whether it exists and may be signalled."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        log.exception("group_not_permitted group=%d", group)
        return False
    return True


def _only_zombies(group: int) -> bool:
    """Return whether all processes of the group are zombies, which init may never reap."""
    return not any(row.group == group and row.state not in "ZX" for row in read_table().values())


def oom_kills() -> int | None:
    """Return the kernel's count of out-of-memory kills, None if it is not available."""
    lines = read_text("/proc/vmstat").splitlines()
    counts = dict(line.split() for line in lines if line.count(" ") == 1)
    return int(counts["oom_kill"]) if "oom_kill" in counts else None
