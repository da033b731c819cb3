"""The agent's command line: enrol, run, doctor, tune, runtime, options.

Exit codes: 0 success, 1 a problem on this device, 2 the server refused the agent, 75 the agent has
replaced its own file and must be restarted.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from agent import __version__
from agent.config import ConfigError, RuntimeEntry, load_config
from agent.daemon import serve
from agent.doctor import report_health
from agent.enrol import EnrolError, enrol_device
from agent.execution.spool import SpoolBusy
from agent.install.launch import REPLACED
from agent.install.update import Replaced
from agent.link.session import SessionRefused
from agent.logs import start_logging
from agent.protocol.options import describe
from agent.runtimes.describe import describe_binary, describe_wheel
from agent.runtimes.install import find_wheels
from agent.runtimes.manage import runtime_add, runtime_check, runtime_list
from agent.tune import tune

_NO_RUNTIME = """\
The device has no runtime yet, so it cannot run tasks. Add one to {config}:
  [[runtime]]
  version = "1.13.0"
  kind = "wheel"
  path = "..."   # an interpreter with MegEngine; `python -m agent.runtimes ensure` creates one"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments and run a command; return its exit code."""
    namespace = _parser().parse_args(arguments)
    code: int = namespace.command(namespace)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agent", description="Runs MegEngine's load_and_run on this device for a server."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_enrol(commands.add_parser("enrol", help="connect this device to a server, once"))
    run = commands.add_parser("run", help="run the agent until it is stopped")
    run.add_argument("--verbose", action="store_true", help="log more details")
    run.set_defaults(command=_run)
    doctor = commands.add_parser("doctor", help="check the agent's requirements")
    doctor.set_defaults(command=lambda namespace: report_health(namespace.config))
    tuning = commands.add_parser(
        "tune", help="adjust kernel settings for measuring, until --restore or a reboot"
    )
    tuning.add_argument("--restore", action="store_true", help="restore the previous settings")
    tuning.set_defaults(command=lambda namespace: tune(namespace.config, restore=namespace.restore))
    _add_runtime(commands.add_parser("runtime", help="manage this device's MegEngine versions"))
    for name in ("enrol", "run", "doctor", "tune"):
        _add_config(commands.choices[name])
    options = commands.add_parser(
        "options", help="list load_and_run's options that this agent supports"
    )
    options.add_argument("--json", action="store_true", help="print the complete table as JSON")
    options.set_defaults(command=_options)
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=Path("agent.toml"), metavar="FILE")


def _add_runtime(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add = commands.add_parser("add", help="install a MegEngine version, or register a compiled one")
    add.add_argument("version", help="such as 1.13.0")
    add.add_argument("--python", metavar="PATH", help="install for this interpreter")
    add.add_argument("--binary", metavar="PATH", help="a load_and_run built on this device")
    add.set_defaults(
        command=lambda namespace: runtime_add(
            namespace.config, namespace.version, namespace.python, namespace.binary
        )
    )
    listing = commands.add_parser("list", help="list the configured runtimes and their state")
    listing.set_defaults(command=lambda namespace: runtime_list(namespace.config))
    check = commands.add_parser("check", help="run a small model and measure the peak performance")
    check.add_argument("version", nargs="?", help="check only this version")
    check.add_argument("--quick", action="store_true", help="do not measure the peak performance")
    check.add_argument(
        "--missing", action="store_true", help="check only versions that were never measured"
    )
    check.set_defaults(
        command=lambda namespace: runtime_check(
            namespace.config,
            namespace.version,
            limits=not namespace.quick,
            missing=namespace.missing,
        )
    )
    for command in (add, listing, check):
        _add_config(command)


def _add_enrol(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", required=True, metavar="URL")
    parser.add_argument("--code", required=True, help="the one-time code from the device's page")
    parser.add_argument(
        "--spool", default="spool", help="folder for attempts (default: next to the configuration)"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="enrol again; an existing configuration for this server is kept",
    )
    parser.add_argument(
        "--runtime-python",
        action="append",
        default=[],
        metavar="PATH",
        help="an interpreter with MegEngine; can be repeated",
    )
    parser.add_argument(
        "--runtime-binary",
        action="append",
        default=[],
        metavar="PATH",
        help="a load_and_run built on this device; can be repeated",
    )
    parser.add_argument(
        "--find-runtimes",
        action="store_true",
        help="find and add the interpreters with MegEngine on this device",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="allow the agent to update itself to the version of the server",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print the next step")
    parser.set_defaults(command=_enrol)


def _enrol(namespace: argparse.Namespace) -> int:
    try:
        runtimes = _describe(
            namespace.runtime_python, namespace.runtime_binary, namespace.find_runtimes
        )
        enrolled = enrol_device(
            namespace.server,
            namespace.code,
            namespace.config,
            spool=namespace.spool,
            runtimes=runtimes,
            force=namespace.force,
            update=namespace.update,
        )
    except (EnrolError, ConfigError) as exc:
        return _fail(exc, 1)
    print(f"This device is enrolled as {enrolled.worker!r}.")
    if enrolled.is_kept:
        print(f"The configuration {namespace.config} was kept.")
    else:
        for entry in runtimes:
            print(f"MegEngine {entry.version}: {entry.path}")
    if not namespace.quiet:
        if not runtimes and not enrolled.is_kept:
            print(_NO_RUNTIME.format(config=namespace.config))
        print(f"Next: python -m agent run --config {namespace.config}")
    return 0


def _describe(
    pythons: Sequence[str], binaries: Sequence[str], find: bool
) -> tuple[RuntimeEntry, ...]:
    """Describe the given runtimes. Raises EnrolError if one does not work.

    If `find` is true, add wheels on this device that have other versions.
    """
    entries = []
    runtimes = [describe_wheel(path) for path in pythons]
    runtimes += [describe_binary(path) for path in binaries]
    versions = {runtime.version for runtime in runtimes}
    if find:
        runtimes += [wheel for wheel in find_wheels() if wheel.version not in versions]
    for runtime in runtimes:
        if runtime.problem or not runtime.version:
            problem = runtime.problem or "its version is unknown"
            raise EnrolError(f"{runtime.path}: {problem}")
        # keep symbolic links: the interpreter of a virtual environment works only by its link
        path = str(Path(runtime.path).absolute())
        entries.append(RuntimeEntry(version=runtime.version, kind=runtime.kind, path=path))
    return tuple(entries)


def _run(namespace: argparse.Namespace) -> int:
    start_logging(verbose=namespace.verbose)
    try:
        asyncio.run(serve(load_config(namespace.config)))
    except Replaced:
        return REPLACED
    except SessionRefused as exc:
        return _fail(exc, 2)
    except (ConfigError, SpoolBusy, OSError) as exc:
        return _fail(exc, 1)
    return 0


def _options(namespace: argparse.Namespace) -> int:
    rows = describe()
    if namespace.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        default = json.dumps(row["default"])
        runs_on = "wheel, binary" if row["wheel"] else "binary"
        print(f"--{row['name']:36}{row['type']:8}{default:>22}  {row['group']:17}{runs_on}")
    return 0


def _fail(error: Exception, code: int) -> int:
    print(f"agent: {error}", file=sys.stderr)
    return code
