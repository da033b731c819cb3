"""Which MegEngine a runtime is and what it can do, asked of the runtime itself."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent.runtimes.command import Style, run_to_end
from agent.runtimes.flags import builds_of, parse_help, parse_legacy_help

WHEEL_TIMEOUT_S = 60.0
BINARY_TIMEOUT_S = 15.0
_MARK = "mgw-runtime:"
_DEVICES = "mgw-devices:"
_LONGEST_PROBLEM = 500
_MOST_GPUS = 64
_MOST_TERMINAL_BYTES = 1 << 20

#: in two lines: what looks for GPUs may take the process with it
_ASK_WHEEL = f"""\
import json, os, platform, re, sys
import megenginelite as lite
print({_MARK!r} + json.dumps([lite.version, platform.python_version()]))
sys.stdout.flush()
try:
    import importlib.util
    folder = importlib.util.find_spec("megengine").submodule_search_locations[0]
    with open(os.path.join(folder, "version.py")) as file:
        megengine = re.search("__version__ *= *[\\"']([^\\"']+)", file.read()).group(1)
except Exception:
    megengine = ""
try:
    gpus = lite.LiteGlobal.get_device_count(lite.LiteDeviceType.LITE_CUDA)
except Exception:
    gpus = 0
print({_DEVICES!r} + json.dumps([megengine, gpus]))
"""

#: not "load_and_run version 1.0", which gflags prints for every one of them
_VERSION = re.compile(
    r"\bMeg(?:Brain|Engine)[ :]+v?(\d{1,4}\.\d{1,4}(?:\.\d{1,6})?)", re.IGNORECASE
)
_NO_MODEL = "no-such-model.mge"


@dataclass(frozen=True)
class RuntimeDescription:
    """One runtime. `problem` is empty if it can be used; `python` is empty for a binary.

    `path` is the interpreter of a wheel, or the binary. `flags`: the options that a binary knows,
    with underscores; empty if that is not known, as for a wheel. `builds`: of a binary what it was
    built with (cuda, tensorrt, fast_run, json, jit, c_opr), of a wheel what this machine lets it
    use (cuda, tensorrt). `style` is how the command line must be written. `megengine` and
    `devices` (cpu, cuda0, ...) are known of a wheel only.
    """

    version: str
    kind: Literal["wheel", "binary"]
    path: str
    python: str = ""
    problem: str = ""
    flags: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    style: Style = "gflags"
    megengine: str = ""
    devices: tuple[str, ...] = ()


def describe_wheel(python: str, timeout_s: float = WHEEL_TIMEOUT_S) -> RuntimeDescription:
    """Import MegEngine in the interpreter `python` and say what it is. Never raises."""
    try:
        done = run_to_end([python, "-c", _ASK_WHEEL], timeout_s)
    except subprocess.TimeoutExpired:
        return _unusable("wheel", python, f"importing MegEngine took longer than {timeout_s:g} s")
    except OSError as error:
        return _unusable("wheel", python, f"cannot start {python}: {error.strerror}")
    answer = _answer(done.stdout, _MARK)
    if answer is None:
        return _unusable("wheel", python, f"cannot import MegEngine: {_reason(done)}")
    megengine, gpus = _answer(done.stdout, _DEVICES) or ("", 0)
    gpus = min(gpus, _MOST_GPUS) if isinstance(gpus, int) else 0
    return RuntimeDescription(
        version=str(answer[0]),
        kind="wheel",
        path=python,
        python=str(answer[1]),
        builds=("cuda", "tensorrt") if gpus > 0 else (),
        megengine=str(megengine),
        devices=("cpu", *(f"cuda{number}" for number in range(gpus))),
    )


def describe_binary(path: str, timeout_s: float = BINARY_TIMEOUT_S) -> RuntimeDescription:
    """Ask the binary `path` what it is, in an empty folder. Never raises."""
    if not Path(path).is_file():
        return _unusable("binary", path, f"{path} is no file")
    if not os.access(path, os.X_OK):
        return _unusable("binary", path, f"{path} is not executable")
    try:
        with tempfile.TemporaryDirectory(prefix="mgw-describe-") as folder:
            return _ask_binary(_Binary(path, folder, timeout_s))
    except subprocess.TimeoutExpired:
        return _unusable("binary", path, f"{path} did not end within {timeout_s:g} s")
    except OSError as error:
        return _unusable("binary", path, f"cannot start {path}: {error}")


@dataclass(frozen=True)
class _Binary:
    path: str
    folder: str
    timeout_s: float

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_to_end(self._command(arguments), self.timeout_s, self.folder)

    def run_at_terminal(self, *arguments: str) -> str:
        return _output_at_terminal(self._command(arguments), self.folder, self.timeout_s)

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        # load_and_run aborts at a missing model: without the limit that leaves a core file
        quiet = ["/bin/sh", "-c", 'ulimit -c 0; exec "$0" "$@"']
        return [*quiet, str(Path(self.path).resolve()), *arguments]


def _ask_binary(binary: _Binary) -> RuntimeDescription:
    """From 1.7 on the flags are in --help, and the version is in the log of a run that aborts.

    Up to 1.6 every first argument is a model, and both are printed without arguments.
    """
    helped = binary.run("--help")
    text = _said(helped)
    flags = frozenset(parse_help(text))
    style: Style = "gflags"
    if not flags:
        bare = _said(binary.run())
        flags = parse_legacy_help(bare)
        style = "legacy" if flags else "gflags"
        text += bare
    version = _version(text) or _version(binary.run_at_terminal(_NO_MODEL))
    version = version or _version(_said(binary.run("--version")))
    if not version:
        why = f"{binary.path} does not say its version: {_reason(helped)}"
        return _unusable("binary", binary.path, why)
    names = tuple(sorted(flags))
    return RuntimeDescription(
        version, "binary", binary.path, flags=names, builds=builds_of(names), style=style
    )


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.stdout}\n{done.stderr}\n"


def _version(text: str) -> str:
    match = _VERSION.search(text)
    return match[1] if match else ""


def _answer(text: str, mark: str) -> list[Any] | None:
    """The pair that our own program printed behind `mark`; the library prints what it likes."""
    for line in text.splitlines():
        if line.startswith(mark):
            try:
                answer = json.loads(line.removeprefix(mark))
            except ValueError:
                continue
            if isinstance(answer, list) and len(answer) == 2:
                return answer
    return None


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The last thing the process said, or how it ended if it said nothing."""
    lines = [line for line in _said(done).splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"it ended with exit code {done.returncode}"


def _unusable(kind: Literal["wheel", "binary"], path: str, problem: str) -> RuntimeDescription:
    return RuntimeDescription("", kind, path, problem=problem[:_LONGEST_PROBLEM])


def _output_at_terminal(command: list[str], folder: str, timeout_s: float) -> str:
    """What the command prints at a terminal, stdout and stderr as they come.

    load_and_run 1.7 to 1.10 prints its version to stdout and aborts at a missing model. Into a pipe
    the C library writes whole blocks, and abort throws away what is left; to a terminal it writes
    lines. Raises OSError, TimeoutExpired.
    """
    ours, theirs = pty.openpty()
    try:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        try:
            return _read_terminal(ours, command, timeout_s).decode("utf-8", "replace")
        finally:
            with suppress(ProcessLookupError, PermissionError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        os.close(ours)


def _read_terminal(terminal: int, command: list[str], timeout_s: float) -> bytes:
    """Everything until the last one who could write is gone."""
    deadline = time.monotonic() + timeout_s
    read = b""
    while len(read) < _MOST_TERMINAL_BYTES:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise subprocess.TimeoutExpired(command, timeout_s)
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # EIO: how Linux says that the other side is closed
            break
        if not piece:
            break
        read += piece
    return read
