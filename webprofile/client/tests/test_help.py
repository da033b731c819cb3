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
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--help"])
        assert ended.value.code == 0
        return capsys.readouterr().out

    return read_help


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help_ends_with_an_example_of_it(help_of, command):
    _, _, examples = help_of(command).partition("example")
    assert f"  webprofile {command}" in examples


def test_the_first_help_names_every_command_and_every_exit_code(help_of):
    shown = help_of()
    assert all(f"\n    {command} " in shown for command in COMMANDS)
    assert "list (tasks)" in shown
    codes = {value for name, value in vars(exit_codes).items() if isinstance(value, int)}
    assert all(f"\n  {code} " in shown for code in codes)


def test_the_help_of_compare_says_what_its_gate_judges_and_what_its_exit_codes_mean(help_of):
    shown = help_of("compare")
    assert "judges\nthe median time of an iteration without profiling" in shown
    assert "1  with --fail-above: a task is slower by more" in shown
    assert "5  with --fail-above: not enough evidence" in shown
