"""Ends everything a supervisor started, also when the supervisor was killed.

`python -S -m webprofile.operations.devserver.guard COOKIE GRACE_S [FOLDER]` sleeps until its
standard input ends, which happens when the supervisor ends in any way. Then it ends each process
whose environment holds the supervisor's cookie, and all their descendants: sessions and process
groups do not matter, so a load_and_run below the agent or a child of a dead actor process is found
too. The input's lines name processes that count as well (pid, start time): Redis overwrites its
environment with a title, and others clear it. Linux only: elsewhere there is no /proc, and the
parts' own manners must do.
FOLDER is removed at the end.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

COOKIE_NAME = "MGW_EMBEDDED_COOKIE"
#: first word of a line that says: all parts had their grace already
CLOSING = "closing"
SHORT_GRACE_S = 0.5
PROC = Path("/proc")

#: pid and start time: a pid that is used again has another start time
Identity = tuple[int, str]


def processes_of(cookie: str, told: set[Identity]) -> set[Identity]:
    """Return `told`, who carries the cookie, and all descendants; never oneself or a zombie."""
    wanted = f"{COOKIE_NAME}={cookie}".encode()

    def is_ours(one: Identity) -> bool:
        try:
            environment = (PROC / str(one[0]) / "environ").read_bytes()
        except OSError:  # another user's, or gone
            return one in told
        return one in told or wanted in environment.split(b"\0")

    return _with_heirs(is_ours)


def family_of(pid: int) -> set[Identity]:
    """Return a process and its descendants."""
    return _with_heirs(lambda one: one[0] == pid)


def _with_heirs(is_ours: Callable[[Identity], bool]) -> set[Identity]:
    parents: dict[int, int] = {}
    identities: dict[int, Identity] = {}
    for pid, state, parent, started in _all_processes():
        if state != "Z" and pid != os.getpid():
            parents[pid], identities[pid] = parent, (pid, started)
    found = {pid for pid, identity in identities.items() if is_ours(identity)}
    while heirs := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= heirs
    return {identities[pid] for pid in found}


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    return any(each == pid and state != "Z" for each, state, _, _ in _all_processes())


def end_all(cookie: str, told: set[Identity], grace_s: float) -> None:
    """TERM, grace, KILL; comes back when none is left."""
    known = processes_of(cookie, told)
    _signal(known, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while known := _alive(known) | processes_of(cookie, told):
        if time.monotonic() > deadline:
            _signal(known, signal.SIGKILL)
        time.sleep(0.05)


def _all_processes() -> Iterator[tuple[int, str, int, str]]:
    """Yield (pid, state, parent, start time) as proc(5) describes /proc/PID/stat."""
    for entry in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # the name before the last parenthesis may itself hold blanks and parentheses
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            yield int(entry.name), fields[0], int(fields[1]), fields[19]


def _alive(known: set[Identity]) -> set[Identity]:
    now = {(pid, started) for pid, state, _, started in _all_processes() if state != "Z"}
    return known & now


def _signal(known: set[Identity], number: signal.Signals) -> None:
    for pid, _ in _alive(known):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def main() -> None:
    # a terminal's Ctrl-C and a kill of the whole group are meant for the supervisor
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    cookie, grace_s, *folders = sys.argv[1:]
    lines = sys.stdin.read().splitlines()
    told = {(int(pid), started) for pid, started in map(str.split, lines) if pid != CLOSING}
    end_all(cookie, told, SHORT_GRACE_S if f"{CLOSING} -" in lines else float(grace_s))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
