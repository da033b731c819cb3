"""Commands of the client, one module per group; `add_parsers` of each declares its commands."""

import argparse
import sys
from collections.abc import Sequence
from typing import Protocol

from webprofile.client.site import Site
from webprofile.terminal.arguments import explain


class Parsers(Protocol):
    """Type of the value that `add_subparsers` returns."""

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
    """Add the parser of a command; its help ends with the examples and the notes."""
    description = text[0].upper() + text[1:] + "."
    parser = commands.add_parser(name, aliases=aliases, help=text, description=description)
    explain(parser, *(f"webprofile {name} {line}".rstrip() for line in examples), notes=notes)
    return parser


def open_site() -> Site:
    """Return the site of the stored login. Raises UsageError without one."""
    return Site(log=sys.stderr)
