"""Commands `login` and `logout`."""

import argparse
import getpass
import os
import sys
from dataclasses import replace

from webprofile.client.access_tokens import USUAL_DAYS, new_token, revoke
from webprofile.client.api import Api
from webprofile.client.commands import Parsers, added
from webprofile.client.errors import ProblemError, UnreachableError, UsageError
from webprofile.client.login_file import (
    Login,
    is_open_to_listeners,
    login_forget,
    login_path,
    login_read,
    login_write,
    site_checked,
    token_checked,
)
from webprofile.terminal.arguments import count
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED

LONGEST_TOKEN = 4096


def add_parsers(commands: Parsers) -> None:
    login = added(
        commands,
        "login",
        "log in to a site and store an access token in a file that only you can read",
        "https://profile.example.com --email you@example.com",
        "https://profile.example.com --token-stdin < token.txt",
        notes="The command prompts for passwords, codes and tokens. As arguments, they would be "
        "visible\nin the process list and in the shell's history.",
    )
    login.add_argument("site", nargs="?", help="such as https://profile.example.com")
    login.add_argument("--email", help="log in with password and code, and create a token")
    login.add_argument(
        "--token-stdin",
        action="store_true",
        help="read an access token from standard input, without prompts",
    )
    login.add_argument(
        "--days",
        type=count,
        default=USUAL_DAYS,
        help="lifetime of a new token in days; default: 90",
    )
    login.set_defaults(command=log_in)
    logout = added(
        commands, "logout", "revoke the token on the site and delete it on this computer", ""
    )
    logout.set_defaults(command=log_out)


def log_in(args: argparse.Namespace) -> int:
    site = site_checked(args.site or _prompt("Site: "))
    if is_open_to_listeners(site):
        print("Without https, the password and the token are sent unencrypted.", file=sys.stderr)
    if args.token_stdin:
        login = _with_token(site, sys.stdin.readline(LONGEST_TOKEN))
    elif args.email:
        login = _with_password(site, args.email, args.days)
    else:
        token = _secret("Access token (empty: log in with e-mail and password): ")
        if token:
            login = _with_token(site, token)
        else:
            login = _with_password(site, _prompt("E-mail: "), args.days)
    path = login_write(login, os.environ)
    print(f"Logged in to {site} as {login.email}; the token is in {path}", file=sys.stderr)
    return SUCCEEDED


def log_out(args: argparse.Namespace) -> int:
    """Revoke the token and delete the login file, even if the token cannot be revoked."""
    if not login_path(os.environ).exists():
        print("Not logged in.", file=sys.stderr)
        return FAILED
    try:
        login = login_read({**os.environ, "WEBPROFILE_SITE": "", "WEBPROFILE_TOKEN": ""})
        with Api(login) as api:
            revoke(api)
    except (ProblemError, UnreachableError) as error:
        if getattr(error, "status", 0) not in {401, 404}:  # it had ended before
            print(
                f"The token was deleted on this computer, but not revoked: {error}", file=sys.stderr
            )
            return error.exit_code
    finally:
        login_forget(os.environ)
    print("Logged out.", file=sys.stderr)
    return SUCCEEDED


def _with_token(site: str, token: str) -> Login:
    login = Login(site, token_checked(token))
    with Api(login) as api:
        return replace(login, email=str(api.get("me/")["email"]))


def _with_password(site: str, email: str, days: int) -> Login:
    token = new_token(
        site,
        email,
        _secret("Password: "),
        lambda: _prompt("Code of the authenticator app: "),
        days=days,
    )
    return Login(site, token, email)


def _prompt(question: str) -> str:
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal for prompts: give the site and use --token-stdin.")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def _secret(question: str) -> str:
    """Read a secret from the terminal without echo, or one line of stdin."""
    if sys.stdin.isatty():
        return getpass.getpass(question)
    return sys.stdin.readline(LONGEST_TOKEN).rstrip("\r\n")
