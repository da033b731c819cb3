"""Read files of /proc, above all the process table, which is cheap enough during a run."""

import contextlib
import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One process. `cpu_s` is its own CPU time, `waited_cpu_s` that of children it has waited for.

    `start_ticks` distinguishes a process from a later one with the same pid.
    """

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    cpu_s: float
    waited_cpu_s: float
    start_ticks: int
    resident_bytes: int


def read_text(path: str) -> str:
    """Return the text of a file of /proc or /sys without white space around it, else ""."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def read_group_files(controller: str, v2_name: str, v1_name: str, root: str = "/") -> list[str]:
    """Return the contents of a file of this process's control group and of its parent groups.

    Groups without the file are skipped.

    v2_name: name of the file in cgroup v2
    v1_name: name of the file of `controller` in cgroup v1
    root: folder that contains /proc and /sys
    """
    texts = []
    for line in read_text(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, file = PurePath(root, "sys/fs/cgroup"), v2_name
        elif controller in controllers.split(","):
            top, file = PurePath(root, "sys/fs/cgroup", controller), v1_name
        else:
            continue
        # a container sees its own group as the top, whatever the path is
        folder = PurePath(group.lstrip("/"))
        texts += [read_text(f"{top / part}/{file}") for part in (folder, *folder.parents)]
    return [text for text in texts if text]


def read_stat(pid: int) -> ProcessStat | None:
    """Return the entry of a process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    # the name is in parentheses and may contain any character, parentheses included
    begin, end = text.index("("), text.rindex(")")
    fields = text[end + 2 :].split()
    return ProcessStat(
        pid=pid,
        name=text[begin + 1 : end],
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        waited_cpu_s=(int(fields[13]) + int(fields[14])) / TICKS_PER_S,
        start_ticks=int(fields[19]),
        resident_bytes=int(fields[21]) * PAGE_BYTES,
    )


def read_peak_bytes(pid: int | str) -> int | None:
    """Return the largest resident set of a process so far (VmHWM); None if it has ended."""
    for line in read_text(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return None


def reset_own_peak() -> None:
    """Let VmHWM of this process start again from its current memory, if the kernel allows it."""
    # proc_pid_clear_refs(5)
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def read_pids() -> list[int]:
    """Return the pids of all processes."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def read_table() -> dict[int, ProcessStat]:
    """Return all processes by pid. Takes about 20 us per process."""
    return {pid: row for pid in read_pids() if (row := read_stat(pid)) is not None}


def read_environment(pid: int) -> list[bytes]:
    """Return the environment of a process as `NAME=value`; empty during an exec.

    Raises OSError if the process has ended or belongs to another user.
    """
    with open(f"/proc/{pid}/environ", "rb") as file:
        content = file.read()
    return content.split(b"\0") if content else []


def read_tree(root: int) -> dict[int, ProcessStat]:
    """Return `root` and its descendants by pid, if possible without reading other processes."""
    if not _lists_children():
        return descendants(read_table(), [root])
    rows: dict[int, ProcessStat] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        row = read_stat(pid)
        if row is not None and pid not in rows:
            rows[pid] = row
            waiting += _children(pid)
    return rows


def read_children(pid: int) -> list[ProcessStat]:
    """Return the children of a process, if possible without reading other processes."""
    if not _lists_children():
        return [row for row in read_table().values() if row.parent == pid]
    return [row for child in _children(pid) if (row := read_stat(child)) is not None]


def descendants(table: dict[int, ProcessStat], roots: Iterable[int]) -> dict[int, ProcessStat]:
    """Return `roots` and their descendants."""
    by_parent: dict[int, list[int]] = {}
    for row in table.values():
        by_parent.setdefault(row.parent, []).append(row.pid)
    rows: dict[int, ProcessStat] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in table and pid not in rows:
            rows[pid] = table[pid]
            waiting += by_parent.get(pid, [])
    return rows


def tree_cpu_s(rows: Iterable[ProcessStat]) -> float:
    """Return the CPU time of a tree, including ended children that were waited for."""
    return sum(row.cpu_s + row.waited_cpu_s for row in rows)


def task_count() -> int:
    """Return the number of processes and threads on this machine; 0 if it is unknown."""
    try:
        return int(read_text("/proc/loadavg").split()[3].partition("/")[2])
    except (ValueError, IndexError):
        return 0


@functools.cache
def _lists_children() -> bool:
    """Return whether the kernel was built with CONFIG_PROC_CHILDREN."""
    pid = os.getpid()
    return os.path.exists(f"/proc/{pid}/task/{pid}/children")


def _children(pid: int) -> list[int]:
    """Return the children of all threads of a process."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
    except OSError:
        return pids
    return pids
