"""One module for each group of commands: `add_parsers` names them, the rest does them."""

import argparse
import os
from collections.abc import Sequence
from typing import Protocol

from webprofile.client.api import Api
from webprofile.client.login_file import login_read
from webprofile.terminal.arguments import explain


class Parsers(Protocol):
    """What `add_subparsers` returns."""

    def add_parser(
        self, name: str, *, aliases: Sequence[str], help: str, description: str
    ) -> argparse.ArgumentParser: ...


def added(
    commands: Parsers,
    name: str,
    text: str,
    *examples: str,
    notes: str = "",
    aliases: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """The parser of a command; its help shows the examples, and the notes below them."""
    description = text[0].upper() + text[1:] + "."
    parser = commands.add_parser(name, aliases=aliases, help=text, description=description)
    explain(parser, *(f"webprofile {name} {each}".rstrip() for each in examples), notes=notes)
    return parser


def opened() -> Api:
    """The API of the site that one is logged in to. Raises UsageError."""
    return Api(login_read(os.environ))
