"""Rows of the process table, from /proc/<pid>/stat alone: cheap enough to be read during a run."""

import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Row:
    """One process. `cpu_s` is its own, `waited_cpu_s` that of the children it has waited for.

    `start_ticks` tells a process from a later one with the same pid.
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


def read_row(pid: int) -> Row | None:
    """None if the process is gone, or if there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    # the name stands in brackets and may hold anything, brackets too
    begin, end = text.index("("), text.rindex(")")
    fields = text[end + 2 :].split()
    return Row(
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


def read_pids() -> list[int]:
    """Every process."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def read_table() -> dict[int, Row]:
    """Every process by its pid. About 20 us for each."""
    return {pid: row for pid in read_pids() if (row := read_row(pid)) is not None}


def read_environment(pid: int) -> list[bytes]:
    """Variables as `NAME=value`; none while another program takes the process's place.

    Raises OSError if it is gone, or another user's.
    """
    with open(f"/proc/{pid}/environ", "rb") as file:
        content = file.read()
    return content.split(b"\0") if content else []


def read_tree(root: int) -> dict[int, Row]:
    """`root` and its descendants, without a look at any other process where the kernel helps."""
    if not _lists_children():
        return descendants(read_table(), [root])
    rows: dict[int, Row] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        row = read_row(pid)
        if row is not None and pid not in rows:
            rows[pid] = row
            waiting += _children(pid)
    return rows


def descendants(table: dict[int, Row], roots: Iterable[int]) -> dict[int, Row]:
    """The part of the table that descends from `roots`, with the roots themselves."""
    by_parent: dict[int, list[int]] = {}
    for row in table.values():
        by_parent.setdefault(row.parent, []).append(row.pid)
    rows: dict[int, Row] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in table and pid not in rows:
            rows[pid] = table[pid]
            waiting += by_parent.get(pid, [])
    return rows


def tree_cpu_s(rows: Iterable[Row]) -> float:
    """CPU time of a tree: a child that was waited for moves to its parent's account."""
    return sum(row.cpu_s + row.waited_cpu_s for row in rows)


def task_count() -> int:
    """Processes and threads on this machine: one short read. 0 where it is not known."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


@functools.cache
def _lists_children() -> bool:
    """A kernel may have been built without CONFIG_PROC_CHILDREN."""
    pid = os.getpid()
    return os.path.exists(f"/proc/{pid}/task/{pid}/children")


def _children(pid: int) -> list[int]:
    """Each thread has children of its own."""
    pids: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
    except OSError:
        return pids
    return pids
