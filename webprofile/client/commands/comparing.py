"""compare: results of two to eight tasks, for people and as a gate of a CI."""

import argparse
import math
from typing import Any

from webprofile.client.api import Query
from webprofile.client.commands import Parsers, added, opened
from webprofile.client.commands.showing import profile_of
from webprofile.client.errors import ClientError, UsageError
from webprofile.terminal.arguments import count
from webprofile.terminal.exit_codes import FAILED, HELP, SUCCEEDED
from webprofile.terminal.output import duration, percent, plain, print_json, print_table

FEWEST, MOST = 2, 8
USUAL_ROWS = 15


#: how far a difference can be trusted
_VERDICTS = {
    "absent": "",
    "single": "single sample",
    "few": "too few samples",
    "none": "no clear difference",
    "likely": "likely",
    "clear": "clear",
}


def add_parsers(commands: Parsers) -> None:
    compare = added(
        commands,
        "compare",
        "compare the results of two to eight tasks; the first is the baseline",
        "12 17",
        "12 17 --fail-above 5    # in a CI: exit code 1 if 17 is more than 5 % slower",
        notes=HELP,
    )
    compare.add_argument("tasks", nargs="+", type=int, metavar="TASK")
    compare.add_argument(
        "-n", "--rows", type=count, default=USUAL_ROWS, metavar="N", help="operators"
    )
    compare.add_argument("--host", action="store_true", help="times on the host")
    compare.add_argument(
        "--fail-above",
        type=_share,
        metavar="PERCENT",
        help="exit code 1 if an iteration (or without a clean pass the device total) of another "
        "task is slower than the baseline's by more",
    )
    compare.add_argument("--json", action="store_true", help="all of it as JSON")
    compare.set_defaults(command=compare_tasks)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"“{text}” is no number of percent")
    return value


def compare_tasks(given: argparse.Namespace) -> int:
    if not FEWEST <= len(given.tasks) <= MOST:
        raise UsageError(f"Name {FEWEST} to {MOST} tasks.")
    with opened() as api:
        query: Query = []
        for task in given.tasks:
            profile = profile_of(api, task)
            if profile is None:
                raise ClientError(f"Task {task} has no result.")
            query.append(("p", profile["id"]))
        query += [("limit", max(1, given.rows)), ("side", "host" if given.host else "device")]
        found = api.get("profiles/compare/", query)
        address = f"{api.site}/profiles/compare/?" + "&".join(
            f"{name}={value}" for name, value in query if name == "p"
        )
    if given.json:
        print_json(found)
    else:
        _print(found, given.tasks, address)
    return _code(found, given.fail_above)


def _print(found: dict[str, Any], tasks: list[int], address: str) -> None:
    names = [
        (each["letter"], f"#{task}", each["name"], each["origin"], duration(each["total_s"]))
        for each, task in zip(found["profiles"], tasks, strict=True)
    ]
    print_table(names, ("", "task", "model", "", found["side"]), right=1)
    for warning in found["warnings"]:
        print(plain(warning))
    print()
    totals = [
        (
            total["key"],
            other["letter"],
            duration(total["baseline_s"]),
            duration(other["time_s"]),
            _change(total["baseline_s"], other["time_s"]),
            _VERDICTS.get(other["verdict"], other["verdict"]),
        )
        for total in found["totals"]
        for other in total["others"]
    ]
    print_table(totals, ("total", "", "A", "time", "change", "verdict"))
    print()
    rows = [
        (
            row["operator"],
            row["type"],
            duration(row["baseline"]["time_s"]),
            *(_cell(other) for other in row["others"]),
        )
        for row in found["rows"]
    ]
    letters = [each["letter"] for each in found["profiles"]]
    print_table(rows, ("operator", "type", *letters), right=len(letters))
    print(f"{len(rows)} of {found['total']} rows that changed most\n{address}")


def _cell(other: dict[str, Any] | None) -> str:
    if other is None or other["time_s"] is None:
        return "" if other is None else str(other["status"])
    change = other["difference_s"]
    sign = "+" if (change or 0) > 0 else ""
    shown = f"{duration(other['time_s'])} ({sign}{duration(change)})" if change else ""
    verdict = _VERDICTS.get(other["verdict"], other["verdict"])
    return f"{shown or duration(other['time_s'])} {verdict}".rstrip()


def _change(baseline_s: float | None, time_s: float | None) -> str:
    if not baseline_s or time_s is None:
        return ""
    ratio = time_s / baseline_s - 1
    return ("+" if ratio > 0 else "") + percent(ratio)


def _code(found: dict[str, Any], limit_percent: float | None) -> int:
    """Latency is what users feel; without a clean pass the device total stands for it."""
    if limit_percent is None:
        return SUCCEEDED
    totals = {total["key"]: total for total in found["totals"]}
    total = next((totals[key] for key in ("latency", "device") if _is_known(totals.get(key))), None)
    if total is None:
        raise ClientError("There is no time to compare.")
    limit_s = total["baseline_s"] * (1 + limit_percent / 100)
    slower = [each for each in total["others"] if each["time_s"] > limit_s]
    return FAILED if slower else SUCCEEDED


def _is_known(total: dict[str, Any] | None) -> bool:
    if total is None or not total["baseline_s"]:
        return False
    return all(each["time_s"] is not None for each in total["others"])
