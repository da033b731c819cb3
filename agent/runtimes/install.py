"""A virtual environment with the MegEngine wheel, one for all clones of this user."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.runtimes.describe import RuntimeDescription, describe_wheel
from agent.runtimes.find import MINORS, Python, chosen_python, find_pythons, present_pythons, probe

VERSION = "1.13.0"
_HERE = Path(__file__).resolve()
#: in a bundle it lies beside this file
REQUIREMENTS = _HERE.with_name("megengine.txt")
if not REQUIREMENTS.exists():
    REQUIREMENTS = _HERE.parents[2] / "requirements" / "megengine.txt"

#: written last, by a rename: a folder without it is half-made and is made anew
_MARKER = "runtime.json"
#: what stays true of a runtime; GPUs come and go
_RECORDED = ("version", "kind", "path", "python", "problem")
_SAY_EVERY_S = 15.0
_POLL_S = 0.2
_NEEDED_BYTES = 5 * 10**9  # 2 GB stay; the rest is what pip holds while it installs

_A_VERSION = re.compile(r"\d{1,4}(\.\d{1,6}){1,3}([a-z]{1,4}\d{1,4})?(\+[a-z0-9.]{1,20})?")
_PINNED = re.compile(r"^MegEngine==\S+", re.MULTILINE | re.IGNORECASE)
#: pip's words for "not on the index, or not for this Python or machine"
_NOT_THERE = ("No matching distribution found", "Could not find a version that satisfies")
_WHAT_IS_THERE = (
    "PyPI has MegEngine 1.13.0 for Linux x86-64 and Python 3.6 to 3.10 only (and 1.13.1 for macOS "
    "x86-64). Other versions and machines need a compiled load_and_run: add it with --binary PATH."
)

Say = Callable[[str], None]


class RuntimeProblem(Exception):
    """Why a runtime could not be made; the text is meant for the person at the terminal."""


class NoPython(RuntimeProblem):
    """No Python that MegEngine supports; the text has two lines and says what to install."""


class InstallFailed(RuntimeProblem):
    """A Python is there, but MegEngine did not get into it."""


class NoWheel(InstallFailed):
    """There is no wheel of this version for this Python and machine."""


def ensure_wheel_runtime(
    version: str = VERSION,
    say: Say = lambda line: None,
    python: str | None = None,
) -> str:
    """Return the path of an interpreter with MegEngine `version`; install it if needed.

    Another version than that of REQUIREMENTS gets the same companions. `python` is the
    interpreter to install for; None: the best one found. Cheap if it is there already (no process
    is started, unless a certain Python is asked for). `say` gets lines for the person who waits.
    Raises NoPython, NoWheel or InstallFailed.
    """
    if not _A_VERSION.fullmatch(version):
        raise InstallFailed(f"{version!r} is no version of MegEngine; give one like {VERSION}")
    cache = cache_folder()
    chosen = _given_python(python)
    ready = installed_wheel(version, chosen)
    if ready:
        return ready.path
    pythons = [chosen] if chosen else find_pythons()
    if not pythons:
        raise NoPython(
            "MegEngine needs Python 3.6 to 3.10, and none was found (PATH, pyenv, uv).\n"
            "Install one (`uv python install 3.10`, `pyenv install 3.10`) or set MEGENGINE_PYTHON."
        )
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / f"megengine-{version}.lock", say):
        ready = installed_wheel(version, chosen)  # made by another process meanwhile
        return ready.path if ready else _make(version, cache, pythons[0], say)


def _given_python(path: str | None) -> Python | None:
    if path is None:
        return None
    python = probe(path)
    if python is None:
        raise NoPython(
            f"{path} is no Python that MegEngine supports.\n"
            "Give an interpreter of Python 3.6 to 3.10, 64 bits, with venv and ensurepip."
        )
    return python


def installed_wheel(
    version: str = VERSION, python: Python | None = None
) -> RuntimeDescription | None:
    """The ready runtime of this version, best Python first; None if there is none.

    Only that of `python`, or of the Python that `MEGENGINE_PYTHON` names, if there is one.
    """
    cache, chosen = cache_folder(), python or chosen_python()
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


def find_wheels() -> list[RuntimeDescription]:
    """What has a MegEngine that works, one for each version; nothing is installed.

    First what was installed by us, then the interpreters on PATH, in pyenv's folder and of uv.
    """
    wheels: dict[str, RuntimeDescription] = {}
    ours = installed_wheel()
    if ours:
        wheels[ours.version] = ours
    for python in present_pythons():
        wheel = describe_wheel(python.path)
        if not wheel.problem:
            wheels.setdefault(wheel.version, wheel)
    return list(wheels.values())


def cache_folder() -> Path:
    """`MGW_RUNTIME_CACHE`, else a folder of ours in the user's cache."""
    own = os.environ.get("MGW_RUNTIME_CACHE")
    return Path(own).expanduser().absolute() if own else user_cache()


def user_cache() -> Path:
    """Our folder in the user's cache, one for all clones."""
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


def _make(version: str, cache: Path, python: Python, say: Say) -> str:
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
    _step([python.path, "-m", "venv", str(folder)], log, say, "making a virtual environment")
    try:
        _install(inside, _requirements_for(version, folder), log, say)
    except NoWheel:
        shutil.rmtree(folder)  # trying again would not help: leave nothing half-made
        raise
    description = describe_wheel(inside)
    if description.problem:
        raise InstallFailed(f"MegEngine was installed but does not work: {description.problem}")
    if description.version != version:
        raise InstallFailed(
            f"{REQUIREMENTS} installs MegEngine {description.version}, not {version}"
        )
    _write_marker(folder / _MARKER, description)
    say(f"MegEngine {version} is ready after {time.monotonic() - started:.0f} s")
    return inside


def _install(inside: str, requirements: Path, log: Path, say: Say) -> None:
    pip = [inside, "-m", "pip", "install", "--disable-pip-version-check"]
    # the pip that came with Python 3.6 and 3.7 does not know the wheel's platform tag
    _step([*pip, "pip>=20.3"], log, say, "checking pip")
    try:
        _step([*pip, "-r", str(requirements)], log, say, "installing MegEngine", is_shown=True)
    except InstallFailed as failure:
        if any(words in str(failure) for words in _NOT_THERE):
            raise NoWheel(f"{failure}\n{_WHAT_IS_THERE}") from failure
        raise


def _requirements_for(version: str, folder: Path) -> Path:
    """The file itself, or a copy of it that names another version of MegEngine."""
    text = REQUIREMENTS.read_text(encoding="utf-8")
    changed = _PINNED.sub(f"MegEngine=={version}", text)
    if changed == text:
        return REQUIREMENTS
    copy = folder / "requirements.txt"
    copy.write_text(changed, encoding="utf-8")
    return copy


def _write_marker(path: Path, description: RuntimeDescription) -> None:
    partial = path.with_suffix(".partial")
    recorded = {name: getattr(description, name) for name in _RECORDED}
    partial.write_text(json.dumps(recorded))
    partial.replace(path)


def _step(command: list[str], log: Path, say: Say, what: str, is_shown: bool = False) -> None:
    """Run one command of the installation, with signs of life. Raises InstallFailed.

    A `shown` command draws its own progress when a person sits at a terminal; otherwise its output
    goes to `log`, and `say` hears of the time it takes.
    """
    started = time.monotonic()
    with log.open("ab") as sink:
        terminal = is_shown and sys.stderr.isatty()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr if terminal else sink,
            # a person sees the progress; why it failed is wanted in the log all the same
            stderr=sink if terminal else subprocess.STDOUT,
        )
        reported_at = started
        while process.poll() is None:
            time.sleep(_POLL_S)
            now = time.monotonic()
            if not terminal and now - reported_at >= _SAY_EVERY_S:
                reported_at = now
                say(f"{what}: {now - started:.0f} s")
    if process.returncode:
        tail = log.read_text(errors="replace").strip().splitlines()[-8:]
        reason = "\n".join([f"{what} failed (exit code {process.returncode})", *tail])
        raise InstallFailed(reason)
