"""The process that reads a profile, as the site starts it: forked from one that is kept at hand."""

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from profiles.allocator import ALLOCATOR
from profiles.ingest import fork_server

_KILLED_WITHIN_S = 10.0
#: while somebody waits, `meanwhile` is called so often
_LOOK_S = 0.5


class ForkServer:
    """One `profiles.ingest.fork_server` of this process, begun when it is first needed.

    Any number of threads may ask at the same time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: socket.socket | None = None

    def read(
        self, folder: Path, within_s: float, meanwhile: Callable[[], object] | None = None
    ) -> int | None:
        """Have the order in `folder` read; returns the reader's exit code, negative for a signal.

        meanwhile: called every now and then
        None if somebody ended what watches the reader. Raises TimeoutError; the reader is killed.
        """
        mine, theirs = socket.socketpair()
        with mine:
            with theirs:
                self._ask(folder, theirs)
            try:
                told = _answer(mine, within_s, meanwhile)
            except TimeoutError:
                _hang_up(mine)
                raise
        return int(told) if told else None

    def end(self) -> None:
        """Hang up and wait until it is gone."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """In a process that was forked: the server is its parent's, and maybe the lock, too."""
        self._lock = threading.Lock()
        self._process = None
        if self._asked is not None:
            self._asked.close()
            self._asked = None

    def _ask(self, folder: Path, answer: socket.socket) -> None:
        with self._lock:
            if self._asked is None or not _sent(self._asked, folder, answer):
                self._end()
                self._asked = self._begin()
                _sent(self._asked, folder, answer)

    def _begin(self) -> socket.socket:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-m", fork_server.__name__, str(theirs.fileno())],
                cwd=settings.BASE_DIR,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        return mine

    def _end(self) -> None:
        if self._asked is not None:
            self._asked.close()
            self._asked = None
        if self._process is not None:
            self._process.wait()
            self._process = None


def _answer(
    asking: socket.socket, within_s: float, meanwhile: Callable[[], object] | None
) -> bytes:
    """What is answered within the time. Raises TimeoutError."""
    deadline = time.monotonic() + within_s
    while (left_s := deadline - time.monotonic()) > 0:
        asking.settimeout(left_s if meanwhile is None else min(left_s, _LOOK_S))
        try:
            return asking.recv(16)
        except TimeoutError:
            if meanwhile is not None:
                meanwhile()
    raise TimeoutError


def _hang_up(asking: socket.socket) -> None:
    """Have the reader killed, and wait until it has left its folder."""
    asking.shutdown(socket.SHUT_WR)
    asking.settimeout(_KILLED_WITHIN_S)
    with contextlib.suppress(OSError):
        asking.recv(16)


def _sent(asked: socket.socket, folder: Path, answer: socket.socket) -> bool:
    try:
        socket.send_fds(asked, [os.fsencode(folder)], [answer.fileno()])
    except (BrokenPipeError, ConnectionError):
        return False
    return True


def _environment() -> dict[str, str]:
    """Nothing of the site's own, which holds secrets; one thread, whose stacks count as memory."""
    kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return kept | dict.fromkeys(threads, "1") | {"LC_ALL": "C.UTF-8"} | ALLOCATOR


server = ForkServer()
atexit.register(server.end)
os.register_at_fork(after_in_child=server.forget)
