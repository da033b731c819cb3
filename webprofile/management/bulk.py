"""What the commands for many rows at once share: words for errors, questions, help, quiet logs."""

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError, DjangoHelpFormatter

from accounts.models import User
from webprofile.client.batchfile.mistakes import BatchError
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.terminal.arguments import explain
from webprofile.terminal.exit_codes import INTERRUPTED, USAGE
from webprofile.terminal.output import plain_lines


class _Help(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Django's own arguments last, lines of examples as they are."""


def explain_command(
    parser: argparse.ArgumentParser, *examples: str, notes: str = "", text: str = ""
) -> None:
    """Have `--help` end with examples, `manage.py` before each; text: what a verb does."""
    if text:
        parser.description = text[0].upper() + text[1:] + "."
    explain(parser, *(f"manage.py {each}" for each in examples), notes=notes, formatter=_Help)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what a user did wrong into CommandError; keep the log of every row's move silent."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(max(level, logging.WARNING))
    try:
        yield
    except BatchError as error:
        raise CommandError(plain_lines(str(error)), returncode=USAGE) from error
    except DomainError as error:
        raise CommandError(plain_lines(word(error))) from error
    except BrokenPipeError as error:
        # `manage.py tasks list | head`: nobody reads any more, and Python would complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from error
    except KeyboardInterrupt as error:
        raise CommandError("Stopped.", returncode=INTERRUPTED) from error
    finally:
        root.setLevel(level)


def user_named(email: str, *, for_work: bool = False) -> User:
    """Raises CommandError if there is none, or none that may work here."""
    user = User.objects.filter(email__iexact=email.strip()).first()
    if user is None:
        raise CommandError(f"There is no user {email}.", returncode=USAGE)
    if for_work and not user.is_active:
        raise CommandError(f"{email} is deactivated.", returncode=USAGE)
    return user


def confirm(question: str, options: dict[str, Any]) -> None:
    """Go on if `--yes` is given or a person says so. Raises CommandError otherwise."""
    if options["yes"]:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Say --yes; nobody is here to ask.", returncode=USAGE)
    if input(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing was changed.")
