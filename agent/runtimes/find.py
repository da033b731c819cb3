"""Find Python interpreters that the MegEngine wheel supports."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.runtimes.command import run_to_end

#: minor versions of Python 3 that MegEngine has wheels for, best first
MINORS = (10, 9, 8, 7, 6)
_PROBE_TIMEOUT_S = 10.0
_UV_FIND_TIMEOUT_S = 15.0
_UV_INSTALL_TIMEOUT_S = 90.0

_PROBE = """\
import json, sys
import ensurepip, venv
print(json.dumps([list(sys.version_info[:3]), sys.executable, sys.maxsize > 2**32]))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter of Python 3.`minor` that has been run."""

    path: str
    minor: int


def find_pythons() -> list[Python]:
    """Return the working Pythons that MegEngine supports, best first.

    `MEGENGINE_PYTHON` is the first if it is one of them. The others come from PATH, pyenv's folder
    and uv, in this order for equal versions, newest version first. If there is none, uv is run to
    install one, which fails without a network.
    """
    pythons = present_pythons()
    if not pythons and (installed := _uv_install()):
        pythons.append(installed)
    return pythons


def present_pythons() -> list[Python]:
    """Return the same Pythons as `find_pythons`, but do not install one."""
    pythons: dict[str, Python] = {}
    chosen = chosen_python()
    others = [probed for path in _candidates() if (probed := probe(path))]
    others.sort(key=lambda python: -python.minor)  # a stable sort: keeps the order of the sources
    for python in ([chosen] if chosen else []) + others:
        pythons.setdefault(os.path.realpath(python.path), python)
    return list(pythons.values())


def chosen_python() -> Python | None:
    """Return the interpreter in `MEGENGINE_PYTHON`, if it is one that MegEngine supports."""
    name = os.environ.get("MEGENGINE_PYTHON", "")
    path = shutil.which(name) if name else None
    return probe(path) if path else None


def probe(path: str) -> Python | None:
    """Run the interpreter; return None if it fails or MegEngine does not support it.

    That the file exists is not enough: pyenv keeps shims for all versions ever installed.
    """
    try:
        process = run_to_end([path, "-I", "-c", _PROBE], _PROBE_TIMEOUT_S)
        version, executable, is_64_bit = json.loads(process.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError):
        return None
    if process.returncode or not is_64_bit or version[0] != 3 or version[1] not in MINORS:
        return None
    return Python(executable or path, version[1])


def _candidates() -> Iterator[str]:
    """Yield paths of possible interpreters, in the order of the sources, without running them."""
    for name in [f"python3.{minor}" for minor in MINORS] + ["python3"]:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            if folder and os.access(path := os.path.join(folder, name), os.X_OK):
                yield path
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for minor in MINORS:
        for home in sorted(root.glob(f"versions/3.{minor}.*"), reverse=True):
            if os.access(home / "bin" / "python", os.X_OK):
                yield str(home / "bin" / "python")
    from_uv = _uv_output(["python", "find", "3.10"], _UV_FIND_TIMEOUT_S)
    if from_uv:
        yield from_uv


def _uv_install() -> Python | None:
    if _uv_output(["python", "install", "3.10"], _UV_INSTALL_TIMEOUT_S) is None:
        return None
    path = _uv_output(["python", "find", "3.10"], _UV_FIND_TIMEOUT_S)
    return probe(path) if path else None


def _uv_output(arguments: list[str], timeout_s: float) -> str | None:
    """Return the output of uv, None if it is missing or fails."""
    beside = Path(sys.executable).parent / "uv"  # in the running virtual environment
    uv = shutil.which("uv") or (str(beside) if os.access(beside, os.X_OK) else None)
    if uv is None:
        return None
    try:
        process = run_to_end([uv, *arguments], timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None
