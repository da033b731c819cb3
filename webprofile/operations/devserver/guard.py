"""Guard process: end all processes of a supervisor, even if the supervisor is killed.

`python -S -m webprofile.operations.devserver.guard COOKIE GRACE_S [FOLDER]` waits for the end of
its standard input, which happens when the supervisor ends in any way. Then it ends all processes
with the supervisor's cookie in their environment, and their descendants, regardless of sessions and
process groups, for example a load_and_run of the agent or a child of a dead actor process. Each
input line names a further process (pid and start time), since Redis overwrites its environment with
a title and other programs clear it. The guard reads /proc, so it works only on Linux; on other
systems the parts must end by themselves. FOLDER is deleted at the end.
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
#: first word of the input line which reports that all parts had their grace period
CLOSING = "closing"
SHORT_GRACE_S = 0.5
PROC = Path("/proc")

#: pid and start time, which together identify a process even if its pid is reused
Identity = tuple[int, str]


def processes_of(cookie: str, reported: set[Identity]) -> set[Identity]:
    """Return the `reported` processes, those with the cookie, and the descendants of both.

    This process and zombies are excluded.
    """
    variable = f"{COOKIE_NAME}={cookie}".encode()

    def is_ours(identity: Identity) -> bool:
        try:
            environment = (PROC / str(identity[0]) / "environ").read_bytes()
        except OSError:  # it belongs to another user or has ended
            return identity in reported
        return identity in reported or variable in environment.split(b"\0")

    return _with_descendants(is_ours)


def family_of(pid: int) -> set[Identity]:
    """Return a process and its descendants."""
    return _with_descendants(lambda identity: identity[0] == pid)


def _with_descendants(is_ours: Callable[[Identity], bool]) -> set[Identity]:
    parents: dict[int, int] = {}
    identities: dict[int, Identity] = {}
    for pid, state, parent, started in _all_processes():
        if state != "Z" and pid != os.getpid():
            parents[pid], identities[pid] = parent, (pid, started)
    pids = {pid for pid, identity in identities.items() if is_ours(identity)}
    while children := {pid for pid, parent in parents.items() if parent in pids} - pids:
        pids |= children
    return {identities[pid] for pid in pids}


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    return any(other == pid and state != "Z" for other, state, _, _ in _all_processes())


def end_all(cookie: str, reported: set[Identity], grace_s: float) -> None:
    """Send TERM, after `grace_s` KILL, and return when no process is left."""
    known = processes_of(cookie, reported)
    _signal(known, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while known := _alive(known) | processes_of(cookie, reported):
        if time.monotonic() > deadline:
            _signal(known, signal.SIGKILL)
        time.sleep(0.05)


def _all_processes() -> Iterator[tuple[int, str, int, str]]:
    """Yield (pid, state, parent, start time) as proc(5) describes /proc/PID/stat."""
    for entry in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # the name, up to the last parenthesis, may contain spaces and parentheses
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
    # Ctrl-C in the terminal and signals to the process group are for the supervisor
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    cookie, grace_s, *folders = sys.argv[1:]
    lines = sys.stdin.read().splitlines()
    reported = {(int(pid), started) for pid, started in map(str.split, lines) if pid != CLOSING}
    end_all(cookie, reported, SHORT_GRACE_S if f"{CLOSING} -" in lines else float(grace_s))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
