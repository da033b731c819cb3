"""Lines on stderr in the form of load_and_run's own log."""

import os
import sys
import time


def log(text, level=""):
    """One line: `[DD HH:MM:SS function@file:line] text`; a level goes right after the bracket."""
    caller = sys._getframe(1)
    sys.stderr.write(
        "[{} {}@{}:{}]{} {}\n".format(
            time.strftime("%d %H:%M:%S"),
            caller.f_code.co_name,
            os.path.basename(caller.f_code.co_filename),
            caller.f_lineno,
            "[{}]".format(level) if level else "",
            text,
        )
    )
    sys.stderr.flush()
