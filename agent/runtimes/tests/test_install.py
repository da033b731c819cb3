"""Installation of the wheel: once, and completely or not at all."""

import threading
from pathlib import Path

import pytest

from agent.runtimes.__main__ import main
from agent.runtimes.install import (
    REQUIREMENTS,
    InstallFailed,
    NoPython,
    NoWheel,
    ensure_wheel_runtime,
    installed_wheel,
)


def pip_calls(python_folder: Path) -> int:
    calls = python_folder / "calls.txt"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def test_a_runtime_is_installed_once(python_folder, tmp_path):
    lines: list[str] = []
    first = ensure_wheel_runtime(say=lines.append)
    assert first == str(tmp_path / "cache" / "megengine-1.13.0-py3.10" / "bin" / "python")
    assert "0.9 GB" in lines[0]
    calls = pip_calls(python_folder)

    (python_folder / "python3.10").unlink()  # a second call needs no Python and starts no process
    assert ensure_wheel_runtime(say=lines.append) == first
    assert pip_calls(python_folder) == calls
    described = installed_wheel()
    assert described is not None
    assert (described.version, described.python) == ("1.13.0", "3.10.1")


def test_an_incomplete_runtime_is_installed_again(python_folder, tmp_path):
    leftover = tmp_path / "cache" / "megengine-1.13.0-py3.10" / "lib" / "half-a-wheel"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("")
    assert installed_wheel() is None
    ensure_wheel_runtime()
    assert not leftover.exists()
    assert installed_wheel() is not None


def test_a_failed_installation_leaves_no_runtime(python_folder):
    (python_folder / "fail-pip").write_text("no network")
    with pytest.raises(InstallFailed, match="no network"):
        ensure_wheel_runtime()
    assert installed_wheel() is None

    (python_folder / "fail-pip").unlink()
    ensure_wheel_runtime()
    assert installed_wheel() is not None


def test_every_file_is_compared_with_its_checksum(python_folder):
    lines: list[str] = []
    ensure_wheel_runtime(say=lines.append)
    calls = (python_folder / "calls.txt").read_text().splitlines()
    assert [line.split("/")[-1] for line in calls] == ["tools.txt", "requirements.txt"]
    assert all("--require-hashes --no-build-isolation -r" in line for line in calls)
    requirements = (python_folder / "requirements.txt").read_text()
    names = [line.partition("==")[0] for line in requirements.splitlines() if line[:1].isalpha()]
    tools = set(names[: names.index("megengine")])
    assert tools == {"packaging", "pip", "setuptools", "wheel"}
    assert sorted(requirements.splitlines()) == sorted(REQUIREMENTS.read_text().splitlines())
    assert not any("checksum" in line for line in lines)


def test_another_installed_version_than_the_requested_one_is_an_error(python_folder):
    with pytest.raises(InstallFailed, match=r"installs MegEngine 1\.13\.0, not 1\.12\.0"):
        ensure_wheel_runtime("1.12.0")
    assert installed_wheel("1.12.0") is None


def test_another_version_has_the_same_dependencies(python_folder):
    (python_folder / "version").write_text("1.12.0")
    assert "megengine-1.12.0-py3.10" in ensure_wheel_runtime("1.12.0")
    lines = (python_folder / "requirements.txt").read_text().splitlines()
    assert not any(line.lower().startswith("megengine") for line in lines)
    assert any(line.startswith("numpy==1.26.4") for line in lines)
    assert (python_folder / "calls.txt").read_text().endswith(" --no-deps MegEngine==1.12.0\n")
    described = installed_wheel("1.12.0")
    assert described is not None and described.version == "1.12.0"
    assert installed_wheel("1.13.0") is None


def test_the_error_for_a_version_without_a_wheel_names_existing_ones(python_folder, tmp_path):
    (python_folder / "no-wheel").write_text(
        "ERROR: No matching distribution found for MegEngine==1.9.0"
    )
    with pytest.raises(NoWheel, match=r"PyPI has MegEngine 1\.13\.0 for Linux x86-64") as caught:
        ensure_wheel_runtime("1.9.0")
    assert "--binary" in str(caught.value)
    assert not (tmp_path / "cache" / "megengine-1.9.0-py3.10").exists()


@pytest.mark.parametrize("version", ["", "x", "../1.13.0", "1.13.0 --index-url x", "1", "1.13.0\n"])
def test_an_invalid_version_is_rejected(version, python_folder):
    with pytest.raises(InstallFailed, match="not a version of MegEngine"):
        ensure_wheel_runtime(version)
    assert pip_calls(python_folder) == 0


def test_a_given_python_is_used_or_rejected(python_folder, tmp_path, make_python):
    python = make_python(tmp_path / "mine" / "python", 8)
    assert "py3.10" in ensure_wheel_runtime()
    assert "py3.8" in ensure_wheel_runtime(python=str(python))
    with pytest.raises(NoPython, match="not a Python that MegEngine supports"):
        ensure_wheel_runtime(python=str(tmp_path / "none"))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": "1.13.0"}'])
def test_a_runtime_with_a_damaged_description_is_ignored(content, tmp_path):
    folder = tmp_path / "cache" / "megengine-1.13.0-py3.10"
    folder.mkdir(parents=True)
    (folder / "runtime.json").write_text(content)
    assert installed_wheel() is None


def test_a_runtime_without_interpreter_is_ignored(python_folder):
    Path(ensure_wheel_runtime()).unlink()
    assert installed_wheel() is None


def test_concurrent_installations_install_once(python_folder):
    paths: list[str] = []
    threads = [
        threading.Thread(target=lambda: paths.append(ensure_wheel_runtime())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(paths)) == 1 and len(paths) == 2
    assert pip_calls(python_folder) == 2  # of one installation: pip itself, then MegEngine


def test_another_python_gets_its_own_runtime(python_folder, tmp_path, make_python, monkeypatch):
    ensure_wheel_runtime()
    chosen = make_python(tmp_path / "mine" / "python", 8)
    monkeypatch.setenv("MEGENGINE_PYTHON", str(chosen))
    assert "py3.8" in ensure_wheel_runtime()


def test_a_chosen_python_that_cannot_be_used_is_an_error(python_folder, make_python, monkeypatch):
    monkeypatch.setenv("MEGENGINE_PYTHON", "/opt/no/python3.10")
    with pytest.raises(NoPython, match=r"/opt/no/python3\.10 is not a Python"):
        ensure_wheel_runtime()


def test_without_free_space_nothing_is_installed(python_folder, monkeypatch):
    monkeypatch.setattr("agent.runtimes.install._NEEDED_BYTES", 10**18)
    with pytest.raises(InstallFailed, match="not enough space"):
        ensure_wheel_runtime()
    assert pip_calls(python_folder) == 0


def test_ensure_prints_the_interpreter_last(python_folder, capsys):
    assert main(["ensure"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1].endswith("py3.10/bin/python")
    assert "0.9 GB" in captured.err


def test_ensure_without_a_python_prints_two_lines_of_instructions(capsys):
    assert main(["ensure"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 2


def test_ensure_prints_why_an_installation_failed(python_folder, capsys):
    (python_folder / "fail-pip").write_text("no network")
    assert main(["ensure"]) == 1
    assert "no network" in capsys.readouterr().err
