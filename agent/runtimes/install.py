"""A virtual environment with the MegEngine wheel, one for all clones of this user."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from agent.runtimes.describe import RuntimeDescription, describe_wheel
from agent.runtimes.find import MINORS, Python, chosen_python, find_pythons
from agent.runtimes.problems import InstallFailed, NoPython

VERSION = "1.13.0"
REQUIREMENTS = Path(__file__).resolve().parent.parent.parent / "requirements" / "megengine.txt"

#: written last, by a rename: a folder without it is half-made and is made anew
_MARKER = "runtime.json"
_SAY_EVERY_S = 15.0
_POLL_S = 0.2
_NEEDED_BYTES = 5 * 10**9  # 2 GB stay; the rest is what pip holds while it installs

Say = Callable[[str], None]


def ensure_wheel_runtime(
    version: str = VERSION,
    requirements: Path = REQUIREMENTS,
    cache: Path | None = None,
    say: Say = lambda line: None,
) -> str:
    """Return the path of an interpreter with MegEngine `version`; install `requirements` if needed.

    Cheap if it is there already (no process is started, unless `MEGENGINE_PYTHON` asks for a
    certain Python). `say` gets lines for the person who waits. Raises NoPython or InstallFailed.
    """
    cache = cache or cache_folder()
    ready = installed_wheel(version, cache)
    if ready:
        return ready.path
    pythons = find_pythons()
    if not pythons:
        raise NoPython(
            "MegEngine needs Python 3.6 to 3.10, and none was found (PATH, pyenv, uv).\n"
            "Install one (`uv python install 3.10`, `pyenv install 3.10`) or set MEGENGINE_PYTHON."
        )
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / f"megengine-{version}.lock", say):
        ready = installed_wheel(version, cache)  # another process may have made it meanwhile
        return ready.path if ready else _make(version, requirements, cache, pythons[0], say)


def installed_wheel(version: str = VERSION, cache: Path | None = None) -> RuntimeDescription | None:
    """The ready runtime of this version, best Python first; None if there is none."""
    cache = cache or cache_folder()
    chosen = chosen_python()
    for minor in (chosen.minor,) if chosen else MINORS:
        try:
            recorded = json.loads((_folder(cache, version, minor) / _MARKER).read_text())
            description = RuntimeDescription(**recorded)
        except (OSError, ValueError, TypeError):
            continue
        # the folder is gone or moved, or the Python it was made from is
        if os.access(description.path, os.X_OK):
            return description
    return None


def cache_folder() -> Path:
    """`MGW_RUNTIME_CACHE`, else a folder of ours in the user's cache."""
    own = os.environ.get("MGW_RUNTIME_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "megengine-web-profile"


def _folder(cache: Path, version: str, minor: int) -> Path:
    return cache / f"megengine-{version}-py3.{minor}"


@contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    """One installation at a time. The kernel frees the lock when its holder dies."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is installing MegEngine; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(version: str, requirements: Path, cache: Path, python: Python, say: Say) -> str:
    """Build in the final place: a virtual environment cannot be moved. Caller holds the lock."""
    folder = _folder(cache, version, python.minor)
    if folder.exists():
        say(f"{folder} is half-made: making it anew")
        shutil.rmtree(folder)
    if shutil.disk_usage(cache).free < _NEEDED_BYTES:
        raise InstallFailed(f"too little room in {cache}: MegEngine takes 2 GB, and 5 GB meanwhile")
    say(f"installing MegEngine {version} into {folder} (downloads about 0.9 GB, once)")
    started = time.monotonic()
    log = cache / f"{folder.name}.log"
    log.unlink(missing_ok=True)
    inside = str(folder / "bin" / "python")
    pip = [inside, "-m", "pip", "install", "--disable-pip-version-check"]
    _step([python.path, "-m", "venv", str(folder)], log, say, "making a virtual environment")
    # the pip that came with Python 3.6 and 3.7 does not know the wheel's platform tag
    _step([*pip, "pip>=20.3"], log, say, "checking pip")
    _step([*pip, "-r", str(requirements)], log, say, "installing MegEngine", shown=True)
    description = describe_wheel(inside)
    if description.problem:
        raise InstallFailed(f"MegEngine was installed but does not work: {description.problem}")
    if description.version != version:
        raise InstallFailed(
            f"{requirements} installs MegEngine {description.version}, not {version}"
        )
    _write_marker(folder / _MARKER, description)
    say(f"MegEngine {version} is ready after {time.monotonic() - started:.0f} s")
    return inside


def _write_marker(path: Path, description: RuntimeDescription) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(description)))
    partial.replace(path)


def _step(command: list[str], log: Path, say: Say, what: str, shown: bool = False) -> None:
    """Run one command of the installation, with signs of life. Raises InstallFailed.

    A `shown` command draws its own progress when a person sits at a terminal; otherwise its output
    goes to `log`, and `say` hears of the time it takes.
    """
    started = time.monotonic()
    with log.open("ab") as sink:
        terminal = shown and sys.stderr.isatty()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr if terminal else sink,
            stderr=None if terminal else subprocess.STDOUT,
        )
        said = started
        while process.poll() is None:
            time.sleep(_POLL_S)
            now = time.monotonic()
            if not terminal and now - said >= _SAY_EVERY_S:
                said = now
                say(f"{what}: {now - started:.0f} s")
    if process.returncode:
        tail = log.read_text(errors="replace").strip().splitlines()[-8:]
        reason = "\n".join([f"{what} failed (exit code {process.returncode})", *tail])
        raise InstallFailed(reason)
