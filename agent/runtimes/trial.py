"""Run a tiny model on a runtime, to check that it works and on which devices."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agent.protocol.run_log import parse_log
from agent.runtimes.describe import RuntimeDescription

_MODEL_TIMEOUT_S = 120.0
_RUN_TIMEOUT_S = 60.0
_LONGEST_REASON = 300

#: uses the older of the two dump formats, which all versions of load_and_run read
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
class TrialRun:
    """Result of a run: `problem` is empty on success, `e2e_ms` is the fastest iteration."""

    problem: str = ""
    e2e_ms: float | None = None


def make_model(python: str, path: Path) -> str:
    """Make a model of three operators with a wheel's interpreter; return the error, or ""."""
    command = [python, "-c", _MAKE_MODEL, str(path)]
    code, ending, _ = run_briefly(command, path.parent, _MODEL_TIMEOUT_S)
    return "" if code == 0 and path.is_file() else ending


def run_model(runtime: RuntimeDescription, model: Path, flags: Sequence[str] = ()) -> TrialRun:
    """Run three iterations of the model, with a profile, in the model's folder."""
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
    command = runtime.command_line(arguments)
    code, ending, output = run_briefly(command, model.parent, _RUN_TIMEOUT_S)
    if code != 0:
        return TrialRun(ending)
    times_ms = parse_log(output).e2e_ms
    if not times_ms:
        return TrialRun("it ended without a measurement")
    if not profile.is_file() or not profile.stat().st_size:
        return TrialRun("it wrote no profile")
    return TrialRun(e2e_ms=min(times_ms))


def run_briefly(command: list[str], folder: Path, timeout_s: float) -> tuple[int | None, str, str]:
    """Run a command; return its exit code, a description of its end, and its output.

    The exit code is None if it did not start or did not end in time. It writes no core file, and no
    cache to the user's home.
    """
    without_core = ["/bin/sh", "-c", 'ulimit -c 0; exec "$0" "$@"', *command]
    try:
        process = subprocess.Popen(
            without_core,
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
        # load_and_run may hang or leave processes behind
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return process.returncode, _ending(process.returncode, output), output


def _ending(code: int, output: str) -> str:
    """Return exit code or signal, with the message of a C++ exception or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    messages = [line for line in lines if line.startswith(("what():", "extra message:"))]
    ending = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{ending}: {(messages or lines or ['no output'])[-1]}"[:_LONGEST_REASON]
