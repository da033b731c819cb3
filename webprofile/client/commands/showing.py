"""Command `show`: print a task, its latency, its totals and its slowest operators."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from webprofile.client.answers import Latency, OperatorTable, SideName, Statistics, Task
from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.commands.pairing import print_pairs
from webprofile.client.waiting import code_of
from webprofile.terminal.arguments import count
from webprofile.terminal.exit_codes import HELP
from webprofile.terminal.output import duration, percent, plain, print_json, print_table, size

USUAL_ROWS = 10


def add_parsers(commands: Parsers) -> None:
    show = added(
        commands,
        "show",
        "show a task, its latency, its totals and its slowest operators",
        "12",
        "12 --by-type --json",
        notes=HELP,
    )
    show.add_argument("task", type=int, metavar="TASK", help="number of a task")
    show.add_argument(
        "-n",
        "--rows",
        type=count,
        default=USUAL_ROWS,
        metavar="N",
        help="number of operators to list",
    )
    show.add_argument(
        "--by-type", action="store_true", help="list the sum for each type of operator"
    )
    show.add_argument("--host", action="store_true", help="list times on the host")
    show.add_argument("--json", action="store_true", help="print all details as JSON")
    show.set_defaults(command=show_task)


def show_task(args: argparse.Namespace) -> int:
    with open_site() as site:
        task = site.task(args.task)
        profile = site.profile(args.task)
        statistics: Statistics | None = None
        table: OperatorTable | None = None
        if profile is not None and profile["operators"]:
            side: SideName = "host" if args.host else "device"
            statistics = site.statistics(args.task)
            table = site.operators(args.task, rows=args.rows, side=side, by_type=args.by_type)
        latency = (statistics and statistics.get("latency")) or site.latency(args.task)
        is_paired = task["status"] == "succeeded" and task["pairing"] is not None
        pairs = site.pairs(args.task) if is_paired else None
        address = site.api.site
    if args.json:
        result: dict[str, Any] = {
            "statistics": statistics or {},
            "latency": latency,
            "operators": table or {},
            "pairs": pairs,
        }
        print_json({"task": task, "profile": profile} | result)
    else:
        _print_task(task, f"{address}/tasks/{args.task}/")
        if pairs is not None:
            print()
            print_pairs(pairs)
        _print_latency(latency, profile)
        _print_totals(statistics, profile)
        _print_memory(task)
        _print_table(table)
    return code_of([task])


def _print_task(task: Task, address: str) -> None:
    print(plain(f"#{task['id']} {task['status']}  {task['title']}".rstrip()))
    text = f"{task['model_name']} on {task['worker_name']}, MegEngine {task['runtime_version']}"
    script = task["script"]
    plan = "a script" if script else task["plan"]["preset"]
    print(plain(f"{text}, {plan if task['pairing'] is None else 'in pairs'}"))
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


def _print_latency(latency: Latency | None, profile: dict[str, Any] | None) -> None:
    """Print the clean latency, or else the iteration times from the first profiled pass's log."""
    if latency and latency["median_ms"] is not None:
        names = ("median", "mean", "p90", "p99", "min", "max")
        _print_iteration("latency (profiler off)", latency, names)
    elif profile and profile["mean_ms"] is not None:
        _print_iteration("latency (profiler on)", profile, ("mean", "min", "max"))
    if latency is None:
        return
    if check := latency.get("check"):
        print(plain(check["text"]))
    for note in latency["latency_notes"]:
        print(plain(note))
    if latency["disturbed_text"]:
        print(latency["disturbed_text"])
    for cause in latency["disturbances"]:
        print(plain("  " + ": ".join(filter(None, [cause["text"], cause["detail"]]))))
    for note in latency["disturbance_notes"]:
        print(plain(note))


def _print_iteration(label: str, times: Mapping[str, Any], names: Sequence[str]) -> None:
    texts = [
        f"{name} {duration(times[f'{name}_ms'] / 1000)}"
        for name in names
        if times[f"{name}_ms"] is not None
    ]
    print(f"\n{label}: {', '.join(texts)} ({times['iterations']} iterations)")


def _print_totals(statistics: Statistics | None, profile: dict[str, Any] | None) -> None:
    """Print the sums of all operators and their range over the profiled passes."""
    if not profile or not statistics:
        return
    for side in statistics["sides"]:
        text = f"total on the {side['side']}: {duration(side['total_s']) or 'not timed'}"
        ends = [duration(side[name]) for name in ("lowest_s", "highest_s")]
        if all(ends) and ends[0] != ends[1]:
            text += f" ({ends[0]} to {ends[1]} in single passes)"
        print(text)
    print(f"{profile['operators']} operators")


def _print_memory(task: Task) -> None:
    """Print the peak memory of the last attempt; of a failed one, if it is known."""
    attempt = (task.get("attempts") or [{}])[-1]
    host_bytes = attempt.get("host_memory_bytes")
    if host_bytes is None and task["status"] != "succeeded":
        return
    text = f"peak memory: {size(host_bytes)}"
    if (gpu_bytes := attempt.get("gpu_memory_bytes")) is not None:
        text += f", GPU {size(gpu_bytes)}"
    print(text)


def _print_table(table: OperatorTable | None) -> None:
    if not table:
        return
    print()
    if table["groups"]:
        groups = [
            (group["type"], group["operators"], duration(group["time_s"]), percent(group["share"]))
            for group in table["groups"]
        ]
        print_table(groups, ("type", "operators", table["side"], "share"), right=3)
        return
    rows = [
        (
            row["name"],
            row["type"],
            duration(row["self_s"]),
            percent(row["share"]),
            percent(row["cumulative_share"]),
        )
        for row in table["operators"]
    ]
    print_table(rows, ("operator", "type", table["side"], "share", "cumulative"), right=3)
    print(plain(table["said"]))
