"""The files that devices get, built for this machine."""

import hashlib
import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent import __version__
from agent.bundle import build as building
from agent.bundle.__main__ import _cache
from agent.bundle.build import BuildFailed, build

MACHINE = platform.machine()
KIND = f"linux-{MACHINE}-cp3{sys.version_info[1]}"


@pytest.fixture
def one_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MINORS", (sys.version_info[1],))


def test_a_built_agent_runs_alone_and_is_the_same_each_time(one_python, tmp_path: Path):
    first = build(tmp_path / "a", _cache(), [MACHINE])
    second = build(tmp_path / "b", _cache(), [MACHINE])
    assert first["files"] == second["files"]
    assert json.loads((tmp_path / "a" / "manifest.json").read_text()) == first
    file = first["files"][KIND]
    path = tmp_path / "a" / file["name"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == file["sha256"]
    assert first["version"].startswith(f"{__version__}+")

    base = sys._base_executable
    for _ in range(2):
        done = subprocess.run(
            [base, "-I", str(path), "--version"], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == first["version"]
    code = "import agent.runtimes.install as i; print(i.REQUIREMENTS.read_text()[:200])"
    (unpacked,) = (tmp_path / "a" / "unpacked").glob("*-cp3*")
    done = subprocess.run(
        [base, "-c", code], cwd=unpacked, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip()


def test_anybody_may_read_it_whoever_built_it(one_python, tmp_path: Path):
    # an image is built by root, and the site in it is another user
    before = os.umask(0o077)
    try:
        build(tmp_path, _cache(), [MACHINE])
    finally:
        os.umask(before)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".whl", ".pyz"}
    assert [path.name for path in files if path.stat().st_mode & 0o044 != 0o044] == []


def test_it_holds_neither_tests_nor_anything_of_the_server(one_python, tmp_path: Path):
    file = build(tmp_path, _cache(), [MACHINE])["files"][KIND]
    with zipfile.ZipFile(tmp_path / file["name"]) as bundle:
        names = bundle.namelist()
    assert len(names) == len(set(names))
    assert not [name for name in names if "/tests/" in name or "django" in name.lower()]
    assert {name.split("/")[0] for name in names} >= {"__main__.py", "site", "kind.txt"}
    assert "site/agent/protocol/options.json" in names


def test_what_is_built_already_is_not_built_again(one_python, tmp_path: Path):
    made = build(tmp_path, _cache(), [MACHINE])
    path = tmp_path / made["files"][KIND]["name"]
    before = path.stat().st_mtime_ns
    build(tmp_path, _cache(), [MACHINE])
    assert path.stat().st_mtime_ns == before
    path.unlink()
    (tmp_path / "old.pyz").touch()
    build(tmp_path, _cache(), [MACHINE])
    assert path.exists()
    assert not (tmp_path / "old.pyz").exists()


def test_a_device_that_packages_lack_is_named_and_the_others_are_built(one_python, tmp_path: Path):
    made = build(tmp_path, _cache(), [MACHINE, "mips"])
    assert set(made["files"]) == {KIND}
    assert list(made["missing"]) == [KIND.replace(MACHINE, "mips")]
    with pytest.raises(BuildFailed):
        build(tmp_path / "none", _cache(), ["mips"])
    assert not (tmp_path / "none" / "manifest.json").exists()


def test_a_file_for_another_python_says_which_one_it_needs(one_python, tmp_path: Path):
    file = build(tmp_path, _cache(), [MACHINE])["files"][KIND]
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(tmp_path / file["name"]) as bundle, zipfile.ZipFile(other, "w") as made:
        made.writestr("__main__.py", bundle.read("__main__.py"))
        made.writestr("kind.txt", f"linux-{MACHINE}-cp310")
        made.writestr("version.txt", "1")
    done = subprocess.run([sys.executable, other], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "run it with python3.10, or install the agent again" in done.stderr
