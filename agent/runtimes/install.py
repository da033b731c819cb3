"""Install the MegEngine wheel into a virtual environment that all clones of the user share."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path

from agent.runtimes.describe import RuntimeDescription, describe_wheel
from agent.runtimes.find import MINORS, Python, chosen_python, find_pythons, present_pythons, probe

VERSION = "1.13.0"
_HERE = Path(__file__).resolve()
#: in a bundle it is next to this file
REQUIREMENTS = _HERE.with_name("megengine.txt")
if not REQUIREMENTS.exists():
    REQUIREMENTS = _HERE.parents[2] / "requirements" / "megengine.txt"

#: written last, by a rename: a folder without it is incomplete and is created again
_MARKER = "runtime.json"
#: fields of the description that do not change; GPUs may be added and removed
_RECORDED = ("version", "kind", "path", "python")
_SAY_EVERY_S = 15.0
_POLL_S = 0.2
_NEEDED_BYTES = 5 * 10**9  # 2 GB for MegEngine; pip needs the rest during the installation

_A_VERSION = re.compile(r"\d{1,4}(\.\d{1,6}){1,3}([a-z]{1,4}\d{1,4})?(\+[a-z0-9.]{1,20})?")
#: requirements that are installed first; wheel needs packaging
_TOOLS = frozenset({"pip", "setuptools", "wheel", "packaging"})
#: pip's messages if the index has no such version, or none for this Python or machine
_NOT_FOUND_MESSAGES = ("No matching distribution found", "Could not find a version that satisfies")
_AVAILABLE_WHEELS = (
    "PyPI has MegEngine 1.13.0 for Linux x86-64 and Python 3.6 to 3.10 only (and 1.13.1 for macOS "
    "x86-64). Other versions and machines need a compiled load_and_run: add it with --binary PATH."
)

Say = Callable[[str], None]


class RuntimeProblem(Exception):
    """A runtime could not be created; the text is shown to the user at the terminal."""


class NoPython(RuntimeProblem):
    """No Python that MegEngine supports; the text has two lines and explains what to install."""


class InstallFailed(RuntimeProblem):
    """MegEngine could not be installed for a suitable Python."""


class NoWheel(InstallFailed):
    """There is no wheel of this version for this Python and machine."""


def ensure_wheel_runtime(
    version: str = VERSION,
    say: Say = lambda line: None,
    python: str | None = None,
) -> str:
    """Return the path of an interpreter with MegEngine `version`; install it if needed.

    If `version` is not the one of REQUIREMENTS, the other packages have the same versions.
    `python` is the interpreter to install for, by default that in `MEGENGINE_PYTHON`, or else the
    best one. If the runtime exists, the call is cheap: it starts no process, except to probe such
    an interpreter. `say` receives lines of progress for the user. Raises NoPython, NoWheel or
    InstallFailed.
    """
    if not _A_VERSION.fullmatch(version):
        raise InstallFailed(f"{version!r} is not a version of MegEngine; use for example {VERSION}")
    cache = cache_folder()
    chosen = _probe_requested(python or os.environ.get("MEGENGINE_PYTHON"))
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
        ready = installed_wheel(version, chosen)  # another process may have made it
        return ready.path if ready else _make(version, cache, pythons[0], say)


def _probe_requested(path: str | None) -> Python | None:
    if not path:
        return None
    python = probe(path)
    if python is None:
        raise NoPython(
            f"{path} is not a Python that MegEngine supports.\n"
            "Use an interpreter of Python 3.6 to 3.10, 64 bits, with venv and ensurepip."
        )
    return python


def installed_wheel(
    version: str = VERSION, python: Python | None = None
) -> RuntimeDescription | None:
    """Return the installed runtime of this version, None if there is none.

    It is that of `python`, or of the Python in `MEGENGINE_PYTHON`, or else of the best Python.
    """
    cache, chosen = cache_folder(), python or chosen_python()
    for minor in (chosen.minor,) if chosen else MINORS:
        try:
            recorded = json.loads((_folder(cache, version, minor) / _MARKER).read_text())
            description = RuntimeDescription(**recorded)
        except (OSError, ValueError, TypeError):
            continue
        # false if the folder or its base Python was moved or removed
        if os.access(description.path, os.X_OK):
            return description
    return None


def find_wheels() -> list[RuntimeDescription]:
    """Return the interpreters with a working MegEngine, one per version, without installing one.

    A runtime that we installed takes precedence over interpreters on PATH, in pyenv's folder and
    of uv.
    """
    wheels: dict[str, RuntimeDescription] = {}
    installed = installed_wheel()
    if installed:
        wheels[installed.version] = installed
    for python in present_pythons():
        wheel = describe_wheel(python.path)
        if not wheel.problem:
            wheels.setdefault(wheel.version, wheel)
    return list(wheels.values())


def cache_folder() -> Path:
    """Return the folder of the runtimes: `MGW_RUNTIME_CACHE`, else `user_cache()`."""
    folder = os.environ.get("MGW_RUNTIME_CACHE")
    return Path(folder).expanduser().absolute() if folder else user_cache()


def user_cache() -> Path:
    """Return our folder in the user's cache, which all clones share."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "megengine-web-profile"


def _folder(cache: Path, version: str, minor: int) -> Path:
    return cache / f"megengine-{version}-py3.{minor}"


@contextmanager
def _lock(path: Path, say: Say) -> Iterator[None]:
    """Allow one installation at a time. The kernel releases the lock if the process dies."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is installing MegEngine; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(version: str, cache: Path, python: Python, say: Say) -> str:
    """Make the virtual environment in its final folder, as it cannot be moved. Needs the lock."""
    folder = _folder(cache, version, python.minor)
    if folder.exists():
        say(f"{folder} is incomplete: creating it again")
        shutil.rmtree(folder)
    if shutil.disk_usage(cache).free < _NEEDED_BYTES:
        raise InstallFailed(
            f"not enough space in {cache}: MegEngine needs 2 GB, and 5 GB during the installation"
        )
    say(f"installing MegEngine {version} into {folder} (downloads about 0.9 GB, once)")
    started = time.monotonic()
    log = cache / f"{folder.name}.log"
    log.unlink(missing_ok=True)
    inside = str(folder / "bin" / "python")
    _step([python.path, "-m", "venv", str(folder)], log, say, "creating a virtual environment")
    try:
        _install(inside, version, log, say)
    except NoWheel:
        shutil.rmtree(folder)  # a retry would fail, too
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


def _install(inside: str, version: str, log: Path, say: Say) -> None:
    """Install MegEngine with pip, which compares every file with the checksums of REQUIREMENTS.

    They contain one version of MegEngine; another one is installed without a checksum.
    """
    pip = [inside, "-m", "pip", "install", "--disable-pip-version-check"]
    folder = Path(inside).parents[1]
    tools, others = _split_requirements(REQUIREMENTS.read_text(encoding="utf-8"), _TOOLS)
    listed, packages = _split_requirements(others, {"megengine"})
    is_listed = version == VERSION
    # packages without a wheel are built with these tools; in a build environment of its own pip
    # would install others, without checksums
    with_checksums = [*pip, "--require-hashes", "--no-build-isolation", "-r"]
    _step(
        [*with_checksums, _write(folder / "tools.txt", tools)], log, say, "installing pip's tools"
    )
    packages = listed + packages if is_listed else packages
    file = _write(folder / "requirements.txt", packages)
    what = "installing MegEngine"
    try:
        _step([*with_checksums, file], log, say, what, is_shown=True)
        if not is_listed:
            say(f"there is no checksum for MegEngine {version}: it is installed without one")
            _step([*pip, "--no-deps", f"MegEngine=={version}"], log, say, what, is_shown=True)
    except InstallFailed as failure:
        if any(message in str(failure) for message in _NOT_FOUND_MESSAGES):
            raise NoWheel(f"{failure}\n{_AVAILABLE_WHEELS}") from failure
        raise


def _split_requirements(text: str, names: Set[str]) -> tuple[str, str]:
    """Return the requirements with these names (in lower case), and the others."""
    chosen: list[str] = []
    others: list[str] = []
    # a requirement has indented lines with checksums
    for block in re.split(r"^(?=[A-Za-z])", text, flags=re.MULTILINE):
        name = block.partition("==")[0].lower()
        (chosen if name in names else others).append(block)
    return "".join(chosen), "".join(others)


def _write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def _write_marker(path: Path, description: RuntimeDescription) -> None:
    partial = path.with_suffix(".partial")
    recorded = {name: getattr(description, name) for name in _RECORDED}
    partial.write_text(json.dumps(recorded))
    partial.replace(path)


def _step(command: list[str], log: Path, say: Say, what: str, is_shown: bool = False) -> None:
    """Run one command of the installation, and report progress. Raises InstallFailed.

    If `is_shown` and stderr is a terminal, the command's own progress is shown. Otherwise its
    output goes to `log`, and `say` receives the elapsed time every few seconds.
    """
    started = time.monotonic()
    with log.open("ab") as sink:
        terminal = is_shown and sys.stderr.isatty()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr if terminal else sink,
            # errors go to the log in any case
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
