"""show: how a task is, its latency and its slowest operators."""

import argparse
import shlex
from typing import Any

from webprofile.client.api import Api, Query
from webprofile.client.commands import Parsers, added, opened
from webprofile.client.commands.waiting import code_of, task_of, unknown
from webprofile.client.errors import ProblemError
from webprofile.terminal.arguments import count
from webprofile.terminal.exit_codes import HELP
from webprofile.terminal.output import duration, percent, plain, print_json, print_table

USUAL_ROWS = 10
MOST_ROWS = 1000


def add_parsers(commands: Parsers) -> None:
    show = added(
        commands,
        "show",
        "show a task, its latency and its slowest operators",
        "12",
        "12 --by-type --json",
        notes=HELP,
    )
    show.add_argument("task", type=int, metavar="TASK")
    show.add_argument("-n", "--rows", type=count, default=USUAL_ROWS, metavar="N", help="operators")
    show.add_argument("--by-type", action="store_true", help="sums of each type")
    show.add_argument("--host", action="store_true", help="times on the host")
    show.add_argument("--json", action="store_true", help="all of it as JSON")
    show.set_defaults(command=show_task)


def show_task(given: argparse.Namespace) -> int:
    with opened() as api:
        task = task_of(api, given.task)
        profile = profile_of(api, given.task)
        statistics, table = {}, {}
        if profile is not None:
            statistics = api.get(f"profiles/{profile['id']}/statistics/")
            table = api.get(f"profiles/{profile['id']}/operators/", _question(given))
        site = api.site
    if given.json:
        print_json({"task": task, "profile": profile, "statistics": statistics, "operators": table})
    else:
        _print_task(task, f"{site}/tasks/{given.task}/{'result/' if profile else ''}")
        _print_latency(statistics.get("latency"))
        _print_table(table)
    return code_of([task])


def profile_of(api: Api, task: int) -> dict[str, Any] | None:
    """The result of a task, None while or because there is none.

    Raises UsageError for a task that is not there; ProblemError.
    """
    try:
        found: dict[str, Any] = api.get(f"profiles/of-task/{task}/")
    except ProblemError as error:
        if error.code in {"profile_not_yet", "profile_never"}:
            return None
        if error.status == 404:
            raise unknown(task) from error
        raise
    return found


def _question(given: argparse.Namespace) -> Query:
    rows = max(1, min(given.rows, MOST_ROWS))
    query: Query = [("limit", rows)]
    if given.host:
        query.append(("side", "host"))
    if given.by_type:
        query.append(("agg", "sum"))
    return query


def _print_task(task: dict[str, Any], address: str) -> None:
    print(plain(f"#{task['id']} {task['status']}  {task['title']}".rstrip()))
    where = f"{task['model_name']} on {task['worker_name']}, MegEngine {task['runtime_version']}"
    # a site from before scripts tells no kind
    script = task.get("script")
    print(plain(f"{where}, {'a script' if script else task['plan']['preset']}"))
    if script:
        program = script["entry"] or task["model_name"]
        print(plain(shlex.join([program, *script["arguments"]])))
    if task["options"]:
        print(plain(", ".join(f"{name}={value}" for name, value in task["options"].items())))
    if task["reason"]:
        print(plain(f"{task['reason']['title']} {task['reason']['next_step']}"))
    if task["detail"]:
        print(plain(task["detail"]))
    print(address)


def _print_latency(latency: dict[str, Any] | None) -> None:
    if not latency:
        return
    if latency["median_ms"] is not None:
        shown = [
            f"{name} {duration(_s(latency[f'{name}_ms']))}"
            for name in ("median", "mean", "p90", "p99", "min", "max")
            if latency[f"{name}_ms"] is not None
        ]
        print(f"\nan iteration: {', '.join(shown)} ({latency['iterations']} iterations)")
    for each in latency["contaminations"]:
        print(plain(": ".join(filter(None, ["disturbed", each["text"], each["detail"]]))))


def _print_table(table: dict[str, Any]) -> None:
    if not table:
        return
    print()
    if table["groups"]:
        groups = [
            (each["type"], each["operators"], duration(each["time_s"]), percent(each["share"]))
            for each in table["groups"]
        ]
        print_table(groups, ("type", "operators", table["side"], "share"), right=3)
        return
    rows = [
        (
            each["name"],
            each["type"],
            duration(each["self_s"]),
            percent(each["share"]),
            percent(each["cumulative_share"]),
        )
        for each in table["operators"]
    ]
    print_table(rows, ("operator", "type", table["side"], "share", "with above"), right=3)
    print(plain(table["said"]))


def _s(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
