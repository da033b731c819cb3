"""Pythons are found in a fixed order, and only working ones."""

import pytest

from agent.runtimes.find import find_pythons, probe


def minors() -> list[int]:
    return [python.minor for python in find_pythons()]


def test_no_python_is_found_on_a_bare_machine():
    assert find_pythons() == []


def test_the_newest_python_comes_first(tmp_path, make_python):
    make_python(tmp_path / "path" / "python3.8", 8)
    make_python(tmp_path / "home" / ".pyenv" / "versions" / "3.10.13" / "bin" / "python", 10)
    assert minors() == [10, 8]


def test_path_comes_before_pyenv_for_the_same_version(tmp_path, make_python):
    on_path = make_python(tmp_path / "path" / "python3.10", 10)
    make_python(tmp_path / "home" / ".pyenv" / "versions" / "3.10.13" / "bin" / "python", 10)
    assert find_pythons()[0].path == str(on_path)


def test_the_chosen_python_comes_before_newer_ones(tmp_path, make_python, monkeypatch):
    make_python(tmp_path / "path" / "python3.10", 10)
    chosen = make_python(tmp_path / "mine" / "python", 7)
    monkeypatch.setenv("MEGENGINE_PYTHON", str(chosen))
    assert minors() == [7, 10]


def test_a_pyenv_shim_that_fails_is_not_a_python(tmp_path, make_script):
    make_script(
        tmp_path / "path" / "python3.10",
        "echo 'pyenv: python3.10: command not found' >&2; exit 127",
    )
    assert find_pythons() == []


@pytest.mark.parametrize(
    "answer",
    ['[[3, 11, 2], "/x", true]', '[[2, 7, 18], "/x", true]', '[[3, 10, 1], "/x", false]', "1"],
)
def test_other_versions_and_32_bit_pythons_are_ignored(answer, tmp_path, make_script):
    assert probe(str(make_script(tmp_path / "python", f"echo '{answer}'"))) is None


def test_a_python_that_hangs_is_ignored(tmp_path, make_script, monkeypatch):
    monkeypatch.setattr("agent.runtimes.find._PROBE_TIMEOUT_S", 0.2)
    assert probe(str(make_script(tmp_path / "python", "exec sleep 5"))) is None


def test_pythons_in_pyenv_root_are_found(tmp_path, make_python, monkeypatch):
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "elsewhere"))
    make_python(tmp_path / "elsewhere" / "versions" / "3.9.18" / "bin" / "python", 9)
    assert minors() == [9]


def test_uv_installs_a_python_only_if_there_is_none(tmp_path, make_script, make_python):
    python = make_python(tmp_path / "uv-made" / "python", 10)
    make_script(
        tmp_path / "path" / "uv",
        f"""case "$2" in
install) echo x > {tmp_path}/installed ;;
find) [ -e {tmp_path}/installed ] && echo {python} ;;
esac""",
    )
    assert [entry.path for entry in find_pythons()] == [str(python)]

    (tmp_path / "installed").unlink()
    make_python(tmp_path / "path" / "python3.6", 6)
    assert minors() == [6]
    assert not (tmp_path / "installed").exists()


def test_a_failure_of_uv_is_ignored(tmp_path, make_script):
    make_script(tmp_path / "path" / "uv", "echo offline >&2; exit 2")
    assert find_pythons() == []
