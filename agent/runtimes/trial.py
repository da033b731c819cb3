"""Running a tiny model on a runtime, to see that it works and where."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.protocol.run_log import parse_log
from agent.runtimes.command import arguments_for, command_for
from agent.runtimes.describe import RuntimeDescription

_MODEL_TIMEOUT_S = 120.0
_RUN_TIMEOUT_S = 60.0
_LONGEST_REASON = 300

#: the older of the two formats of a dump: load_and_run of all versions reads it
_MAKE_MODEL = """\
import sys
import numpy as np
import megengine
import megengine.functional as F
from megengine.jit import trace

@trace(symbolic=True, capture_as_const=True)
def tiny(x):
    return F.relu(x * 2 + 1)

tiny(megengine.tensor(np.ones((1, 4), np.float32)))
names = dict(arg_names=["data"], output_names=["out"], optimize_for_inference=False)
try:
    tiny.dump(sys.argv[1], dump_format="FBS", **names)
except TypeError:
    tiny.dump(sys.argv[1], **names)
"""


@dataclass(frozen=True)
class Trial:
    """How a run ended: `problem` is empty and `e2e_ms` the best iteration if all went well."""

    problem: str = ""
    e2e_ms: float | None = None


def make_model(python: str, path: Path) -> str:
    """Make a model of three operators with a wheel's interpreter; return why not, or ""."""
    command = [python, "-c", _MAKE_MODEL, str(path)]
    code, ending, _ = run_briefly(command, path.parent, _MODEL_TIMEOUT_S)
    return "" if code == 0 and path.is_file() else ending


def run_model(runtime: RuntimeDescription, model: Path, flags: Sequence[str] = ()) -> Trial:
    """Run the model three times with a profile, in its own folder."""
    profile = model.parent / "profile.json"
    profile.unlink(missing_ok=True)
    np.save(model.parent / "data.npy", np.array([[1, 2, 3, 4]], np.float32))
    arguments = [
        model.name,
        "--input=data:data.npy",
        "--iter=3",
        f"--profile={profile.name}",
        *flags,
    ]
    path = str(Path(runtime.path).absolute())  # not resolved: a virtual environment is a link
    command = [*command_for(runtime.kind, path), *arguments_for(runtime.style, arguments)]
    code, ending, output = run_briefly(command, model.parent, _RUN_TIMEOUT_S)
    if code != 0:
        return Trial(ending)
    log = parse_log(output)
    if log.finished is None:
        return Trial("it ended without a measurement")
    if not profile.is_file() or not profile.stat().st_size:
        return Trial("it wrote no profile")
    return Trial(e2e_ms=log.finished.min_ms)


def run_briefly(command: list[str], folder: Path, timeout_s: float) -> tuple[int | None, str, str]:
    """The exit code, how it ended in words, and what it said; None if it did not start or end.

    No core file, no cache in the user's home.
    """
    quiet = ["/bin/sh", "-c", 'ulimit -c 0; exec "$0" "$@"', *command]
    try:
        process = subprocess.Popen(
            quiet,
            cwd=folder,
            env=os.environ | {"MGE_FASTRUN_CACHE_TYPE": "MEMORY"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return None, f"cannot start {command[0]}: {error.strerror}", ""
    try:
        output = "\n".join(process.communicate(timeout=timeout_s))
    except subprocess.TimeoutExpired:
        return None, f"it did not end within {timeout_s:g} s", ""
    finally:
        # load_and_run leaves threads and may hang: nothing of it stays
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return process.returncode, _ending(process.returncode, output), output


def _ending(code: int, output: str) -> str:
    """What C++ says of an exception, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith(("what():", "extra message:"))]
    ending = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{ending}: {(messages or lines or ['it said nothing'])[-1]}"[:_LONGEST_REASON]
