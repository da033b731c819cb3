"""`python -m agent.install`: build the agent's files that the site serves to devices.

Exit codes: 0 success, 1 the build failed.
"""

import argparse
import os
import platform
import sys
from pathlib import Path

from agent.install.build import MACHINES, BuildFailed, build
from agent.runtimes.install import user_cache


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="agent.install", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("var/agent-files"), metavar="FOLDER")
    parser.add_argument(
        "--machine",
        action="append",
        choices=[*MACHINES, "this"],
        help="processor architecture; can be repeated (default: all)",
    )
    options = parser.parse_args(arguments)
    os.nice(10)  # a site may be starting at the same time
    machines = [platform.machine() if name == "this" else name for name in options.machine or ()]
    try:
        manifest = build(options.out, user_cache() / "bundle", machines or MACHINES, say=_say)
    except (BuildFailed, OSError) as problem:
        _say(f"agent.install: {problem}")
        return 1
    _say(f"agent {manifest['version']}: {len(manifest['files'])} files in {options.out}")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
