"""Entry point of the `webprofile` command. Results go to stdout, messages to stderr."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from webprofile.client.batchfile import BatchError
from webprofile.client.commands import (
    accounts,
    acting,
    comparing,
    exporting,
    listing,
    pairing,
    showing,
    submitting,
    waiting,
)
from webprofile.client.errors import ClientError, ProblemError
from webprofile.client.login_file import SITE_VARIABLE, TOKEN_VARIABLE
from webprofile.client.version import __version__
from webprofile.terminal.arguments import explain
from webprofile.terminal.exit_codes import CLOSED, FAILED, HELP, INTERRUPTED, USAGE
from webprofile.terminal.output import plain_lines

Command = Callable[[argparse.Namespace], int]
_ENVIRONMENT = f"environment: {SITE_VARIABLE} and {TOKEN_VARIABLE} instead of a login (for CI)"


#: error codes of the site for an invalid token
_NO_TOKEN = ("not_authenticated", "token_invalid")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code (`webprofile.terminal.exit_codes`)."""
    args = _parser().parse_args(arguments)
    command: Command = args.command
    try:
        code = command(args)
        # buffered output fails here, where the error can be reported
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `webprofile list | head` closes stdout; Python would print an error at its exit
        _silence()
        return CLOSED
    except (BatchError, ClientError, OSError, UnicodeEncodeError) as error:
        print(f"webprofile: {plain_lines(_message(error))}", file=sys.stderr)
        if isinstance(error, OSError):
            _silence()
        return _code_of(error)
    return code


def _message(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "the arguments are not valid UTF-8"
    if isinstance(error, OSError):
        return f"the output could not be written: {error.strerror or error}"
    if isinstance(error, ProblemError) and error.code in _NO_TOKEN:
        return f"{error}\nRun webprofile login again; in CI, create a new token."
    return str(error)


def _code_of(error: Exception) -> int:
    if isinstance(error, ClientError):
        return error.exit_code
    return FAILED if isinstance(error, OSError) else USAGE


def _silence() -> None:
    """Redirect stdout to /dev/null, so that flushing its buffer cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="webprofile",
        description="MegEngine Web Profile from the command line.",
    )
    explain(
        parser,
        "webprofile login https://profile.example.com --email you@example.com",
        "webprofile submit -m resnet18.mge -w x86-1 --plan standard",
        "webprofile submit nightly.toml --no-wait --key nightly-$(date +%F)",
        "webprofile compare 12 17 --fail-above 5",
        "webprofile ab old.mge new.mge -w x86-1",
        notes=f"{HELP}\n\n{_ENVIRONMENT}\nwebprofile COMMAND --help shows the options of a command",
    )
    parser.add_argument("--version", action="version", version=f"webprofile {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    modules = (
        accounts, listing, acting, submitting, waiting, showing, comparing, pairing, exporting
    )  # fmt: skip
    for module in modules:
        module.add_parsers(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
