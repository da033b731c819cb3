"""Failures and log lines of a run, printed to stderr as load_and_run prints them.

A failure prints two lines and ends in a SIGABRT.

Error classes that load_and_run does not have; parsers of the log may rely on their names:

    lar::InputError    the value or the files of --input do not fit the model or are unreadable
    lar::ModelError    the model file is missing, empty, truncated, or not a MegEngine model
    lar::ProfileError  the run succeeded, but its profile cannot be written or is unusable
    lar::NoMegEngine   this interpreter cannot import megenginelite

A failure inside the library keeps the class name that load_and_run itself prints
(`mgb::AssertionError`, `lite::Error`, ...).
"""

import os
import signal
import sys
import threading
import time

#: the reason why MegEngine fails to write the profile of a successful run, or leaves it empty
NOT_ASCII = (
    "MegEngine cannot write a profile of this model: an operator, variable or input has a name "
    "that is not ASCII; dump the model with ASCII names"
)
#: keeps lines whole when several copies of a model run at once
_LOCK = threading.Lock()


class Failure(Exception):
    """Ends the run. `kind` is the C++ exception class that load_and_run would print."""

    kind = "std::runtime_error"

    def __init__(self, text, kind=None):
        super().__init__(text)
        if kind:
            self.kind = kind


class InputError(Failure):
    kind = "lar::InputError"


class ModelError(Failure):
    kind = "lar::ModelError"


class ProfileError(Failure):
    kind = "lar::ProfileError"


class NoMegEngine(Failure):
    kind = "lar::NoMegEngine"


class FlagError(Exception):
    """An invalid command line: as with gflags, one line on stderr and exit code 1."""


def library_failure(text):
    """Convert the text of megenginelite's RuntimeError to the Failure that load_and_run reports."""
    text = text.strip() or "the library gave no reason"
    if "/json.cpp:" in text:  # MegEngine's JSON writer rejects bytes above 127
        return ProfileError("{}\nextra message: {}".format(NOT_ASCII, text))
    if text.startswith(("Assert", "Error: Assert", "LITE", "[LITE")):
        return Failure(text, "lite::Error")
    if text.startswith("assertion `") or "\nextra message:" in text:
        return Failure(text, "mgb::AssertionError")
    if "bad_alloc" in text:
        return Failure(text, "std::bad_alloc")
    return Failure(text, "mgb::MegBrainError")


def die(failure):
    """Print the failure as the C++ runtime does and abort the process (128 + 6 in a shell)."""
    sys.stdout.flush()
    sys.stderr.write(
        "terminate called after throwing an instance of '{}'\n  what():  {}\n".format(
            failure.kind, failure
        )
    )
    sys.stderr.flush()
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a large core dump would fill the disk
    except (ImportError, ValueError, OSError):
        pass
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    os.abort()


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
