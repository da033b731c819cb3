"""Wait for the arguments of a run in a process that was started in advance.

The agent keeps such a process ready while the device is idle, so that an attempt does not wait for
the import of the library. Before the arguments arrive, the process only imports the library, which
has no effect on the run.
"""

import json
import os

from load_and_run.errors import NoMegEngine


def _working_folder():
    try:
        return os.getcwd()
    except OSError:  # removed
        return ""


#: read before numpy is imported, because the agent may rename the folder at any time
_STARTED_IN = _working_folder()
#: the only argument of a prestarted process; not a flag of load_and_run
WAIT = "--wait-for-arguments"


def wait_for_arguments():
    """Import the library, then read the arguments: one line on stdin, a JSON list of strings.

    Return None if stdin ends before that, i.e. if the parent process is gone. Afterwards the
    process is in the same state as one started with these arguments: stdin is empty, and
    environment variables that contained the path of the working folder contain its current path.
    """
    from load_and_run.library import import_library

    try:
        import_library()
        from megenginelite import tensor  # noqa: F401
    except (NoMegEngine, ImportError):
        pass  # the run reports it
    with os.fdopen(os.dup(0), "rb") as source:
        line = source.readline()
    if not line.endswith(b"\n"):
        return None
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    for name, value in list(os.environ.items()):
        if value and value == _STARTED_IN:
            os.environ[name] = os.getcwd()
    return json.loads(line.decode("utf-8"))
