"""Identify processes by /proc, and end all processes of an attempt.

Processes of an attempt are recognized by their process group and by an environment variable with
the id of the attempt, which children inherit. The variable also identifies processes that left the
group (setsid) and those of an earlier agent; as it names the attempt, no other process is killed.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from uuid import UUID

from agent.device.process_table import (
    read_environment,
    read_pids,
    read_stat,
    read_table,
    read_text,
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


def mark_process(pid: int) -> ProcessMark | None:
    """Return the identity of a running process; None if it has ended."""
    row = read_stat(pid)
    if row is None:
        return None
    boot = read_text("/proc/sys/kernel/random/boot_id")
    return ProcessMark(pid=pid, ticks=row.start_ticks, boot=boot)


async def end_group(group: int, attempt: UUID) -> None:
    """Kill the group until it is empty, then processes that left it. Takes two seconds at most."""
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    while signal_group(group, signal.SIGKILL) and not _only_zombies(group):
        if asyncio.get_running_loop().time() > deadline:
            log.error("group_survived group=%d attempt=%s", group, attempt)
            break
        await asyncio.sleep(_POLL_S)
    end_marked(attempt)
    await asyncio.to_thread(reap_orphans)


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


def reap_group(group: int) -> None:
    """Wait for ended children in the group, so that their CPU time is accounted to the agent."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass


def reap_orphans() -> None:
    """Wait for the first processes of sandboxes that have ended. Returns after two seconds at most.

    bubblewrap ends as soon as its program does. The first process of the namespace that it made
    ends a moment later, and the kernel makes it a child of the agent (`runner.adopt_orphans`). It
    is told from the agent's own children by its namespace: the agent starts none in another one.
    """
    deadline, pause_s = time.monotonic() + _PATIENCE_S, _FIRST_PAUSE_S
    while orphans := [pid for pid in read_pids() if _is_orphan(pid)]:
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            log.error("orphans_survived pids=%s", orphans)
            return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _is_orphan(pid: int) -> bool:
    """Return whether it is a child of this process and the first process of a PID namespace."""
    row = read_stat(pid)
    if row is None or row.parent != os.getpid():
        return False
    lines = read_text(f"/proc/{pid}/status").splitlines()
    numbers = next((line for line in lines if line.startswith("NSpid:")), "").split()
    return len(numbers) > 2 and numbers[-1] == "1"


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
