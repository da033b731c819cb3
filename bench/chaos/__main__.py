"""Command line: `python -m bench.chaos [--faults N] [--seed S]`; `make chaos` calls it."""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from agent.conftest import find_megengine_python
from bench.chaos.clocks import ClockError
from bench.chaos.disks import DiskError
from bench.chaos.report import log_line, quiet, show
from bench.chaos.run import ChaosOptions, run
from webprofile.operations.devserver.layout import open_home
from webprofile.operations.devserver.lock import HomeLock
from webprofile.operations.devserver.supervisor import PartError
from webprofile.terminal.output import complain

#: environment variable that marks the process inside its own mount namespace
_MARK = "MGW_CHAOS_MOUNTS"


def main() -> int:
    options = _parse()
    if _MARK not in os.environ:
        return _restart_in_mount_namespace()
    os.umask(0o077)
    folder = options.home or Path(tempfile.mkdtemp(prefix="mgw-chaos-"))
    layout = open_home(folder)
    lock = HomeLock(layout.lock)
    log_line(f"seed={options.seed} faults={options.faults}; everything is in {layout.home}")
    try:
        with quiet(layout.home / "supervisor.txt"):
            verdict = asyncio.run(run(layout, lock, find_megengine_python(), options))
    except (PartError, DiskError, ClockError) as error:
        complain(f"The world could not be brought up. {error}")
        return 1
    finally:
        lock.release()
    show(verdict)
    if options.home is None and verdict.holds:
        shutil.rmtree(layout.home, ignore_errors=True)
    return 0 if verdict.holds else 1


def _restart_in_mount_namespace() -> int:
    """Replace this process by one in a private mount namespace.

    Its mounts are invisible to other processes and vanish with it. Returns 1 without unshare(1).
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        complain("Disks that run full need unshare(1), and it is not here (util-linux).")
        return 1
    ways = ["--mount"] if os.geteuid() == 0 else ["--map-root-user", "--mount"]
    os.environ[_MARK] = "1"
    os.execv(unshare, [unshare, *ways, sys.executable, "-m", "bench.chaos", *sys.argv[1:]])


def _parse() -> ChaosOptions:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    add = parser.add_argument
    add("--faults", type=int, default=60, metavar="N", help="how many (60)")
    add("--seed", type=int, default=None, metavar="S", help="of everything; drawn if not given")
    add("--tasks", type=int, default=12, metavar="N", help="how many live at the same time (12)")
    add("--only", default="", metavar="KIND,...", help="faults of these kinds alone")
    add("--home", type=Path, default=None, help="where everything lies, and stays (temporary)")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1_000_000)
        sys.argv += ["--seed", str(args.seed)]
    only = frozenset(filter(None, args.only.split(",")))
    return ChaosOptions(args.faults, args.seed, args.tasks, only, args.home)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
