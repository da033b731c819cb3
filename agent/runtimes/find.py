"""Interpreters that the MegEngine wheel can be installed into."""

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
    """An interpreter that ran. `version` is (3, minor, patch)."""

    path: str
    version: tuple[int, int, int]

    @property
    def minor(self) -> int:
        return self.version[1]


def find_pythons() -> list[Python]:
    """Pythons that MegEngine supports and that really run, best first.

    `MEGENGINE_PYTHON` comes first if it is one of them. Then the newest of those on PATH, in
    pyenv's folder and known to uv; PATH before pyenv before uv for the same version. Only if there
    is none, uv is asked to install one, which may fail without a network.
    """
    pythons = present_pythons()
    if not pythons and (installed := _uv_install()):
        pythons.append(installed)
    return pythons


def present_pythons() -> list[Python]:
    """As `find_pythons`, but nothing is installed."""
    pythons: dict[str, Python] = {}
    chosen = chosen_python()
    others = [probed for path in _candidates() if (probed := probe(path))]
    others.sort(key=lambda python: -python.minor)  # stable: keeps the order of the sources
    for python in ([chosen] if chosen else []) + others:
        pythons.setdefault(os.path.realpath(python.path), python)
    return list(pythons.values())


def chosen_python() -> Python | None:
    """The interpreter that `MEGENGINE_PYTHON` names, if it is one that MegEngine supports."""
    name = os.environ.get("MEGENGINE_PYTHON", "")
    path = shutil.which(name) if name else None
    return probe(path) if path else None


def probe(path: str) -> Python | None:
    """Run the interpreter: None if it does not run, or is no Python that MegEngine supports.

    It must be run to be known: a pyenv shim exists for every version ever installed and fails.
    """
    try:
        done = run_to_end([path, "-I", "-c", _PROBE], _PROBE_TIMEOUT_S)
        version, executable, is_64_bit = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError, TypeError):
        return None
    if done.returncode or not is_64_bit or version[0] != 3 or version[1] not in MINORS:
        return None
    return Python(executable or path, (version[0], version[1], version[2]))


def _candidates() -> Iterator[str]:
    """Paths that may be interpreters, in the order of the sources; nothing has been run yet."""
    for name in [f"python3.{minor}" for minor in MINORS] + ["python3"]:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            if folder and os.access(path := os.path.join(folder, name), os.X_OK):
                yield path
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for minor in MINORS:
        for home in sorted(root.glob(f"versions/3.{minor}.*"), reverse=True):
            if os.access(home / "bin" / "python", os.X_OK):
                yield str(home / "bin" / "python")
    known = _uv_output(["python", "find", "3.10"], _UV_FIND_TIMEOUT_S)
    if known:
        yield known


def _uv_install() -> Python | None:
    if _uv_output(["python", "install", "3.10"], _UV_INSTALL_TIMEOUT_S) is None:
        return None
    path = _uv_output(["python", "find", "3.10"], _UV_FIND_TIMEOUT_S)
    return probe(path) if path else None


def _uv_output(arguments: list[str], timeout_s: float) -> str | None:
    """What uv prints, None if there is no uv or it fails."""
    beside = Path(sys.executable).parent / "uv"  # in the running virtual environment
    uv = shutil.which("uv") or (str(beside) if os.access(beside, os.X_OK) else None)
    if uv is None:
        return None
    try:
        done = run_to_end([uv, *arguments], timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
