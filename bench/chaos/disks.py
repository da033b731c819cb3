"""Simulate a full disk with a tmpfs that is made smaller and larger."""

import contextlib
import os
import subprocess
from pathlib import Path

#: below this a tmpfs of size 0 would mean "no limit"
_PAGE = 4096
_TRIES = 10


class DiskError(Exception):
    """This machine lets us mount nothing; the text says so."""


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
        """No room from now on for what is written, but what is there stays."""
        for _ in range(_TRIES - 1):
            # what was written since we looked makes the disk too small for its content
            with contextlib.suppress(DiskError):
                return self._shrink()
        return self._shrink()

    def _shrink(self) -> None:
        size_bytes = max(self.used_bytes, _PAGE)
        self._do("mount", "-o", f"remount,size={size_bytes}", str(self.path))

    def empty(self) -> None:
        """Room again."""
        self._do("mount", "-o", f"remount,size={self._size_bytes}", str(self.path))

    def remove(self) -> None:
        """Give it up, with all that is on it."""
        self._do("umount", "--lazy", str(self.path))

    def _do(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DiskError(f"{' '.join(command)}: {done.stderr.strip()}")
