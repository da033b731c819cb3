"""Tests of `manage.py COMMAND --help`."""

import argparse
import re

import pytest
from django.conf import settings
from django.core.management import get_commands, load_command_class

COMMANDS = {
    "submit": "tasks", "tasks": "tasks", "export": "profiles", "import_profiles": "profiles",
    "purge": "profiles", "workers": "workers", "users": "accounts",
}  # fmt: skip


def parsers(name: str) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of a command and its subcommands, by their words."""
    parser = load_command_class(COMMANDS[name], name).create_parser("manage.py", name)
    verbs = [action.choices for action in parser._actions if action.dest == "verb"]
    return {name: parser} | {
        f"{name} {verb}": subparser for choices in verbs for verb, subparser in choices.items()
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_an_example_and_explains_each_argument(name):
    for words, parser in parsers(name).items():
        _, _, examples = parser.format_help().partition("\nexample")
        assert f"  manage.py {words}" in examples, words
        assert parser.description
        hidden = {action.dest for action in parser._actions if not action.help}
        assert hidden <= {"verb", "email", "workers", "names"}, words


def test_documented_verbs_exist():
    page = (settings.BASE_DIR / "docs" / "command-line.md").read_text(encoding="utf-8")
    documented = re.findall(r"`(\w+) (\w[\w-]*(?:\\\|[\w-]+)+)`", page)
    assert {name for name, _ in documented} == {"tasks", "workers", "users"}
    for name, verbs in documented:
        words = {f"{name} {verb}" for verb in verbs.split("\\|")}
        assert words - parsers(name).keys() == set()


def test_help_lists_own_arguments_before_those_of_django():
    text = parsers("submit")["submit"].format_help()
    assert 0 < text.index("  --dry-run") < text.index("  --settings")


def test_commands_start_without_system_checks_which_import_all_pages():
    ours = {"accounts", "profiles", "tasks", "webprofile", "workers"}
    commands = {name: app for name, app in get_commands().items() if app in ours}
    checking = {
        name
        for name, app in commands.items()
        if load_command_class(app, name).requires_system_checks
    }
    assert checking == {"embedded_prepare"}  # once for all parts of a local site
