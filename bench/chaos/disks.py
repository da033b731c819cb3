"""Simulate a full disk with a tmpfs whose size is changed while it is mounted."""

import contextlib
import os
import subprocess
from pathlib import Path

#: smallest size: the kernel reads a tmpfs size of 0 as "no limit"
_PAGE = 4096
_TRIES = 10


class DiskError(Exception):
    """A mount command failed. The message has its output."""


class Disk:
    """A tmpfs at a folder, in the mount namespace of this process."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Raises DiskError."""
        self.path, self._size_bytes = path, size_bytes
        path.mkdir(parents=True, exist_ok=True)
        self._do("mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "chaos", str(path))

    @property
    def used_bytes(self) -> int:
        stats = os.statvfs(self.path)
        return (stats.f_blocks - stats.f_bfree) * stats.f_frsize

    def fill(self) -> None:
        """Shrink the disk to what is stored on it, so that further writes fail with ENOSPC."""
        for _ in range(_TRIES - 1):
            # fails if something was written after the size was read
            with contextlib.suppress(DiskError):
                return self._shrink()
        return self._shrink()

    def _shrink(self) -> None:
        size_bytes = max(self.used_bytes, _PAGE)
        self._do("mount", "-o", f"remount,size={size_bytes}", str(self.path))

    def empty(self) -> None:
        """Restore the original size; stored files stay."""
        self._do("mount", "-o", f"remount,size={self._size_bytes}", str(self.path))

    def remove(self) -> None:
        """Unmount the disk and discard its files."""
        self._do("umount", "--lazy", str(self.path))

    def _do(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DiskError(f"{' '.join(command)}: {done.stderr.strip()}")
