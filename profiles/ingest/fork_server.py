"""Fork server: forks a resource-limited reader process for each folder that a client sends.

Starting a fresh interpreter takes longer than reading most profiles, because of the imports.
`python -m profiles.ingest.fork_server FD`: FD is a SOCK_SEQPACKET socket. Each packet holds the
path of a folder and passes a socket, on which the server answers the reader's exit code as text
(negative for a signal). When the client closes that socket, the reader is killed. The server exits
when the client process is gone. Like `profiles.ingest.limited_process`, it imports neither Django
nor the settings and holds no secrets; `profiles.exports` serves another program that does.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from profiles.ingest import excerpt_process, limited_process

#: from linux/prctl.h
PR_SET_PDEATHSIG = 1
#: file with the stderr of a reader
STDERR = "stderr.txt"
_LONGEST_PATH = 4096

#: a program that runs on the job in a folder and returns the exit code
Program = Callable[[Path], int]


def serve(client: socket.socket, program: Program) -> None:
    """Serve requests until the client closes the socket: run `program` on each folder."""
    # Ctrl-C is meant for the site, which then closes the socket
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        path, answers, _, _ = socket.recv_fds(client, _LONGEST_PATH, 1)
        if not path:
            return
        if os.fork() == 0:
            client.close()
            _watch(program, Path(os.fsdecode(path)), socket.socket(fileno=answers[0]))
        for answer in answers:
            os.close(answer)


def _reap(*_: object) -> None:
    """Collect ended children. With SIG_IGN, the resource usage of readers would be lost."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(program: Program, folder: Path, client: socket.socket) -> None:
    """Fork the reader and answer its exit code; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ended, alive = os.pipe()
        reader = os.fork()
        if reader == 0:
            client.close()
            _run(program, folder)
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


def _run(program: Program, folder: Path) -> None:
    """Run the program in this process; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # end with the watching process, since the folder is removed then
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(folder / STDERR, os.O_CREAT | os.O_WRONLY, 0o600), sys.stderr.fileno())
        code = program(folder)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def read_or_cut(folder: Path) -> int:
    """Read the files in the folder, or cut a trace, and return the exit code."""
    is_cut = (folder / excerpt_process.ORDER).exists()
    return excerpt_process.main(folder) if is_cut else limited_process.main(folder)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), read_or_cut)
