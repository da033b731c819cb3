"""Commands `workers`, `presets` and `list`."""

import argparse

from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.submission import usable
from webprofile.terminal.arguments import TASK_FILTERS, add_task_filters, count
from webprofile.terminal.exit_codes import SUCCEEDED
from webprofile.terminal.output import print_json, print_table

STATUSES = ("initiated", "waiting", "running", "succeeded", "failed", "cancelled")


def add_parsers(commands: Parsers) -> None:
    workers = added(
        commands, "workers", "list the devices that you can use, with their versions", "", "--json"
    )
    workers.add_argument("--json", action="store_true", help="print all details as JSON")
    workers.set_defaults(command=list_workers)
    presets = added(
        commands, "presets", "list your presets of options, for submit --preset", "", "--json"
    )
    presets.add_argument("--json", action="store_true", help="print the presets as JSON")
    presets.set_defaults(command=list_presets)
    tasks = added(
        commands,
        "list",
        "list your tasks, newest first",
        "--status failed --created-after 2026-11-01",
        "--worker x86-1 --limit 0 --json",
        aliases=("tasks",),
    )
    add_filters(tasks)
    tasks.add_argument(
        "--limit", type=count, default=50, metavar="N", help="maximum number of tasks; 0 for all"
    )
    tasks.add_argument("--json", action="store_true", help="print the tasks as JSON")
    tasks.set_defaults(command=list_tasks)


def add_filters(parser: argparse.ArgumentParser) -> None:
    add_task_filters(parser, STATUSES)


def query_of(args: argparse.Namespace) -> dict[str, str | list[str]]:
    """Return the filters of `Site.tasks`."""
    return {name: value for name in TASK_FILTERS if (value := getattr(args, name))}


def list_workers(args: argparse.Namespace) -> int:
    with open_site() as site:
        workers = site.workers()
    if args.json:
        print_json(workers)
        return SUCCEEDED
    rows = [
        (
            worker["name"],
            worker["condition"],
            ", ".join(usable(worker)),
            ", ".join(f"{name}={value}" for name, value in (worker.get("labels") or {}).items()),
        )
        for worker in workers
    ]
    print_table(rows, ("device", "state", "MegEngine", "labels"))
    return SUCCEEDED


def list_presets(args: argparse.Namespace) -> int:
    with open_site() as site:
        presets = site.presets()
    if args.json:
        print_json(presets)
        return SUCCEEDED
    rows = [
        (row["name"], " ".join(f"{name}={value}" for name, value in row["options"].items()))
        for row in presets
    ]
    print_table(rows, ("preset", "options"))
    return SUCCEEDED


def list_tasks(args: argparse.Namespace) -> int:
    with open_site() as site:
        tasks = site.tasks(limit=args.limit, **query_of(args))
    if args.json:
        print_json(tasks)
        return SUCCEEDED
    rows = [
        (
            task["id"],
            task["status"],
            task["model_name"],
            task["worker_name"],
            task["runtime_version"],
            task["created_at"][:16].replace("T", " "),
            task["title"] or (task["reason"]["title"] if task["reason"] else ""),
        )
        for task in tasks
    ]
    print_table(
        rows, ("task", "status", "model", "device", "MegEngine", "created (UTC)", "title or reason")
    )
    return SUCCEEDED
