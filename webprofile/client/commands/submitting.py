"""Command `submit`: create many tasks from a file or from arguments."""

import argparse
import sys
import uuid
from collections.abc import Mapping, Sequence

from webprofile.client.answers import Task
from webprofile.client.batchfile.arguments import (
    FORMAT_HELP,
    add_batch_arguments,
    blocks_from_arguments,
)
from webprofile.client.batchfile.matrix import MATRIX_HEADERS, Cell, room_words
from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.submission import check_cells, prepared, submit_cells
from webprofile.client.waiting import (
    MOST_NAMED,
    code_of,
    deadline_of,
    summary_of,
    wait_until_ended,
)
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import FAILED, HELP, SUCCEEDED
from webprofile.terminal.output import print_json, print_table


def add_parsers(commands: Parsers) -> None:
    submit = added(
        commands,
        "submit",
        "submit tasks (models x devices x versions x option sets x repeats) and wait for them",
        "-m resnet18.mge -w x86-1 -d data=cat.npy -p standard -r 3",
        '-s train.py --arguments "--epochs 1" --format timeline -w x86-1',
        "-m resnet18.mge -w x86-1 --reuse",
        "nightly.toml --dry-run",
        "nightly.toml --no-wait --key nightly-$(date +%F)",
        notes=f"{FORMAT_HELP}\n\n{HELP}",
    )
    add_batch_arguments(submit)
    add = submit.add_argument
    add(
        "--reuse",
        action="store_true",
        help="if you have a result for the same files, options, plan, device and version, use it "
        "instead of creating a task",
    )
    add("--dry-run", action="store_true", help="only check everything and print the matrix")
    add("--wait", action=argparse.BooleanOptionalAction, default=True, help="wait for the results")
    add("--timeout", type=seconds, metavar="S", help="maximum waiting time")
    add("--key", metavar="NAME", help="name of this run; a repetition with the same name within a "
        "day continues an interrupted run and creates nothing twice")  # fmt: skip
    add("--json", action="store_true", help="print the tasks as JSON")
    submit.set_defaults(command=submit_batch)


def submit_batch(args: argparse.Namespace) -> int:
    key = args.key or uuid.uuid4().hex
    blocks = blocks_from_arguments(args)
    with open_site() as site:
        run, cells = prepared(site.api, blocks, key, deadline_of(args.timeout))
        if args.reuse:
            run.reused = {}
        quota = check_cells(run, cells)
        if args.dry_run:
            _print_matrix(cells, as_json=args.json)
            return _print_quota(len(cells), quota, waits=args.wait)
        # with a limit of 0 no task of the user ever ends
        rows = submit_cells(run, cells, may_wait=args.wait and quota.get("limit") != 0)
        names = {
            row["task"]: cell.name for row, cell in zip(rows, cells, strict=True) if row["task"]
        }
        ended_tasks = (
            wait_until_ended(site.api, list(names), run.deadline, names) if args.wait else {}
        )
    for row in rows:
        if task := ended_tasks.get(row["task"]):
            row.update(status=task["status"], reason=task.get("reason"))
    if args.json:
        print_json(rows)
    elif not args.wait:
        print(" ".join(map(str, names)))
    # several rows may use one earlier result
    refused = sum(row["task"] is None for row in rows)
    _print_summary(list(names), ended_tasks, refused=refused, waited=args.wait)
    return FAILED if refused else code_of(ended_tasks.values())


def _print_summary(
    tasks: Sequence[int], ended_tasks: Mapping[int, Task], *, refused: int, waited: bool
) -> None:
    """Print the summary to stderr, since programs read stdout."""
    if waited:
        print(summary_of(ended_tasks.values(), refused=refused), file=sys.stderr)
    else:
        text = f"{len(tasks)} submitted" + (f", {refused} refused" if refused else "")
        print(text, file=sys.stderr)
    if waited and 1 < len(tasks) <= MOST_NAMED:
        numbers = " ".join(map(str, tasks))
        print(f"As one table: webprofile export --table {numbers}", file=sys.stderr)


def _print_quota(tasks: int, quota: Mapping[str, int], *, waits: bool) -> int:
    """Print whether the user's limit of live tasks allows `tasks` more; return the exit code."""
    if not quota:  # no task was checked
        return SUCCEEDED
    text, fits = room_words(tasks, live=quota["live"], limit=quota["limit"], waits=waits)
    print(text, file=sys.stderr)
    return SUCCEEDED if fits else FAILED


def _print_matrix(cells: Sequence[Cell], *, as_json: bool) -> None:
    if as_json:
        print_json([cell.matrix_row for cell in cells])
    else:
        print_table([[*cell.matrix_row.values()] for cell in cells], MATRIX_HEADERS)
    print(f"{len(cells)} tasks; nothing was created.", file=sys.stderr)
