"""Launcher of a part: `python -I -S process.py PARENT_PID COMMAND...`.

It asks the kernel to send TERM to this process when the supervisor dies, and executes the command;
the setting (PR_SET_PDEATHSIG) survives exec. It is a separate program because code between fork and
exec in a large process can deadlock. It uses only the standard library and costs 15 ms per part.
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
    if os.getppid() != parent:  # the supervisor died before prctl
        sys.exit(1)
    # Python ignores these two signals, and exec keeps ignored signals ignored
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main()
