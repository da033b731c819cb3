"""Subcommands of `manage.py` for admin actions, with the same services as the admin pages."""

import argparse
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from webprofile.admin.actions import AdminAction
from webprofile.management.bulk import explain_command
from webprofile.terminal.output import plain_lines


def add_action_verbs(
    verbs: "argparse._SubParsersAction[Any]",
    actions: Iterable[AdminAction],
    *,
    metavar: str,
    example: str,
) -> dict[str, AdminAction]:
    """Add a subcommand with the argument `names` for each action; return the actions by verb.

    example: example command line with a placeholder, such as "workers {verb} x86-1"
    """
    by_verb = {action.name.replace("_", "-"): action for action in actions}
    for verb, action in by_verb.items():
        parser = verbs.add_parser(verb, help=action.label)
        suffix = " --yes" if action.is_final else ""
        explain_command(parser, example.format(verb=verb) + suffix)
        parser.description = f"{action.label}. {action.warning}".strip()
        parser.add_argument("names", nargs="+", metavar=metavar)
        if action.is_final:
            parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    return by_verb


def run_action(action: AdminAction, rows: Iterable[Any], out: OutputWrapper) -> None:
    """Perform an action on each row and print the results.

    Raises CommandError after the last row if one or more were refused.
    """
    refusals = []
    for row in rows:
        result = action.on(row, by=None)
        if result.refusal is None:
            out.write(action.words([result.name], changed=result.changed))
        else:
            refusals.append(result.refusal_words)
    if refusals:
        raise CommandError(plain_lines("\n".join(refusals)))
