"""Running a program as if at a terminal.

load_and_run 1.7 to 1.10 prints its version to stdout and aborts at a missing model. Into a pipe the
C library writes whole blocks, and abort throws away what is left; to a terminal it writes lines.
"""

import os
import pty
import select
import signal
import subprocess
import time
from contextlib import suppress

_MOST_BYTES = 1 << 20


def output_at_terminal(command: list[str], folder: str, timeout_s: float) -> str:
    """What the command prints, stdout and stderr as they come. Raises OSError, TimeoutExpired."""
    ours, theirs = pty.openpty()
    try:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        try:
            return _read(ours, command, timeout_s).decode("utf-8", "replace")
        finally:
            with suppress(ProcessLookupError, PermissionError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        os.close(ours)


def _read(terminal: int, command: list[str], timeout_s: float) -> bytes:
    """Everything until the last one who could write is gone."""
    deadline = time.monotonic() + timeout_s
    read = b""
    while len(read) < _MOST_BYTES:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise subprocess.TimeoutExpired(command, timeout_s)
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # EIO: how Linux says that the other side is closed
            break
        if not piece:
            break
        read += piece
    return read
