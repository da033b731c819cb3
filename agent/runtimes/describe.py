"""Determine the version and capabilities of a runtime by running it."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent.protocol.notes import Note
from agent.runtimes.command import Style, arguments_for, command_for, run_to_end

WHEEL_TIMEOUT_S = 60.0
BINARY_TIMEOUT_S = 15.0
#: codes of problems that may be gone later: a device that is just booting is slow
SLOW = frozenset({"import_slow", "start_slow"})
_MARK = "mgw-runtime:"
_DEVICES = "mgw-devices:"
_MOST_GPUS = 64
_MOST_TERMINAL_BYTES = 1 << 20

#: prints two lines, because searching for GPUs may crash the process
_PROBE_WHEEL = f"""\
import json, platform, sys
import megenginelite as lite
print({_MARK!r} + json.dumps([lite.version, platform.python_version()]))
sys.stdout.flush()
try:
    gpus = lite.LiteGlobal.get_device_count(lite.LiteDeviceType.LITE_CUDA)
except Exception:
    gpus = 0
print({_DEVICES!r} + json.dumps([gpus]))
"""

#: does not match "load_and_run version 1.0", which gflags prints for all versions
_VERSION = re.compile(
    r"\bMeg(?:Brain|Engine)[ :]+v?(\d{1,4}\.\d{1,4}(?:\.\d{1,6})?)", re.IGNORECASE
)
_NO_MODEL = "no-such-model.mge"

#: flags of gflags itself, which every program with gflags has; they read files and the environment
_BUILT_IN = frozenset(
    {
        "flagfile",
        "fromenv",
        "tryfromenv",
        "undefok",
        "tab_completion_columns",
        "tab_completion_word",
        "help",
        "helpfull",
        "helpmatch",
        "helpon",
        "helppackage",
        "helpshort",
        "helpxml",
        "version",
    }
)
_MOST_TEXT = 1 << 20
_START = re.compile(r"^ {4}-(?=[a-z])", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_TYPE = re.compile(r"\) type: [a-z0-9]{1,10} default: (\"[^\"]{0,200}\"|\S{1,100})")

_LEGACY_LINE = re.compile(r"^ {0,2}--.{1,200}$", re.MULTILINE)
_LEGACY_NAME = re.compile(r"--([a-z][a-z0-9-]{1,59})")
#: flags that load_and_run up to 1.6 supports, but does not list in its help
_LEGACY_UNLISTED = frozenset(
    {
        "enable_nchw4",
        "enable_nchw32",
        "enable_nhwcd4",
        "enable_fuse_conv_bias_nonlinearity",
        "enable_fuse_conv_bias_with_z",
    }
)
#: flags that the help of 1.6 lists, but the program does not support
_LEGACY_UNSUPPORTED = frozenset({"layout_transform_verify", "data"})

#: flag -> build feature that it requires
_BUILDS = {
    "cuda": "cuda",
    "tensorrt": "tensorrt",
    "fast_run": "fast_run",
    "profile": "json",
    "enable_jit": "jit",
    "c_opr_lib": "c_opr",
}


@dataclass(frozen=True)
class RuntimeDescription:
    """One runtime. `problem` is None if it is usable; `python` is empty for a binary.

    `path` is the interpreter of a wheel, or the binary. `flags` are the options that a binary
    supports, with underscores; empty if they are unknown, as for a wheel. `builds` are the
    features that a binary was built with (cuda, tensorrt, fast_run, json, jit, c_opr), or those
    that a wheel can use on this machine (cuda, tensorrt). `style` is the syntax of the command
    line. `devices` (cpu, cuda0, ...) are set for a wheel only.
    """

    version: str
    kind: Literal["wheel", "binary"]
    path: str
    python: str = ""
    problem: Note | None = None
    flags: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    style: Style = "gflags"
    devices: tuple[str, ...] = ()

    def command_line(self, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs load_and_run with these arguments, in its syntax."""
        path = str(Path(self.path).absolute())  # keep symbolic links, for virtual environments
        return [*command_for(self.kind, path), *arguments_for(self.style, arguments)]


def describe_wheel(python: str, timeout_s: float = WHEEL_TIMEOUT_S) -> RuntimeDescription:
    """Describe the MegEngine that the interpreter `python` imports. Never raises."""
    try:
        process = run_to_end([python, "-c", _PROBE_WHEEL], timeout_s)
    except subprocess.TimeoutExpired:
        return _unusable("wheel", python, Note.of("import_slow", seconds=timeout_s))
    except OSError as error:
        return _unusable("wheel", python, _not_started(python, error))
    answer = _answer(process.stdout, _MARK, 2)
    if answer is None:
        return _unusable("wheel", python, Note.of("cannot_import", cause=_reason(process)))
    (gpus,) = _answer(process.stdout, _DEVICES, 1) or (0,)
    gpus = min(gpus, _MOST_GPUS) if isinstance(gpus, int) else 0
    return RuntimeDescription(
        version=str(answer[0]),
        kind="wheel",
        path=python,
        python=str(answer[1]),
        builds=("cuda", "tensorrt") if gpus > 0 else (),
        devices=("cpu", *(f"cuda{number}" for number in range(gpus))),
    )


def describe_binary(path: str, timeout_s: float = BINARY_TIMEOUT_S) -> RuntimeDescription:
    """Describe the binary `path` by running it in an empty folder. Never raises."""
    if not Path(path).is_file():
        return _unusable("binary", path, Note.of("not_a_file", path=path))
    if not os.access(path, os.X_OK):
        return _unusable("binary", path, Note.of("not_executable", path=path))
    try:
        with tempfile.TemporaryDirectory(prefix="mgw-describe-") as folder:
            return _probe_binary(_Binary(path, folder, timeout_s))
    except subprocess.TimeoutExpired:
        return _unusable("binary", path, Note.of("start_slow", path=path, seconds=timeout_s))
    except OSError as error:
        return _unusable("binary", path, _not_started(path, error))


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
        # load_and_run aborts if the model is missing; the limit prevents a core dump
        without_core = ["/bin/sh", "-c", 'ulimit -c 0; exec "$0" "$@"']
        return [*without_core, str(Path(self.path).resolve()), *arguments]


def _probe_binary(binary: _Binary) -> RuntimeDescription:
    """Describe a binary by its output.

    From 1.7 on, --help lists the flags, and the version is in the log of a run that aborts. Up to
    1.6 the first argument is always taken for a model; without arguments, flags and version are
    printed.
    """
    help_process = binary.run("--help")
    text = _output_of(help_process)
    flags = parse_help(text)
    style: Style = "gflags"
    if not flags:
        output = _output_of(binary.run())
        flags = parse_legacy_help(output)
        style = "legacy" if flags else "gflags"
        text += output
    version = _version(text) or _version(binary.run_at_terminal(_NO_MODEL))
    version = version or _version(_output_of(binary.run("--version")))
    if not version:
        why = Note.of("version_unknown", path=binary.path, cause=_reason(help_process))
        return _unusable("binary", binary.path, why)
    names = tuple(sorted(flags))
    return RuntimeDescription(
        version, "binary", binary.path, flags=names, builds=builds_of(names), style=style
    )


def parse_help(text: str) -> frozenset[str]:
    """Return load_and_run's flags in the output of `--help` (from 1.7 on), without gflags' own."""
    flags = set()
    for block in _START.split(text[:_MOST_TEXT])[1:]:
        # gflags wraps its lines at any space
        line = " ".join(block.split())
        name = _NAME.match(line)
        if name and name[0] not in _BUILT_IN and _TYPE.search(line):
            flags.add(name[0])
    return frozenset(flags)


def parse_legacy_help(text: str) -> frozenset[str]:
    """Return the flags of load_and_run up to 1.6, from its output without arguments."""
    _, heading, options = text[:_MOST_TEXT].partition("Where options are:")
    if not heading:
        return frozenset()
    lines = _LEGACY_LINE.findall(options)
    names = {name.replace("-", "_") for line in lines for name in _LEGACY_NAME.findall(line)}
    return frozenset((names | _LEGACY_UNLISTED) - _LEGACY_UNSUPPORTED)


def builds_of(flags: Collection[str]) -> tuple[str, ...]:
    """Return the build features that the flags imply: the values of `_BUILDS`."""
    return tuple(build for flag, build in _BUILDS.items() if flag in flags)


def _output_of(process: subprocess.CompletedProcess[str]) -> str:
    return f"{process.stdout}\n{process.stderr}\n"


def _version(text: str) -> str:
    match = _VERSION.search(text)
    return match[1] if match else ""


def _answer(text: str, mark: str, count: int) -> list[Any] | None:
    """Return the `count` values that our probe printed behind `mark`, None if there are none.

    Other lines are the library's.
    """
    for line in text.splitlines():
        if line.startswith(mark):
            try:
                answer = json.loads(line.removeprefix(mark))
            except ValueError:
                continue
            if isinstance(answer, list) and len(answer) == count:
                return answer
    return None


def _reason(process: subprocess.CompletedProcess[str]) -> str | Note:
    """Return the last line of the output, or the exit code if there is no output."""
    lines = [line for line in _output_of(process).splitlines() if line.strip()]
    return lines[-1].strip() if lines else Note.of("exit_code", number=process.returncode)


def _not_started(path: str, error: OSError) -> Note:
    return Note.of("cannot_start", path=path, cause=error.strerror or str(error))


def _unusable(kind: Literal["wheel", "binary"], path: str, problem: Note) -> RuntimeDescription:
    return RuntimeDescription("", kind, path, problem=problem)


def _output_at_terminal(command: list[str], folder: str, timeout_s: float) -> str:
    """Return the output of a command (stdout and stderr) that runs in a pseudo-terminal.

    load_and_run 1.7 to 1.10 prints its version to stdout and aborts if the model is missing. The C
    library buffers output to a pipe in blocks, and abort discards the buffer; output to a terminal
    is buffered by line. Raises OSError, TimeoutExpired.
    """
    controller, terminal = pty.openpty()
    try:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=terminal,
                start_new_session=True,
            )
        finally:
            os.close(terminal)
        try:
            return _read_terminal(controller, command, timeout_s).decode("utf-8", "replace")
        finally:
            with suppress(ProcessLookupError, PermissionError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        os.close(controller)


def _read_terminal(controller: int, command: list[str], timeout_s: float) -> bytes:
    """Read until all processes have closed the terminal."""
    deadline = time.monotonic() + timeout_s
    output = b""
    while len(output) < _MOST_TERMINAL_BYTES:
        ready, _, _ = select.select([controller], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise subprocess.TimeoutExpired(command, timeout_s)
        try:
            chunk = os.read(controller, 65536)
        except OSError:  # EIO: on Linux, the terminal is closed
            break
        if not chunk:
            break
        output += chunk
    return output
