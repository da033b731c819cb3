"""A process that is started before its arguments are known, so that they need not wait for it.

The agent keeps one while the device idles. Until the arguments come nothing is done that a run
could see: the library is imported, no model is looked at.
"""

import json
import os

from load_and_run.errors import NoMegEngine


def _here():
    try:
        return os.getcwd()
    except OSError:  # removed
        return ""


#: taken before numpy is imported, since the folder may be renamed at any time
_STARTED_IN = _here()
#: the only argument of such a process; no flag, hence not in the help
WAIT = "--wait-for-arguments"


def wait_for_arguments():
    """Import the library, then read the arguments: one line on stdin, a JSON list of strings.

    Returns None if stdin ends before; then whoever started this process is gone. Afterwards the
    process is as if it had been started with these arguments: stdin is empty, and variables that
    named its folder name it by the path that the folder has by now.
    """
    from load_and_run.library import import_library

    try:
        import_library()
        from megenginelite import tensor  # noqa: F401
    except (NoMegEngine, ImportError):
        pass  # a run says so itself
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
