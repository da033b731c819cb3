"""Forks a limited reader for each folder that it is told.

To start a reader anew takes longer than most profiles, nearly all of it for imports.
`python -m profiles.ingest.fork_server FD`: FD is a socket of packets; each is the path of a folder
and carries a socket, over which the reader's exit code is answered as text, negative for the signal
that ended it. A reader whose asker hangs up is killed. The server ends when its asker's process is
gone. Like `profiles.ingest.limited_process` it imports neither Django nor settings and knows no
secrets.
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

from profiles.ingest import cut_reader, limited_process

#: from linux/prctl.h
PR_SET_PDEATHSIG = 1
#: what a reader wrote to stderr
SAID = "said.txt"
_LONGEST_PATH = 4096


def serve(asked: socket.socket) -> None:
    """Answer until the other side is closed."""
    # who presses Ctrl-C means the site, which then hangs up
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        path, answers, _, _ = socket.recv_fds(asked, _LONGEST_PATH, 1)
        if not path:
            return
        if os.fork() == 0:
            asked.close()
            _watch(Path(os.fsdecode(path)), socket.socket(fileno=answers[0]))
        for each in answers:
            os.close(each)


def _reap(*_: object) -> None:
    """Wait for those that ended. Were they ignored, nobody could tell what readers take."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(folder: Path, asker: socket.socket) -> None:
    """Fork the reader and answer how it ended; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ended, alive = os.pipe()
        reader = os.fork()
        if reader == 0:
            asker.close()
            _read(folder)
        os.close(alive)
        ready, _, _ = select.select([ended, asker.fileno()], [], [])
        if ended not in ready:
            os.kill(reader, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
        with contextlib.suppress(OSError):
            asker.sendall(str(code).encode())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _read(folder: Path) -> None:
    """Be the reader; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if sys.platform == "linux":
            # it ends with who watches it: its folder is gone then
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(folder / SAID, os.O_CREAT | os.O_WRONLY, 0o600), sys.stderr.fileno())
        is_cut = (folder / cut_reader.ORDER).exists()
        code = cut_reader.main(folder) if is_cut else limited_process.main(folder)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
