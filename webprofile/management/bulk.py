"""Shared code of management commands: help, error messages, confirmation and quiet logs."""

import argparse
import logging
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, DjangoHelpFormatter

from accounts.models import User, canonical_email
from accounts.selectors import human_users
from webprofile.client.batchfile import BatchError
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.terminal.arguments import explain
from webprofile.terminal.exit_codes import FAILED, INTERRUPTED, USAGE
from webprofile.terminal.output import plain_lines


class _Help(DjangoHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help with Django's own arguments last and example lines unwrapped."""


def explain_command(
    parser: argparse.ArgumentParser, *examples: str, notes: str = "", text: str = ""
) -> None:
    """Add examples to the end of `--help`, each with `manage.py` in front.

    text: what the subcommand does, without capital letter and full stop
    """
    if text:
        parser.description = text[0].upper() + text[1:] + "."
    lines = (f"manage.py {example}" for example in examples)
    explain(parser, *lines, notes=notes, formatter=_Help)


class PlainCommand(BaseCommand):
    """A command that reports expected errors in a line, without log lines below WARNING.

    It starts without system checks, which import all pages and need settings of storage.
    """

    requires_system_checks: list[str] = []

    def execute(self, *args: Any, **options: Any) -> str | None:
        root = logging.getLogger()
        level = root.level
        root.setLevel(max(level, logging.WARNING))
        try:
            return super().execute(*args, **options)
        except BatchError as error:
            raise CommandError(plain_lines(str(error)), returncode=USAGE) from error
        except DomainError as error:
            # an error of a field is a mistake in the arguments
            code = USAGE if error.field else FAILED
            raise CommandError(plain_lines(word(error)), returncode=code) from error
        except BrokenPipeError as error:
            # `manage.py tasks list | head` closes stdout; Python would print an error at its exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from error
        except KeyboardInterrupt as error:
            raise CommandError("Stopped.", returncode=INTERRUPTED) from error
        finally:
            root.setLevel(level)


def user_named(email: str, *, for_work: bool = False) -> User:
    """Return the user with an e-mail address.

    for_work: also require that the user is active

    Raises CommandError if there is no such user, or if the user is inactive and `for_work` is set.
    """
    user = human_users().filter(email__iexact=canonical_email(email)).first()
    if user is None:
        raise CommandError(f"User {email} does not exist.", returncode=USAGE)
    if for_work and not user.is_active:
        raise CommandError(f"{email} is deactivated.", returncode=USAGE)
    return user


def confirm(question: str, options: dict[str, Any]) -> None:
    """Return if `--yes` is given or the user confirms; raise CommandError otherwise."""
    if options["yes"]:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Use --yes to confirm without a terminal.", returncode=USAGE)
    if input(f"{question} [y/N] ").strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing was changed.")
