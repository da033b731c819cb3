"""Command `wait`: wait until tasks have ended. It keeps no state and can be repeated."""

import argparse
import sys

from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.waiting import code_of, summary_of
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import HELP
from webprofile.terminal.output import print_json


def add_parsers(commands: Parsers) -> None:
    wait = added(
        commands,
        "wait",
        "wait until tasks have ended; can be interrupted with Ctrl-C and repeated",
        "12 13 14",
        "12 --timeout 600 --json",
        notes=HELP,
    )
    wait.add_argument("tasks", nargs="+", type=int, metavar="TASK", help="numbers of tasks")
    wait.add_argument("--timeout", type=seconds, metavar="S", help="maximum waiting time")
    wait.add_argument("--json", action="store_true", help="print the tasks as JSON")
    wait.set_defaults(command=wait_for)


def wait_for(args: argparse.Namespace) -> int:
    with open_site() as site:
        tasks = site.wait(args.tasks, timeout_s=args.timeout)
    if args.json:
        print_json(list(tasks.values()))
    print(summary_of(tasks.values()), file=sys.stderr)
    return code_of(tasks.values())
