"""Tests of `manage.py COMMAND --help`."""

import argparse

import pytest
from django.core.management import load_command_class

COMMANDS = {
    "submit": "tasks", "tasks": "tasks", "export": "profiles", "import_profiles": "profiles",
    "purge": "profiles", "workers": "workers", "users": "accounts",
}  # fmt: skip


def parsers(name: str) -> dict[str, argparse.ArgumentParser]:
    """Those of a command and of its verbs."""
    parser = load_command_class(COMMANDS[name], name).create_parser("manage.py", name)
    verbs = [action.choices for action in parser._actions if action.dest == "verb"]
    return {name: parser} | {
        f"{name} {verb}": subparser for choices in verbs for verb, subparser in choices.items()
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_and_verb_shows_an_example_of_itself_and_explains_each_argument(name):
    for words, parser in parsers(name).items():
        _, _, examples = parser.format_help().partition("\nexample")
        assert f"  manage.py {words}" in examples, words
        assert parser.description
        hidden = {action.dest for action in parser._actions if not action.help}
        assert hidden <= {"verb", "email", "workers", "names"}, words


def test_a_commands_own_arguments_stand_before_those_of_django():
    shown = parsers("submit")["submit"].format_help()
    assert 0 < shown.index("  --dry-run") < shown.index("  --settings")
