"""`python -m agent.runtimes ensure`: create the MegEngine runtime and print its interpreter's path.

Progress goes to stderr; the last line of stdout is the path. Exit codes: 0 for success, 1 if the
installation failed, 2 for a wrong command line, 3 if there is no Python that MegEngine supports.
"""

import argparse
import sys

from agent.runtimes.install import VERSION, InstallFailed, NoPython, ensure_wheel_runtime

FAILED = 1
NO_PYTHON = 3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agent.runtimes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    ensure = commands.add_parser("ensure", help="create the MegEngine runtime if it is missing")
    ensure.add_argument("--version", default=VERSION, help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        python = ensure_wheel_runtime(options.version, say=_say)
    except NoPython as problem:
        _say(str(problem))
        return NO_PYTHON
    except InstallFailed as problem:
        _say(str(problem))
        return FAILED
    sys.stdout.write(f"{python}\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
