"""Command line of `python -m webprofile.operations.devserver`: `run`, `demo` or `manage ...`."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from webprofile.integers import parse_int
from webprofile.operations.devserver.layout import REPOSITORY, open_home
from webprofile.operations.devserver.lock import HomeInUseError, HomeLock
from webprofile.operations.devserver.site import manage, run_site
from webprofile.operations.devserver.supervisor import PartError
from webprofile.terminal.output import complain


def main() -> int:
    # files below the home folder are readable only by their owner
    os.umask(0o077)
    try:
        return _main()
    except PermissionError as error:
        # after a start with sudo, the folder belongs to root
        complain(
            f"Permission denied: {error.filename}. Start the site as the owner of this file, "
            "or set MGW_HOME to another folder."
        )
        return 1


def _main() -> int:
    layout = open_home(Path(os.environ.get("MGW_HOME") or REPOSITORY / "var"))
    if sys.argv[1:2] == ["manage"]:
        return manage(layout, sys.argv[2:])
    options = _parse()
    try:
        lock = HomeLock(layout.lock)
    except HomeInUseError as error:
        complain(f"{error} Stop it first with Ctrl-C, or set MGW_HOME to another folder.")
        return 1
    try:
        return asyncio.run(run_site(layout, lock, options))
    except (PartError, FileNotFoundError) as error:
        complain(str(error))
        return 1
    finally:
        lock.release()


def _port(text: str) -> int:
    port = parse_int(text, maximum=65535)
    if not port:
        raise argparse.ArgumentTypeError(f"{text} is not a port from 1 to 65535")
    return port


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m webprofile.operations.devserver", description=__doc__
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the site until Ctrl-C")
    demo = commands.add_parser("demo", help="run the site, and profile a sample model as a user")
    demo.add_argument("--once", action="store_true", help="stop the site after the demo")
    for command in (run, demo):
        command.add_argument(
            "--port", type=_port, help="port of the site (default: 8000, or another one if in use)"
        )
    run.set_defaults(once=False)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
