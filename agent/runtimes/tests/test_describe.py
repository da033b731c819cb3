"""A runtime says itself which MegEngine it is, or why it cannot be used."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.runtimes import command_for, describe_binary, describe_wheel

MakeScript = Callable[[Path, str], Path]


def test_a_wheel_is_described(tmp_path: Path, make_script: MakeScript) -> None:
    python = make_script(
        tmp_path / "python", """echo noise; echo 'mgw-runtime:["1.13.0", "3.10.13"]'"""
    )
    described = describe_wheel(str(python))
    assert (described.version, described.kind, described.python) == ("1.13.0", "wheel", "3.10.13")
    assert described.problem == ""


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo \"ModuleNotFoundError: No module named 'megenginelite'\" >&2; exit 1", "No module"),
        ("exit 7", "exit code 7"),
        ("exec sleep 5", "longer than 0.3 s"),
    ],
)
def test_a_wheel_that_cannot_be_used_says_why(
    body: str, problem: str, tmp_path: Path, make_script: MakeScript
) -> None:
    described = describe_wheel(str(make_script(tmp_path / "python", body)), timeout_s=0.3)
    assert problem in described.problem
    assert described.version == ""


def test_an_interpreter_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert "No such file" in describe_wheel(str(tmp_path / "none")).problem


@pytest.mark.parametrize(
    "body",
    [
        "echo 'load_and_run on MegBrain 1.13.0'",
        # as the real 1.13 does it: the version is in the log of a run, which aborts
        """[ "$1" = no-such-model.mge ] && echo 'using MegBrain 1.13.0(0) and MegDNN 9.3.0' >&2 && \
kill -ABRT $$; echo load_and_run""",
    ],
)
def test_a_binary_is_described(body: str, tmp_path: Path, make_script: MakeScript) -> None:
    described = describe_binary(str(make_script(tmp_path / "load_and_run", body)))
    assert (described.version, described.kind, described.problem) == ("1.13.0", "binary", "")


@pytest.mark.parametrize(
    ("body", "problem"), [("echo hello", "hello"), ("exec sleep 5", "did not end within 0.3 s")]
)
def test_a_binary_that_does_not_say_its_version_is_a_problem(
    body: str, problem: str, tmp_path: Path, make_script: MakeScript
) -> None:
    described = describe_binary(str(make_script(tmp_path / "lar", body)), timeout_s=0.3)
    assert problem in described.problem


def test_a_binary_that_is_missing_or_not_executable_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    assert "is no file" in describe_binary(str(tmp_path / "none")).problem
    assert "not executable" in describe_binary(str(tmp_path / "text")).problem


def test_commands_are_lists() -> None:
    assert command_for("binary", "/opt/mge/load_and_run") == ["/opt/mge/load_and_run"]
    python, folder = command_for("wheel", "/venv/bin/python")
    assert python == "/venv/bin/python"
    assert (Path(folder) / "__main__.py").is_file()


@pytest.mark.megengine
def test_the_real_wheel_is_described(megengine_python: str) -> None:
    described = describe_wheel(megengine_python)
    assert described.problem == ""
    assert described.version.startswith("1.")
