"""`manage.py users`: list and change users, their roles, passwords, grants and access tokens."""

import getpass
import json
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import Count, Q

from accounts import services
from accounts.models import User
from accounts.selectors import human_users
from accounts.tokens.access import revoke_token, usable_tokens
from webprofile.admin.user_actions import USER_ACTIONS
from webprofile.management.actions import add_action_verbs, run_action
from webprofile.management.bulk import PlainCommand, explain_command, user_named
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from workers.grants import add_grants, remove_grants

FIELDS = ("e-mail", "role", "active", "joined", "last login", "private devices")
LONGEST_PASSWORD = 4096
_TEXTS = {
    "list": "print users",
    "create": "register a user; prompts for the password",
    "set-password": "set a password; ends all sessions and revokes access tokens",
    "grant": "grant private devices to a user",
    "revoke-grant": "revoke private devices",
    "revoke-token": "revoke an access token immediately",
}
_EXAMPLES = {
    "list": "users list --administrators",
    "create": "users create you@example.com < password.txt",
    "set-password": "users set-password you@example.com",
    "grant": "users grant you@example.com x86-1 pi-4",
    "revoke-grant": "users revoke-grant you@example.com pi-4",
    "revoke-token": "users revoke-token you@example.com mwp_aB3dE9",
}


class Command(PlainCommand):
    """Changes are audited without an actor, because the command runs on the server."""

    help = (
        "List, create, promote, demote, deactivate users; set passwords; remove second factors; "
        "end sessions; grant devices; revoke access tokens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, *_EXAMPLES.values())
        subparsers = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        verbs = {}
        for verb, text in _TEXTS.items():
            verbs[verb] = subparser = subparsers.add_parser(verb, help=text)
            explain_command(subparser, _EXAMPLES[verb], text=text)
            if verb != "list":
                subparser.add_argument("email", metavar="E-MAIL")
        example = "users {verb} you@example.com"
        self.actions = add_action_verbs(subparsers, USER_ACTIONS, metavar="E-MAIL", example=example)
        add = verbs["list"].add_argument
        add("--match", metavar="TEXT", help="part of the e-mail address")
        add("--administrators", action="store_true", help="only administrators")
        add("--json", action="store_true", help="one JSON object per line")
        text = "grant all permissions"
        verbs["create"].add_argument("--administrator", action="store_true", help=text)
        for verb in ("grant", "revoke-grant"):
            verbs[verb].add_argument("workers", nargs="+", metavar="DEVICE")
        text = "first characters of the token, as shown on the page of the user"
        verbs["revoke-token"].add_argument("prefix", metavar="TOKEN", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        verb = options["verb"]
        if verb == "list":
            self._list(options)
        elif verb in self.actions:
            users = [user_named(email) for email in options["names"]]
            run_action(self.actions[verb], users, self.stdout)
        elif verb == "create":
            user = services.create_account(
                email=options["email"],
                password=_password(),
                by=None,
                administrator=options["administrator"],
            )
            self.stdout.write(f"{user.email} created")
        elif verb == "set-password":
            user = user_named(options["email"])
            services.set_user_password(user, password=_password(), by=None)
            self.stdout.write(f"{user.email} has a new password")
        elif verb == "revoke-token":
            self._revoke_token(user_named(options["email"]), options["prefix"])
        else:
            change = add_grants if verb == "grant" else remove_grants
            count = change(users=[options["email"]], workers=options["workers"], by=None)
            self.stdout.write(f"{count} grants changed")

    def _revoke_token(self, user: User, prefix: str) -> None:
        tokens = list(usable_tokens(user).filter(prefix=prefix.rstrip("…")))
        if not tokens:
            raise CommandError(f"{user.email} has no access token {prefix}.", returncode=USAGE)
        for token in tokens:
            revoke_token(token, by=None)
            self.stdout.write(f"{token.name} revoked")

    def _list(self, options: dict[str, Any]) -> None:
        users = human_users().order_by("email").annotate(private=Count("grants"))
        if options["match"]:
            users = users.filter(email__icontains=options["match"])
        if options["administrators"]:
            users = users.filter(Q(is_staff=True) | Q(is_superuser=True))
        rows = (_row(user) for user in users.iterator())
        if options["json"]:
            for row in rows:
                self.stdout.write(json.dumps(row))
        else:
            self.stdout.write(table([list(row.values()) for row in rows], FIELDS))


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
    """Read a password twice from the terminal, or once from the first line of standard input.

    Command-line arguments would appear in the list of processes and in the shell's history.
    """
    if sys.stdin.isatty():
        first = getpass.getpass("Password: ")
        if first != getpass.getpass("Repeat the password: "):
            raise CommandError("The passwords differ.", returncode=USAGE)
        return first
    password = sys.stdin.readline(LONGEST_PASSWORD).rstrip("\r\n")
    if not password:
        raise CommandError("No password on standard input.", returncode=USAGE)
    return password
