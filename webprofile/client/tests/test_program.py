"""Tests of the command as a whole: its help, its language and the packages of its installation."""

import tomllib
from pathlib import Path

import pytest

from webprofile.client.api import accept_language
from webprofile.client.program import main
from webprofile.terminal import exit_codes

ROOT = Path(__file__).parents[3]
COMMANDS = (
    "login", "logout", "workers", "presets", "list", "cancel", "retry", "delete", "share",
    "submit", "wait", "show", "compare", "export",
)  # fmt: skip


@pytest.fixture
def help_of(capsys):
    def read_help(*arguments: str) -> str:
        with pytest.raises(SystemExit) as raised:
            main([*arguments, "--help"])
        assert raised.value.code == 0
        return capsys.readouterr().out

    return read_help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_ends_with_an_example(help_of, command):
    _, _, examples = help_of(command).partition("example")
    assert f"  webprofile {command}" in examples


def test_help_lists_all_commands_and_exit_codes(help_of):
    output = help_of()
    assert all(f"\n    {command} " in output for command in COMMANDS)
    assert "list (tasks)" in output
    codes = {value for name, value in vars(exit_codes).items() if isinstance(value, int)}
    assert all(f"\n  {code} " in output for code in codes)


def test_help_of_compare_explains_the_gate_and_its_exit_codes(help_of):
    output = help_of("compare")
    assert "judge the median latency with the profiler off" in output
    assert "1    with --fail-above: a task is slower by more" in output
    assert "5    with --fail-above or --gate: not enough evidence" in output


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh-CN, zh"),
        ({"LANG": "de_DE@euro"}, "de-DE, de"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_GB.UTF-8"}, "en-GB, en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN"}, "zh-CN, zh"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh-CN, zh, en, en-US"),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, "en"),
        ({"LANG": "POSIX"}, "en"),
        ({"LANG": "zh_CN\r\nX-Evil: 1"}, "en"),
    ],
)
def test_accept_language_follows_the_environment(environment, language):
    assert accept_language(environment) == language


def test_messages_of_the_site_are_in_the_language_of_the_terminal(client, alice):
    client.environment["LANG"] = "zh_CN.UTF-8"
    stderr = client.run("list", "--created-after", "yesterday", code=2).stderr
    assert "地址中的部分参数有误" in stderr
    client.environment["LANG"] = "en_US.UTF-8"
    stderr = client.run("list", "--created-after", "yesterday", code=2).stderr
    assert "Some parameters of the URL are not valid" in stderr


def test_package_contains_the_client_and_nothing_of_the_server():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for part in ("client", "terminal")
        for path in (ROOT / "webprofile" / part).rglob("__init__.py")
        if "tests" not in path.parts
    }
    assert set(project["tool"]["setuptools"]["packages"]) == packages


def test_server_requirements_contain_those_of_the_client():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    locked = (ROOT / "requirements" / "embedded.txt").read_text(encoding="utf-8").lower()
    for name in project["project"]["dependencies"]:
        assert f"\n{name.lower()}==" in f"\n{locked}"
