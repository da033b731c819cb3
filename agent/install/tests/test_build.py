"""The build of the agent's files, for this machine."""

import hashlib
import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agent import __version__
from agent.install import build as building
from agent.install.build import BuildFailed, build
from agent.runtimes.install import user_cache

MACHINE = platform.machine()
CACHE = user_cache() / "bundle"
KIND = f"linux-{MACHINE}-cp3{sys.version_info[1]}"


@pytest.fixture(autouse=True)
def one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MINORS", (sys.version_info[1],))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Build the files for this machine with a strict umask; return the folder and the manifest."""
    folder = tmp_path_factory.mktemp("built")
    before = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(building, "MINORS", (sys.version_info[1],))
            return folder, build(folder, CACHE, [MACHINE])
    finally:
        os.umask(before)


@pytest.mark.exhaustive
def test_a_built_agent_runs_and_is_reproducible(built, tmp_path: Path):
    _, manifest = built
    second = build(tmp_path, CACHE, [MACHINE])
    assert manifest["files"] == second["files"]
    assert json.loads((tmp_path / "manifest.json").read_text()) == second
    file = manifest["files"][KIND]
    path = tmp_path / file["name"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == file["sha256"]
    assert manifest["version"].startswith(f"{__version__}+")

    base = sys._base_executable
    for _ in range(2):
        done = subprocess.run(
            [base, "-I", str(path), "--version"], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == manifest["version"]
    code = "import agent.runtimes.install as i; print(i.REQUIREMENTS.read_text()[:200])"
    (unpacked,) = (tmp_path / "unpacked").glob("*-cp3*")
    done = subprocess.run(
        [base, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip()


def test_built_files_are_readable_for_all_users(built):
    # root builds the image, and the site runs as another user
    files = [path for path in built[0].iterdir() if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".whl", ".pyz"}
    assert [path.name for path in files if path.stat().st_mode & 0o044 != 0o044] == []


def test_a_built_agent_contains_no_tests_and_no_server_code(built):
    folder, manifest = built
    with zipfile.ZipFile(folder / manifest["files"][KIND]["name"]) as bundle:
        names = bundle.namelist()
    assert len(names) == len(set(names))
    assert not [name for name in names if "/tests/" in name or "django" in name.lower()]
    assert {name.split("/")[0] for name in names} >= {"__main__.py", "site", "kind.txt"}
    assert "site/agent/protocol/options.json" in names


def test_existing_files_are_not_built_again(tmp_path: Path):
    manifest = build(tmp_path, CACHE, [MACHINE])
    path = tmp_path / manifest["files"][KIND]["name"]
    before = path.stat().st_mtime_ns
    build(tmp_path, CACHE, [MACHINE])
    assert path.stat().st_mtime_ns == before
    path.unlink()
    (tmp_path / "old.pyz").touch()
    build(tmp_path, CACHE, [MACHINE])
    assert path.exists()
    assert not (tmp_path / "old.pyz").exists()


def test_an_unsupported_architecture_is_reported_and_the_others_are_built(tmp_path: Path):
    manifest = build(tmp_path, CACHE, [MACHINE, "mips"])
    assert set(manifest["files"]) == {KIND}
    assert list(manifest["missing"]) == [KIND.replace(MACHINE, "mips")]
    with pytest.raises(BuildFailed):
        build(tmp_path / "none", CACHE, ["mips"])
    assert not (tmp_path / "none" / "manifest.json").exists()


def test_a_file_for_another_python_names_the_version_it_needs(built, tmp_path: Path):
    folder, manifest = built
    other = tmp_path / "other.pyz"
    with (
        zipfile.ZipFile(folder / manifest["files"][KIND]["name"]) as bundle,
        zipfile.ZipFile(other, "w") as copy,
    ):
        copy.writestr("__main__.py", bundle.read("__main__.py"))
        copy.writestr("kind.txt", f"linux-{MACHINE}-cp310")
        copy.writestr("version.txt", "1")
    done = subprocess.run([sys.executable, other], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "run it with python3.10, or install the agent again" in done.stderr
