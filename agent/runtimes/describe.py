"""Which MegEngine a runtime is, asked of the runtime itself."""

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

WHEEL_TIMEOUT_S = 60.0
BINARY_TIMEOUT_S = 15.0
_MARK = "mgw-runtime:"
_LONGEST_PROBLEM = 500

_ASK_WHEEL = f"""\
import json, platform
import megenginelite
print({_MARK!r} + json.dumps([megenginelite.version, platform.python_version()]))
"""

_VERSION = re.compile(
    r"(?:MegBrain|MegEngine|load_and_run version)[ :]+v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE
)
#: what to try, in turn: some builds name their version only when they begin to work
_BINARY_ARGUMENTS = (["--version"], ["--help"], ["no-such-model.mge"])


@dataclass(frozen=True)
class RuntimeDescription:
    """One runtime. `problem` is empty if it can be used; `python` is empty for a binary.

    `path` is the interpreter of a wheel, or the binary.
    """

    version: str
    kind: Literal["wheel", "binary"]
    path: str
    python: str = ""
    problem: str = ""


def describe_wheel(python: str, timeout_s: float = WHEEL_TIMEOUT_S) -> RuntimeDescription:
    """Import MegEngine in the interpreter `python` and say which version it is. Never raises."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK_WHEEL],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _unusable("wheel", python, f"importing MegEngine took longer than {timeout_s:g} s")
    except OSError as error:
        return _unusable("wheel", python, f"cannot start {python}: {error.strerror}")
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            version, python_version = json.loads(line.removeprefix(_MARK))
            return RuntimeDescription(version, "wheel", python, python_version)
    return _unusable("wheel", python, f"cannot import MegEngine: {_reason(done)}")


def describe_binary(path: str, timeout_s: float = BINARY_TIMEOUT_S) -> RuntimeDescription:
    """Ask the binary `path` for its version, in an empty folder. Never raises."""
    if not Path(path).is_file():
        return _unusable("binary", path, f"{path} is no file")
    if not os.access(path, os.X_OK):
        return _unusable("binary", path, f"{path} is not executable")
    reason = ""
    with tempfile.TemporaryDirectory(prefix="mgw-describe-") as folder:
        for arguments in _BINARY_ARGUMENTS:
            try:
                done = _run_binary(path, arguments, folder, timeout_s)
            except subprocess.TimeoutExpired:
                return _unusable("binary", path, f"{path} did not end within {timeout_s:g} s")
            except OSError as error:
                return _unusable("binary", path, f"cannot start {path}: {error}")
            found = _VERSION.search(done.stdout + "\n" + done.stderr)
            if found:
                return RuntimeDescription(found.group(1), "binary", path)
            reason = _reason(done)
    return _unusable("binary", path, f"{path} does not say its version: {reason}")


def _run_binary(
    path: str, arguments: list[str], folder: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    # load_and_run aborts at a missing model: without the limit that leaves a core file
    return subprocess.run(
        ["/bin/sh", "-c", 'ulimit -c 0; exec "$0" "$@"', str(Path(path).resolve()), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The last thing the process said, or how it ended if it said nothing."""
    lines = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"it ended with exit code {done.returncode}"


def _unusable(kind: Literal["wheel", "binary"], path: str, problem: str) -> RuntimeDescription:
    return RuntimeDescription("", kind, path, problem=problem[:_LONGEST_PROBLEM])
