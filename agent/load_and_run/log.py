"""Lines on stderr in the form of load_and_run's own log."""

import os
import sys
import threading
import time

#: copies of a model that run at once must not write into each other's lines
_LOCK = threading.Lock()


def log(text, level=""):
    """One line: `[DD HH:MM:SS function@file:line] text`; a level goes right after the bracket."""
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
