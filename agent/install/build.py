"""Build the agent's files: a zipapp per processor and Python version, and a wheel for pipx.

A compiled extension cannot be imported from a zip file, so `start` unpacks each zipapp once. The
compressed packages are cached until requirements/agent.txt changes; adding our own source takes a
tenth of a second. One file for all kinds of devices would be 8 times as large: numpy's OpenBLAS
alone has 8 MB per processor, and its extensions differ per Python version.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent import __version__
from agent.runtimes.config_file import replace_file
from agent.runtimes.install import REQUIREMENTS as MEGENGINE_REQUIREMENTS

MACHINES = ("x86_64", "aarch64")
#: minor versions of Python 3 that the agent runs on
MINORS = (11, 12, 13, 14)
#: the C library that the wheels of requirements/agent.txt require: glibc 2.28
PLATFORM = "manylinux_2_28"
MANIFEST = "manifest.json"
NAME = "megengine-web-profile-agent"

_AGENT = Path(__file__).resolve().parents[1]
_REQUIREMENTS = _AGENT.parent / "requirements" / "agent.txt"
_TIMEOUT_S = 600.0
#: time of all zip entries, so that the same source makes the same bytes
_DATE = (1980, 1, 1, 0, 0, 0)
#: files of packages that only developers need
_LEFT_OUT = re.compile(r"(^|/)(tests|__pycache__|bin)/|\.(pyi|a|h)$")
_PYPROJECT = """\
[project]
name = "{name}"
version = "{version}"
description = "Installs the agent of MegEngine Web Profile on a device."
requires-python = ">=3.8"

[project.scripts]
{name} = "megengine_web_profile_agent:main"

[build-system]
requires = ["uv_build>=0.5"]
build-backend = "uv_build"

[tool.uv.build-backend]
module-root = ""
"""

Say = Callable[[str], None]
BuildManifest = dict[str, Any]


class BuildFailed(RuntimeError):
    """The build failed; the text contains the cause and what to do."""


def build(
    out: Path, cache: Path, machines: Sequence[str] = MACHINES, *, say: Say = lambda line: None
) -> BuildManifest:
    """Build the files that are missing in `out`; return the manifest, which is written last.

    A kind of device for which a package has no wheel is listed under "missing". Raises
    BuildFailed, OSError.
    """
    source = dict(_source())
    version = f"{__version__}+{_digest(source)[:8]}"
    previous = _read(out / MANIFEST)
    kinds = [f"linux-{machine}-cp3{minor}" for machine in machines for minor in MINORS]
    if _is_complete(previous, version, kinds, out):
        return previous
    out.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    manifest: BuildManifest = {"version": version, "files": {}, "missing": {}}
    for kind in kinds:
        try:
            packages = _packages(kind, cache, say)
        except BuildFailed as problem:
            manifest["missing"][kind] = str(problem)
            say(f"{kind}: {problem}")
            continue
        path = out / f"{NAME}-{version}-{kind}.pyz"
        _write_zipapp(path, packages, source | _version_files(kind, version))
        manifest["files"][kind] = _describe(path)
    if not manifest["files"]:
        raise BuildFailed("; ".join(dict.fromkeys(manifest["missing"].values())))
    manifest["wheel"] = _describe(_write_wheel(out, version))
    # readable by the server's user, which may differ from the user of the build (root in an image)
    replace_file(out / MANIFEST, json.dumps(manifest, indent=1).encode(), mode=0o644)
    _remove_old_files(
        out, {manifest["wheel"]["name"], *(entry["name"] for entry in manifest["files"].values())}
    )
    return manifest


def _source() -> Iterator[tuple[str, bytes]]:
    """Yield the names in the zip and the contents of our own files, the entry point first."""
    yield "__main__.py", (_AGENT / "install" / "start.py").read_bytes()
    for path in sorted([*_AGENT.rglob("*.py"), _AGENT / "protocol" / "options.json"]):
        name = path.relative_to(_AGENT.parent)
        if not {"tests", "__pycache__"} & set(name.parts) and path.name != "conftest.py":
            yield f"site/{name.as_posix()}", path.read_bytes()
    yield "site/agent/runtimes/megengine.txt", MEGENGINE_REQUIREMENTS.read_bytes()
    yield "site/agent/requirements.txt", _REQUIREMENTS.read_bytes()


def _version_files(kind: str, version: str) -> dict[str, bytes]:
    """Return the files that differ between builds: the agent's version and the kind of device."""
    return {
        "site/agent/__init__.py": f'__version__ = "{version}"\n'.encode(),
        "kind.txt": kind.encode(),
        "version.txt": version.encode(),
    }


def _digest(source: dict[str, bytes]) -> str:
    total = hashlib.sha256()
    for name, content in sorted(source.items()):
        total.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def _packages(kind: str, cache: Path, say: Say) -> Path:
    """Return a zip of all packages for this kind of device, from the cache. Raises BuildFailed."""
    digest = hashlib.sha256(_REQUIREMENTS.read_bytes() + _LEFT_OUT.pattern.encode()).hexdigest()
    packages = cache / f"packages-{kind}-{digest[:16]}.zip"
    if packages.exists():
        return packages
    _, machine, tag = kind.split("-")
    say(f"{kind}: fetching packages")
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        site = Path(folder) / "site"
        _uv(
            [
                *("pip", "install", "--target", str(site), "--only-binary", ":all:"),
                *("--python-platform", f"{machine}-{PLATFORM}"),
                *("--python-version", f"3.{tag[3:]}"),
                *("--require-hashes", "-r", str(_REQUIREMENTS)),
            ]
        )
        draft = Path(folder) / "packages.zip"
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as bundle:
            for path in sorted(site.rglob("*")):
                name = path.relative_to(site).as_posix()
                if path.is_file() and not _LEFT_OUT.search(name):
                    _add(bundle, f"site/{name}", path.read_bytes())
        draft.replace(packages)
    return packages


def _uv(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "uv", *arguments]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"uv took longer than {_TIMEOUT_S:.0f} s") from None
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["uv failed"]
        if "No module named uv" in lines[-1]:
            raise BuildFailed(f"uv is needed: {sys.executable} -m pip install uv")
        raise BuildFailed(" ".join(line.strip() for line in lines)[-600:])


def _write_zipapp(path: Path, packages: Path, files: dict[str, bytes]) -> None:
    draft = path.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        file.write(packages.read_bytes())
    # appending keeps the compressed packages and rewrites only the zip's directory
    with zipfile.ZipFile(draft, "a", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in files.items():
            _add(bundle, name, content)
    draft.chmod(0o755)
    draft.replace(path)


def _add(bundle: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    bundle.writestr(info, content)


def _write_wheel(out: Path, version: str) -> Path:
    """Build a wheel that contains only the installer, which downloads the agent from the site."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "megengine_web_profile_agent"
        package.mkdir()
        shutil.copy(_AGENT / "install" / "install.py", package / "__init__.py")
        text = _PYPROJECT.format(name=NAME, version=version)
        (Path(folder) / "pyproject.toml").write_text(text, encoding="utf-8")
        dist = Path(folder) / "dist"
        _uv(["build", "--wheel", "--offline", "-p", sys.executable, "-o", str(dist), folder])
        (wheel,) = dist.glob("*.whl")
        wheel.chmod(0o644)
        return Path(shutil.move(wheel, out / wheel.name))


def _describe(path: Path) -> dict[str, Any]:
    """Return the manifest's entry for a file."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return {"name": path.name, "sha256": digest, "size_bytes": len(content)}


def _read(path: Path) -> BuildManifest:
    try:
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _is_complete(manifest: BuildManifest, version: str, kinds: Sequence[str], out: Path) -> bool:
    if manifest.get("version") != version or set(kinds) - set(manifest["files"]):
        return False
    entries = [manifest["wheel"], *manifest["files"].values()]
    return all((out / entry["name"]).is_file() for entry in entries)


def _remove_old_files(out: Path, current: set[str]) -> None:
    """Remove the files of earlier builds, which the manifest no longer lists."""
    for path in out.iterdir():
        if path.suffix in (".pyz", ".whl", ".new") and path.name not in current:
            path.unlink()
