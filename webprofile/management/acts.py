"""Verbs of commands: what administrators do with rows, as the pages of administration do it."""

import argparse
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

from webprofile.admin.actions import Act
from webprofile.management.bulk import explain_command
from webprofile.terminal.output import plain_lines


def act_verbs(
    verbs: "argparse._SubParsersAction[Any]", acts: Iterable[Act], *, metavar: str, example: str
) -> dict[str, Act]:
    """Add a verb for each act; its argument is `names`. Returns the acts by verb.

    example: what an example has before and after the verb, as "workers {verb} x86-1"
    """
    found = {act.name.replace("_", "-"): act for act in acts}
    for verb, act in found.items():
        added = verbs.add_parser(verb, help=act.label)
        last = " --yes" if act.is_final else ""
        explain_command(added, example.format(verb=verb) + last)
        added.description = f"{act.label}. {act.warning}".strip()
        added.add_argument("names", nargs="+", metavar=metavar)
        if act.is_final:
            added.add_argument("--yes", action="store_true", help="do not ask")
    return found


def act_on_rows(act: Act, rows: Iterable[Any], out: OutputWrapper) -> None:
    """Do it with each row and print what came of it. Raises CommandError if one was refused."""
    refused = []
    for row in rows:
        came = act.on(row, by=None)
        if came.refusal is None:
            out.write(act.words([came.name], changed=came.changed))
        else:
            refused.append(came.refusal_words)
    if refused:
        raise CommandError(plain_lines("\n".join(refused)))
