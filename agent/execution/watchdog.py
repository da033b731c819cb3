"""Watchdog for limits of a whole run: silence, output, number of processes, disk and memory.

It samples the run twice a second from outside. A sample reads /proc for the processes of the
attempt and the sizes of its files, in about 0.25 ms; a folder with many files is measured less
often. All processes of the machine are searched only every few seconds, or if their number jumps,
for processes that left the process tree; these are recognized by their mark.
"""

import asyncio
import os
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from agent.device.disk_usage import (
    MOST_FILES,
    DiskUsage,
    deleted_bytes,
    measure_folder,
    sizes_of_files,
)
from agent.device.gpu import GpuReader
from agent.device.process_table import (
    ProcessStat,
    descendants,
    read_environment,
    read_table,
    read_tree,
    task_count,
    tree_cpu_s,
)
from agent.execution.memory import MemoryMeter
from agent.execution.processes import ATTEMPT_VARIABLE, unless_gone
from agent.protocol.messages import EndReason
from agent.protocol.notes import Note

POLL_S = 0.5
#: interval of checks of the number of processes for untrusted programs: within half a second a fork
#: bomb has thousands
_WARY_S = 0.1
#: interval of searches over all processes; a search also follows after this many new processes
_SEARCH_S = 10.0
_MANY_NEW = 64
#: CPU time per sample below which a process counts as hung; it may have a thread that polls a clock
_AWAKE_CPU_S = 0.05
#: with less free space the disk counts as full
_FULL_BYTES = 1 << 20
#: largest share of one core for measuring the files, and the longest pause that results from it
_SCAN_SHARE = 0.01
_MOST_SCAN_PAUSE_S = 10.0
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class LimitHit:
    """The limit that was exceeded, as the reason of the end, and a note that explains it."""

    reason: EndReason
    note: Note


def signal_name(exit_code: int) -> str:
    """Return the signal that an exit code stands for (`SIGABRT` for 134), empty if none."""
    try:
        return signal.Signals(exit_code - 128).name
    except ValueError:
        return ""


def limit_of_exit(exit_code: int) -> LimitHit | None:
    """Return the limit that the kernel enforced, if the exit code is SIGXCPU or SIGXFSZ."""
    name = signal_name(exit_code)
    if name == "SIGXCPU":
        return LimitHit(EndReason.TIMED_OUT, Note.of("cpu_time_limit"))
    if name == "SIGXFSZ":
        return LimitHit(EndReason.OUTPUT_TOO_LARGE, Note.of("file_limit"))
    return None


@dataclass(frozen=True)
class WatchLimits:
    """Limits of a run; 0 disables a limit. `file_bytes` is for a single file, as RLIMIT_FSIZE.

    `memory_bytes` is for all processes together; shared pages count once per process.
    """

    silence_s: float = 60.0
    disk_bytes: int = 4 << 30
    print_bytes: int = 64 << 20
    processes: int = 256
    file_bytes: int = 2 << 30
    memory_bytes: int = 0


class Watchdog:
    """Watches one process and its descendants in the folder `work`, with stdout in `output`.

    `begin` is the usage of the folder before the first of several processes that share the limits
    of the disk; None if this process has the limits for itself. `wary`: take a sample as soon as
    many processes have been started. `memory` is the memory seen in all samples.
    """

    def __init__(
        self,
        work: Path,
        output: Path,
        limits: WatchLimits,
        begin: DiskUsage | None = None,
        *,
        wary: bool = False,
        gpus: GpuReader | None = None,
    ) -> None:
        self._work, self._output, self._limits = work, output, limits
        self.wary = wary
        self.memory = MemoryMeter(gpus)
        # existing files (the model, the output of an earlier process) do not count for the run
        begin = begin or measure_folder(work)
        self._work_begin = begin.bytes
        self._most_files = begin.files + MOST_FILES
        self._next_scan_s = 0.0
        self._large_before = self._large_files()
        self._output_begin = _size(output)
        self._active_s = time.monotonic()
        self._active_cpu_s, self._active_output = 0.0, self._output_begin
        self._searched_s, self._tasks = -_SEARCH_S, task_count()
        #: (pid, start) of processes outside the tree -> whether it has the mark; a process cannot
        #: get the mark later
        self._is_marked: dict[tuple[int, int], bool] = {}
        self._escaped: set[int] = set()
        self._saw_full_disk = False

    async def watch(self, pid: int, mark: UUID) -> LimitHit:
        """Wait until a limit is exceeded. Cancel it when the run has ended."""
        while True:
            await self._pause()
            hit = self.sample(pid, mark)
            if hit is not None:
                return hit

    async def _pause(self) -> None:
        for _ in range(round(POLL_S / _WARY_S) if self.wary else 1):
            await asyncio.sleep(_WARY_S if self.wary else POLL_S)
            if self.wary and task_count() - self._tasks >= _MANY_NEW:
                return

    def sample(self, pid: int, mark: UUID) -> LimitHit | None:
        """Take one sample; return the limit that is exceeded, if any."""
        self._saw_full_disk = self.saw_full_disk()
        rows = self.members(pid, mark)
        self.memory.sample(rows.values())
        return (
            self._too_many(rows)
            or self._too_long()
            or self._too_large_now_and_then(rows)
            or self._too_much_memory(rows)
            or self._silent(rows)
        )

    def sample_memory(self, pid: int, mark: UUID) -> None:
        """Sample only the memory, before the run is ended."""
        self.memory.sample(self.members(pid, mark).values())

    def saw_full_disk(self) -> bool:
        """Return whether the disk is full now or was in an earlier sample.

        A full disk is a problem of the device: the data of the run itself has its own limit.
        """
        try:
            return self._saw_full_disk or shutil.disk_usage(self._work).free < _FULL_BYTES
        except OSError:  # the run removed its folder
            return self._saw_full_disk

    def members(self, pid: int, mark: UUID) -> dict[int, ProcessStat]:
        """Return the processes of the run: the descendants of `pid`, and those with the mark."""
        now_s, tasks = time.monotonic(), task_count()
        if now_s - self._searched_s >= _SEARCH_S or tasks - self._tasks >= _MANY_NEW:
            self._searched_s, self._tasks = now_s, tasks
            return self._search(pid, mark)
        self._tasks = min(self._tasks, tasks)
        rows = read_tree(pid)
        for escaped in self._escaped:
            rows |= read_tree(escaped)
        return rows

    async def end_all(self, pid: int, mark: UUID) -> None:
        """Kill all processes of the run, repeatedly until none is left, since they may fork."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s:
            rows = [row for row in self._search(pid, mark).values() if row.state not in "ZX"]
            if not rows:
                return
            # stop all of them first, so that none forks while others are killed
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for row in rows:
                    unless_gone(os.kill, row.pid, number)
            await asyncio.sleep(0.01)

    def _search(self, pid: int, mark: UUID) -> dict[int, ProcessStat]:
        table = read_table()
        tree = descendants(table, [pid])
        grouped = {p for p, row in table.items() if pid in (row.group, row.session)}
        is_marked: dict[tuple[int, int], bool] = {}
        for other, row in table.items():
            key = (other, row.start_ticks)
            if other in tree:
                continue
            mark_state = self._is_marked[key] if key in self._is_marked else _carries(other, mark)
            if mark_state is not None:
                is_marked[key] = mark_state
        self._is_marked = is_marked
        marked = {other for (other, _), state in is_marked.items() if state}
        self._escaped = (grouped | marked) - set(tree) - {os.getpid()}
        return tree | descendants(table, self._escaped)

    def _too_many(self, rows: dict[int, ProcessStat]) -> LimitHit | None:
        most = self._limits.processes
        if not most or len(rows) <= most:
            return None
        note = Note.of("process_limit", count=len(rows), limit=most)
        return LimitHit(EndReason.TOO_MANY_PROCESSES, note)

    def _too_long(self) -> LimitHit | None:
        most, printed = self._limits.print_bytes, _size(self._output) - self._output_begin
        if not most or printed <= most:
            return None
        note = Note.of("output_limit", size=amount(printed), limit=amount(most))
        return LimitHit(EndReason.LOG_TOO_LONG, note)

    def _too_large_now_and_then(self, rows: dict[int, ProcessStat]) -> LimitHit | None:
        """Check the files, with pauses in proportion to the duration of the last check."""
        if time.monotonic() < self._next_scan_s:
            return None
        begin_s = time.thread_time()
        hit = self._too_large(rows)
        took_s = time.thread_time() - begin_s
        self._next_scan_s = time.monotonic() + min(took_s / _SCAN_SHARE, _MOST_SCAN_PAUSE_S)
        return hit

    def _too_large(self, rows: dict[int, ProcessStat]) -> LimitHit | None:
        usage = measure_folder(self._work, self._most_files)
        added, most = usage.bytes - self._work_begin, self._limits.disk_bytes
        if most:
            # deleted files that are still open fill the disk, too
            added += deleted_bytes(rows)
        if most and added > most:
            note = Note.of("disk_limit", size=amount(added), limit=amount(most))
            return LimitHit(EndReason.OUTPUT_TOO_LARGE, note)
        if usage.files > self._most_files:
            note = Note.of("file_count_limit", limit=MOST_FILES)
            return LimitHit(EndReason.OUTPUT_TOO_LARGE, note)
        if usage.unseen and most:
            return LimitHit(EndReason.OUTPUT_TOO_LARGE, usage.unseen)
        largest = self._limits.file_bytes
        if largest and usage.largest_bytes >= largest:
            for path in sorted(self._large_files() - self._large_before):
                note = Note.of("file_limit_of", name=path.name, limit=amount(largest))
                return LimitHit(EndReason.OUTPUT_TOO_LARGE, note)
        return None

    def _large_files(self) -> set[Path]:
        largest = self._limits.file_bytes
        return {path for path, size in sizes_of_files(self._work) if size >= largest}

    def _too_much_memory(self, rows: dict[int, ProcessStat]) -> LimitHit | None:
        most = self._limits.memory_bytes
        used_bytes = sum(row.resident_bytes for row in rows.values())
        if not most or used_bytes <= most:
            return None
        note = Note.of("memory_limit", size=amount(used_bytes), limit=amount(most))
        return LimitHit(EndReason.OUT_OF_MEMORY, note)

    def _silent(self, rows: dict[int, ProcessStat]) -> LimitHit | None:
        cpu_s, printed = tree_cpu_s(rows.values()), _size(self._output)
        now_s = time.monotonic()
        # the sum decreases when a process has ended
        worked = not 0 <= cpu_s - self._active_cpu_s < _AWAKE_CPU_S
        if worked or printed != self._active_output:
            self._active_s, self._active_cpu_s, self._active_output = now_s, cpu_s, printed
        quiet_s = now_s - self._active_s
        if not self._limits.silence_s or quiet_s < self._limits.silence_s:
            return None
        return LimitHit(EndReason.SILENT, Note.of("silence_limit", seconds=round(quiet_s)))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _carries(pid: int, mark: UUID) -> bool | None:
    """Return whether a process has the mark; None if unknown, because it is just calling exec."""
    try:
        environment = read_environment(pid)
    except OSError:
        return False  # it has ended, or belongs to another user
    return f"{ATTEMPT_VARIABLE}={mark}".encode() in environment if environment else None


def amount(size: int) -> str:
    """Format a size in GiB or MiB."""
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
