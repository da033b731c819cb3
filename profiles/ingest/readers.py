"""Start the processes that read profiles, through a fork server that stays running."""

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

from profiles.ingest import fork_server

#: environment of the reader processes: freed columns return to the system at once; otherwise glibc
#: raises the threshold with each freed block and keeps more and more of them (mallopt(3),
#: M_MMAP_THRESHOLD)
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(64 << 10)}
_KILLED_WITHIN_S = 10.0
#: how often `meanwhile` is called while a thread waits
_POLL_S = 0.5


class ForkServer:
    """Client of a fork server of this process, which is started on first use.

    Thread-safe. module: the server, started by `python -m`
    has_settings: its environment is that of this process, with the site's secrets
    """

    def __init__(self, module: str = fork_server.__name__, *, has_settings: bool = False) -> None:
        self._module, self._has_settings = module, has_settings
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        atexit.register(self.end)
        os.register_at_fork(after_in_child=self.forget)

    def read(
        self, folder: Path, within_s: float, meanwhile: Callable[[], object] | None = None
    ) -> int | None:
        """Run a reader on the job in `folder` and return its exit code, negative for a signal.

        Returns None if the process that waits for the reader was killed.
        meanwhile: called every `_POLL_S`
        Raises TimeoutError after `within_s`; the reader is killed.
        """
        own_end, reader_end = socket.socketpair()
        with own_end:
            with reader_end:
                self._ask(folder, reader_end)
            try:
                exit_code = _answer(own_end, within_s, meanwhile)
            except TimeoutError:
                _hang_up(own_end)
                raise
        return int(exit_code) if exit_code else None

    def end(self) -> None:
        """Close the connection and wait until the server has exited."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Drop the server in a forked process: it is the parent's, which may hold the lock."""
        self._lock = threading.Lock()
        self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, folder: Path, answer: socket.socket) -> None:
        with self._lock:
            if self._connection is None or not _sent(self._connection, folder, answer):
                self._end()
                self._connection = self._begin()
                _sent(self._connection, folder, answer)

    def _begin(self) -> socket.socket:
        own_end, reader_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with reader_end:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-m", self._module, str(reader_end.fileno())],
                cwd=settings.BASE_DIR,
                env=(dict(os.environ) if self._has_settings else {}) | _environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[reader_end.fileno()],
            )
        return own_end

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.wait()
            self._process = None


def _answer(
    connection: socket.socket, within_s: float, meanwhile: Callable[[], object] | None
) -> bytes:
    """Wait for the answer. Raises TimeoutError after `within_s`."""
    deadline = time.monotonic() + within_s
    while (left_s := deadline - time.monotonic()) > 0:
        connection.settimeout(left_s if meanwhile is None else min(left_s, _POLL_S))
        try:
            return connection.recv(16)
        except TimeoutError:
            if meanwhile is not None:
                meanwhile()
    raise TimeoutError


def _hang_up(connection: socket.socket) -> None:
    """Have the reader killed, and wait until it no longer uses its folder."""
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(_KILLED_WITHIN_S)
    with contextlib.suppress(OSError):
        connection.recv(16)


def _sent(server_socket: socket.socket, folder: Path, answer: socket.socket) -> bool:
    try:
        socket.send_fds(server_socket, [os.fsencode(folder)], [answer.fileno()])
    except (BrokenPipeError, ConnectionError):
        return False
    return True


def _environment() -> dict[str, str]:
    """The reader's environment, without the site's secrets.

    One thread per numeric library, because thread stacks count towards the memory limit.
    """
    kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return kept | dict.fromkeys(threads, "1") | {"LC_ALL": "C.UTF-8"} | ALLOCATOR


server = ForkServer()
