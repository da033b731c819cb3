"""Write log lines to stderr in load_and_run's format."""

import os
import sys
import threading
import time

#: keeps lines whole when several copies of a model run at once
_LOCK = threading.Lock()


def log(text, level=""):
    """Write one line, `[DD HH:MM:SS function@file:line] text`; a level follows the bracket."""
    caller = sys._getframe(1)
    line = "[{} {}@{}:{}]{} {}\n".format(
        time.strftime("%d %H:%M:%S"),
        caller.f_code.co_name,
        os.path.basename(caller.f_code.co_filename),
        caller.f_lineno,
        "[{}]".format(level) if level else "",
        text,
    )
    with _LOCK:
        sys.stderr.write(line)
        sys.stderr.flush()
