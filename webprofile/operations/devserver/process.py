"""Becomes a part: `python -I -S process.py PARENT_PID COMMAND...`.

The kernel then ends this process when the supervisor dies, however it dies. This is a program of
its own because code between fork and exec of a larger process is a known source of deadlocks, and
the wish survives exec. Run as a file with nothing but the standard library: it costs 15 ms a part.
"""

import ctypes
import os
import signal
import sys

#: from linux/prctl.h
PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the wish was heard
        sys.exit(1)
    # Python ignores these two; an ignored signal stays ignored across exec
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
