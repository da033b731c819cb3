"""Disk usage of a run: files in its folder, and deleted files that it keeps open."""

import math
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.protocol.notes import Note

#: most files that a run may create; many small files fill a disk, too
MOST_FILES = 20_000
#: deepest level that is measured; paths are limited to 4,096 bytes anyway
MOST_DEPTH = 64


@dataclass(frozen=True)
class DiskUsage:
    """Disk usage of a folder, or what was added to one.

    `bytes` are allocated bytes: fewer than the size for sparse files.

    `unseen` is the reason why a part could not be measured, None if everything was.
    """

    bytes: int = 0
    files: int = 0
    largest_bytes: int = 0
    unseen: Note | None = None


def measure_folder(folder: Path, most_files: float = math.inf) -> DiskUsage:
    """Return the disk usage of a folder; counting stops above `most_files`."""
    total = files = largest = 0
    unseen: list[Note] = []
    for entry in _walk(folder, unseen):
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # gone meanwhile
        total += status.st_blocks * 512
        files += 1
        largest = max(largest, status.st_size)
        if files > most_files:
            break
    return DiskUsage(total, files, largest, unseen[0] if unseen else None)


def sizes_of_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield path and size of everything below a folder."""
    for entry in _walk(folder, []):
        try:
            yield Path(entry.path), entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue


def deleted_bytes(pids: Iterable[int]) -> int:
    """Return the allocated bytes of deleted files that one of these processes has open."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:  # gone, or it hides them
            continue
        for descriptor in descriptors:
            try:
                state = os.stat(f"/proc/{pid}/fd/{descriptor}")
            except OSError:
                continue
            if stat.S_ISREG(state.st_mode) and not state.st_nlink:
                sizes[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(sizes.values())


def _walk(folder: Path, unseen: list[Note]) -> Iterator[os.DirEntry[str]]:
    """Yield all entries below a folder, without recursion, as a run may nest folders deeply."""
    waiting: list[tuple[str, int]] = [(str(folder), 1)]
    while waiting:
        path, depth = waiting.pop()
        try:
            with os.scandir(path) as entries:
                rows = list(entries)
        except FileNotFoundError:
            continue
        except OSError as exc:
            unseen.append(Note.of("folder_unreadable", cause=exc.strerror or type(exc).__name__))
            continue
        for entry in rows:
            yield entry
            if not entry.is_dir(follow_symlinks=False):
                continue
            if depth < MOST_DEPTH:
                waiting.append((entry.path, depth + 1))
            else:
                unseen.append(Note.of("folders_deep", limit=MOST_DEPTH))
