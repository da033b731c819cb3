"""Fork server: forks a resource-limited reader process for each folder that a client sends.

Starting a fresh interpreter takes longer than reading most profiles, because of the imports.
`python -m profiles.ingest.fork_server FD`: FD is a SOCK_SEQPACKET socket. Each packet holds the
path of a folder and passes a socket, on which the server answers the reader's exit code as text
(negative for a signal). When the client closes that socket, the reader is killed. The server exits
when the client process is gone. Like `profiles.ingest.limited_process`, it imports neither Django
nor the settings and holds no secrets.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path

from profiles.ingest import excerpt_process, limited_process

#: from linux/prctl.h
PR_SET_PDEATHSIG = 1
#: file with the stderr of a reader
STDERR = "stderr.txt"
_LONGEST_PATH = 4096


def serve(client: socket.socket) -> None:
    """Serve requests until the client closes the socket."""
    # Ctrl-C is meant for the site, which then closes the socket
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        path, answers, _, _ = socket.recv_fds(client, _LONGEST_PATH, 1)
        if not path:
            return
        if os.fork() == 0:
            client.close()
            _watch(Path(os.fsdecode(path)), socket.socket(fileno=answers[0]))
        for answer in answers:
            os.close(answer)


def _reap(*_: object) -> None:
    """Collect ended children. With SIG_IGN, the resource usage of readers would be lost."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(folder: Path, client: socket.socket) -> None:
    """Fork the reader and answer its exit code; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ended, alive = os.pipe()
        reader = os.fork()
        if reader == 0:
            client.close()
            _read(folder)
        os.close(alive)
        ready, _, _ = select.select([ended, client.fileno()], [], [])
        if ended not in ready:
            os.kill(reader, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
        with contextlib.suppress(OSError):
            client.sendall(str(code).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _read(folder: Path) -> None:
    """Run the reader in this process; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.platform == "linux":
            # end with the watching process, since the folder is removed then
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(folder / STDERR, os.O_CREAT | os.O_WRONLY, 0o600), sys.stderr.fileno())
        is_cut = (folder / excerpt_process.ORDER).exists()
        code = excerpt_process.main(folder) if is_cut else limited_process.main(folder)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
