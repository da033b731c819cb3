"""Build the command line of a runtime, and run commands."""

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

#: load_and_run for the wheel: a folder that a Python interpreter runs by its path
LOAD_AND_RUN = Path(__file__).resolve().parent.parent / "load_and_run"

#: syntax of load_and_run's command line: "legacy" up to 1.6
Style = Literal["gflags", "legacy"]

#: sort keys: the core ids must follow the number of threads; --model-info must be last, as it
#: consumes the arguments behind it
_LAST = {"--multi-thread-core-ids": 1, "--model-info": 2}


def command_for(kind: Literal["wheel", "binary"], path: str) -> list[str]:
    """Return the first arguments of a load_and_run command; model and flags follow.

    `path` is the interpreter with MegEngine (wheel) or load_and_run itself (binary).
    """
    return [path, str(LOAD_AND_RUN)] if kind == "wheel" else [path]


def arguments_for(style: Style, arguments: Sequence[str]) -> list[str]:
    """Return load_and_run's arguments in the syntax `style`."""
    return legacy_arguments(arguments) if style == "legacy" else list(arguments)


def legacy_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert `[model, "--name=value", "--flag", ...]` to the syntax of load_and_run up to 1.6.

    It has dashes instead of underscores, values as separate arguments, bools without a value, and
    the name of the processor where later versions have `cpu`.
    """
    model, *flags = arguments
    pairs = sorted(map(_split, flags), key=lambda pair: _LAST.get(pair[0], 0))
    return [model, *(part for pair in pairs for part in pair)]


def _split(flag: str) -> tuple[str, ...]:
    name, equals, value = flag.partition("=")
    name = "--" + name.lstrip("-").replace("_", "-")
    if not equals:
        return (name,)
    return name, _processor() if (name, value) == ("--layout-transform", "cpu") else value


def _processor() -> str:
    return "arm" if platform.machine().lower().startswith(("arm", "aarch")) else "x86"


def run_to_end(
    command: Sequence[str], timeout_s: float, folder: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input and capture its output. Raises OSError, TimeoutExpired."""
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
