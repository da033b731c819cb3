"""Entry point, both for `python -m load_and_run` and for `python <this folder>`."""

import ctypes
import os
import sys

if not __package__:
    # Started by path: Python put this folder first on sys.path, where modules such as flags.py
    # could hide installed ones. Replace it with the parent folder, at the end of sys.path.
    _folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _folder]
    sys.path.append(os.path.dirname(_folder))

from load_and_run.errors import NoMegEngine, die
from load_and_run.prestarted import WAIT, wait_for_arguments  # first: it stores the working folder

try:
    from load_and_run.program import main
except ImportError as error:  # an interpreter without MegEngine often has no numpy either
    die(NoMegEngine("this Python cannot import MegEngine: {}".format(error)))


def leave(code):
    """Flush all output and exit without running destructors.

    MegEngine's destructors may abort a successful run ("Handle is destructed before opr gets
    destructed": rare, seen with --thread=3 on 1.13.0).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # output of the C++ library
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1:] == [WAIT]:
        arguments = wait_for_arguments()
        if arguments is None:
            sys.exit(0)
        sys.argv[1:] = arguments
    leave(main(sys.argv))
