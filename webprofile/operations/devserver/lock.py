"""File lock that allows one supervisor per home folder."""

import fcntl
import json
import os
import time
from pathlib import Path

from webprofile.operations.devserver.guard import is_alive

#: time that the guard of a killed supervisor may need to end its processes
CLEAN_UP_S = 20.0


class HomeInUseError(Exception):
    """Another supervisor uses this home folder; the text names it."""


class HomeLock:
    """A lock (flock) that is released when the last process closes its descriptor.

    The guard inherits `descriptor`, so the home folder of a killed supervisor stays locked until
    all its processes have ended.
    """

    def __init__(self, file: Path) -> None:
        """Take the lock. Raises HomeInUseError."""
        self._file = file
        self.descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take()
        except HomeInUseError:
            os.close(self.descriptor)
            raise
        self.announce("")

    def announce(self, address: str) -> None:
        """Write the process id and the address of the site into the lock file."""
        os.truncate(self.descriptor, 0)
        os.pwrite(self.descriptor, json.dumps({"pid": os.getpid(), "address": address}).encode(), 0)

    def release(self) -> None:
        os.truncate(self.descriptor, 0)
        os.close(self.descriptor)

    def _take(self) -> None:
        deadline = time.monotonic() + CLEAN_UP_S
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = self._holder()
                if is_alive(int(holder["pid"])) or time.monotonic() > deadline:
                    raise HomeInUseError(self._explain(holder)) from None
                time.sleep(0.2)
            else:
                return

    def _holder(self) -> dict[str, int | str]:
        try:
            holder: dict[str, int | str] = json.loads(os.pread(self.descriptor, 4096, 0))
        except ValueError:
            return {"pid": 0, "address": ""}
        return holder

    def _explain(self, holder: dict[str, int | str]) -> str:
        status = f"serves {holder['address']}" if holder["address"] else "is starting or stopping"
        return f"Process {holder['pid']} {status} from {self._file.parent}."
