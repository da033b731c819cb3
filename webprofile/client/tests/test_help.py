"""Tests of the help of `webprofile`: examples and exit codes."""

import pytest

from webprofile.client.program import main
from webprofile.terminal import exit_codes

COMMANDS = (
    "login", "logout", "workers", "list", "cancel", "retry", "delete", "submit", "wait", "show",
    "compare", "export",
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
    assert "judges\nthe sum of the operators' times on the device." in output
    assert "1  with --fail-above: a task is slower by more" in output
    assert "5  with --fail-above: not enough evidence" in output
