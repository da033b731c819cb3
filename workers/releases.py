"""Which agent this site serves, as `python -m agent.install` built it, and what installs it."""

import json
import re
import shlex
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from workers.models import Worker

#: the command that the wheel installs
PROGRAM = "megengine-web-profile-agent"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class BuiltFile:
    """`name` in the folder, `kind` of device that it is for: linux-x86_64-cp311."""

    name: str
    kind: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Release:
    """One version of the agent; `wheel` is the file name of the installer for pipx."""

    version: str
    wheel: str
    files: tuple[BuiltFile, ...]
    names: frozenset[str] = field(default=frozenset())


def folder() -> Path:
    return Path(settings.AGENT_FOLDER)


def served() -> Release | None:
    """What devices get; None if nothing was built."""
    path = folder() / MANIFEST
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        return None
    return _read(path, changed_ns)


def served_version() -> str:
    release = served()
    return release.version if release else ""


def is_behind(version: str) -> bool:
    """Whether an agent of this version is another one than the site serves.

    An agent that runs from a clone tells no build (`0.1.0`, not `0.1.0+1a2b3c4d`): it is compared
    by its number.
    """
    wanted = served_version()
    if not wanted or not version or version == wanted:
        return False
    return "+" in version or _number(version) < _number(wanted)


def enrol_line(worker: Worker, code: str) -> dict[str, str]:
    """Two commands, each of which makes a machine this worker: the agent installed and started.

    `curl` needs Python 3 alone; `pipx` is for those who prefer it, and empty while the site serves
    no agent. `clone` is for an agent that runs from a clone of the repository.
    """
    site, quoted = settings.SITE_URL, shlex.quote(code)
    lines = {
        "curl": f"curl -fsS {site}/agent/install.py | python3 - --code {quoted} --start",
        "pipx": "",
        "clone": f"python -m agent enrol --server {site} --code {quoted} --find-runtimes",
    }
    if release := served():
        wheel = f"{site}/agent/{release.wheel}"
        arguments = f"--server {site} --code {quoted} --start"
        lines["pipx"] = f"pipx run --spec {shlex.quote(wheel)} {PROGRAM} {arguments}"
    return lines


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int) -> Release | None:
    """Read the manifest once for each time it was written."""
    try:
        manifest = json.loads(path.read_bytes())
        files = tuple(
            BuiltFile(each["name"], kind, each["sha256"], each["size_bytes"])
            for kind, each in manifest["files"].items()
        )
        wheel = manifest["wheel"]["name"]
        names = frozenset({wheel, *(file.name for file in files)})
        return Release(manifest["version"], wheel, files, names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
