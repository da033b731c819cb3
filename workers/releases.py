"""The agent's release that this site serves, built by `python -m agent.install`."""

import json
import re
import shlex
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from django.conf import settings

#: the command that the wheel installs
PROGRAM = "megengine-web-profile-agent"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class BuiltFile:
    """A file of a release; `kind` is the platform that it is for, such as linux-x86_64-cp311."""

    name: str
    kind: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Release:
    """A release of the agent; `wheel` is the file name of the installer for pipx."""

    version: str
    wheel: str
    files: tuple[BuiltFile, ...]
    names: frozenset[str] = field(default=frozenset())


def release_folder() -> Path:
    return Path(settings.AGENT_FOLDER)


def served_release() -> Release | None:
    """Return the release that devices get; None if none was built."""
    path = release_folder() / MANIFEST
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        return None
    return _read(path, changed_ns)


def served_version() -> str:
    release = served_release()
    return release.version if release else ""


def is_behind(version: str) -> bool:
    """Whether an agent's version differs from the served release.

    An agent that runs from a clone reports no build (`0.1.0`, not `0.1.0+1a2b3c4d`); it is behind
    only if its version number is lower.
    """
    release_version = served_version()
    if not release_version or not version or version == release_version:
        return False
    return "+" in version or _number(version) < _number(release_version)


def enrolment_commands(code: str) -> dict[str, str]:
    """Return alternative commands that install, enrol and start the agent with an enrolment code.

    `curl` needs only Python 3; `pipx` is empty while the site serves no release; `clone` is for an
    agent that runs from a clone of the repository.
    """
    site, quoted = settings.SITE_URL, shlex.quote(code)
    commands = {
        "curl": f"curl -fsS {site}/agent/install.py | python3 - --code {quoted} --start",
        "pipx": "",
        "clone": f"python -m agent enrol --server {site} --code {quoted} --find-runtimes",
    }
    if release := served_release():
        wheel = f"{site}/agent/{release.wheel}"
        arguments = f"--server {site} --code {quoted} --start"
        commands["pipx"] = f"pipx run --spec {shlex.quote(wheel)} {PROGRAM} {arguments}"
    return commands


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int) -> Release | None:
    """Parse the manifest; the cache key includes the time of its last modification."""
    try:
        manifest = json.loads(path.read_bytes())
        files = tuple(
            BuiltFile(entry["name"], kind, entry["sha256"], entry["size_bytes"])
            for kind, entry in manifest["files"].items()
        )
        wheel = manifest["wheel"]["name"]
        names = frozenset({wheel, *(file.name for file in files)})
        return Release(manifest["version"], wheel, files, names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
