"""How a run fails: load_and_run's two lines on stderr, then death by SIGABRT.

Classes of our own, which a reader of the log may rely on:

    lar::InputError    what --input says or holds does not fit the model, or cannot be read
    lar::ModelError    the model file is missing, empty, cut short, or no MegEngine model
    lar::ProfileError  the run was fine, but its profile cannot be written or is unusable
    lar::NoMegEngine   this interpreter cannot import megenginelite

A failure inside the library keeps the name that load_and_run itself would print
(`mgb::AssertionError`, `lite::Error`, ...).
"""

import os
import signal
import sys

#: why MegEngine fails at, or leaves empty, the profile of a run that was fine
NOT_ASCII = (
    "MegEngine cannot write a profile of this model: an operator, variable or input has a name "
    "that is not ASCII; dump the model with ASCII names"
)


class Failure(Exception):
    """Ends the run. `kind` is the C++ class that load_and_run would name."""

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
    """gflags would refuse this command line: one line, exit code 1."""


def library_failure(text):
    """The failure that load_and_run would die of, from the text of megenginelite's RuntimeError."""
    text = text.strip() or "the library gave no reason"
    if "/json.cpp:" in text:  # the writer of profiles takes no byte above 127
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

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core of a large model fills the disk
    except (ImportError, ValueError, OSError):
        pass
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    os.abort()
