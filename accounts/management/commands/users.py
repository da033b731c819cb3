"""`manage.py users`: people, their rights and what they may use."""

import getpass
import json
import sys
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, Q

from accounts import services
from accounts.access_tokens import token_revoke, tokens_usable
from accounts.models import User
from accounts.system import people
from webprofile.management.bulk import explain_command, plain_errors, user_named
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from workers.grants import grants_add, grants_remove

FIELDS = ("e-mail", "role", "active", "joined", "last login", "private devices")
LONGEST_PASSWORD = 4096


_EXAMPLES = {
    "list": "users list --administrators",
    "create": "users create you@example.com < password.txt",
    "promote": "users promote you@example.com",
    "set-password": "users set-password you@example.com",
    "grant": "users grant you@example.com x86-1 pi-4",
    "revoke-grant": "users revoke-grant you@example.com pi-4",
    "revoke-token": "users revoke-token you@example.com mwp_aB3dE9",
}


class Command(BaseCommand):
    """Every change is noted in the audit log, without a name: it came from the server itself."""

    help = (
        "List, create, promote, demote, deactivate users; set passwords; remove second factors; "
        "grant devices; revoke access tokens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, *_EXAMPLES.values())
        subparsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        verbs = {}
        for verb, text in _TEXTS.items():
            verbs[verb] = added = subparsers.add_parser(verb, help=text)
            example = _EXAMPLES.get(verb, f"users {verb} you@example.com")
            explain_command(added, example, text=text)
            if verb != "list":
                many = "+" if verb in _ACTS else None
                added.add_argument("email", metavar="E-MAIL", nargs=many)
        add = verbs["list"].add_argument
        add("--match", metavar="TEXT", help="a part of the e-mail")
        add("--administrators", action="store_true", help="these alone")
        add("--json", action="store_true", help="one JSON object a line")
        text = "with every right"
        verbs["create"].add_argument("--administrator", action="store_true", help=text)
        for verb in ("grant", "revoke-grant"):
            verbs[verb].add_argument("workers", nargs="+", metavar="DEVICE")
        text = "its first characters, as the page of the user shows them"
        verbs["revoke-token"].add_argument("prefix", metavar="TOKEN", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        verb = options["verb"]
        with plain_errors():
            if verb == "list":
                self._list(options)
            elif verb in _ACTS:
                self._act(_ACTS[verb][1], options["email"])
            elif verb == "create":
                user = services.user_create(
                    email=options["email"],
                    password=_password(),
                    by=None,
                    administrator=options["administrator"],
                )
                self.stdout.write(f"{user.email} created")
            elif verb == "set-password":
                user = user_named(options["email"])
                services.user_set_password(user, password=_password(), by=None)
                self.stdout.write(f"{user.email} has a new password")
            elif verb == "revoke-token":
                self._revoke_token(user_named(options["email"]), options["prefix"])
            else:
                change = grants_add if verb == "grant" else grants_remove
                count = change(users=[options["email"]], workers=options["workers"], by=None)
                self.stdout.write(f"{count} grants changed")

    def _act(self, act: Callable[[User], bool], emails: list[str]) -> None:
        for user in [user_named(email) for email in emails]:
            done = "done" if act(user) else "was so before"
            self.stdout.write(f"{user.email} {done}")

    def _revoke_token(self, user: User, prefix: str) -> None:
        tokens = list(tokens_usable(user).filter(prefix=prefix.rstrip("…")))
        if not tokens:
            raise CommandError(f"{user.email} has no access token {prefix}.", returncode=USAGE)
        for token in tokens:
            token_revoke(token, by=None)
            self.stdout.write(f"{token.name} revoked")

    def _list(self, options: dict[str, Any]) -> None:
        users = people().order_by("email").annotate(private=Count("grants"))
        if options["match"]:
            users = users.filter(email__icontains=options["match"])
        if options["administrators"]:
            users = users.filter(Q(is_staff=True) | Q(is_superuser=True))
        rows = (_row(user) for user in users.iterator())
        if options["json"]:
            for row in rows:
                self.stdout.write(json.dumps(row))
        else:
            shown = [list(row.values()) for row in rows]
            self.stdout.write(table(shown, FIELDS))


_ACTS: dict[str, tuple[str, Callable[[User], bool]]] = {
    "promote": ("make administrators", lambda user: services.user_promote(user, by=None)),
    "demote": ("make plain users", lambda user: services.user_demote(user, by=None)),
    "deactivate": ("shut out", lambda user: services.user_deactivate(user, by=None)),
    "remove-second-factor": (
        "remove it for those who lost it; sessions and access tokens made before it end",
        lambda user: services.user_remove_second_factor(user, by=None),
    ),
    "reactivate": ("let in again", lambda user: services.user_reactivate(user, by=None)),
}


_TEXTS = {
    "list": "print users",
    "create": "register a user; the password is asked for",
    **{verb: text for verb, (text, _) in _ACTS.items()},
    "set-password": "set another password; sessions and access tokens made before it end",
    "grant": "let a user choose private devices",
    "revoke-grant": "take private devices back",
    "revoke-token": "revoke an access token at once",
}


def _row(user: Any) -> dict[str, Any]:
    values = (
        user.email,
        "administrator" if user.is_staff else "user",
        user.is_active,
        user.date_joined.isoformat(timespec="seconds"),
        user.last_login.isoformat(timespec="seconds") if user.last_login else "",
        user.private,
    )
    return dict(zip(FIELDS, values, strict=True))


def _password() -> str:
    """Typed twice at a terminal, or the first line of standard input.

    Never an argument: those stand in the list of processes and in the shell's history.
    """
    if sys.stdin.isatty():
        first = getpass.getpass("Password: ")
        if first != getpass.getpass("Once more: "):
            raise CommandError("They differ.", returncode=USAGE)
        return first
    found = sys.stdin.readline(LONGEST_PASSWORD).rstrip("\r\n")
    if not found:
        raise CommandError("No password on standard input.", returncode=USAGE)
    return found
