"""compare: results of two to eight tasks, for people and as a gate of a CI."""

import argparse
import math
from typing import Any

from webprofile.client.api import Query
from webprofile.client.commands import Parsers, added, opened
from webprofile.client.commands.showing import profile_of
from webprofile.client.errors import ClientError, UsageError
from webprofile.terminal.arguments import count
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED
from webprofile.terminal.output import duration, percent, plain, print_json, print_table

FEWEST, MOST = 2, 8
USUAL_ROWS = 15
#: totals that --fail-above judges, the first one that all results have: latency is what users feel
JUDGED = {
    "latency": "median time of an iteration without profiling",
    "device": "sum of the operators' times on the device",
}
_EXIT_CODES = """--fail-above judges the median time of an iteration without profiling, or where not
every result has one, the sum of the operators' times on the device.

exit codes:
  0  compared; with --fail-above: no task is slower than the baseline by more
  1  with --fail-above: a task is slower by more, or there is no time to judge;
     a task has no result
  2  a mistake in the arguments, or a task that you may not see
  3  the site cannot be reached, or does not allow it"""

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
        notes=_EXIT_CODES,
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
        help="exit code 1 if another task is slower than the baseline by more",
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
    gate = None if given.fail_above is None else _judged(found, given.tasks, given.fail_above)
    if given.json:
        print_json(found if gate is None else found | {"gate": gate})
    else:
        _print(found, given.tasks, address)
        if gate is not None:
            _print_gate(gate)
    return SUCCEEDED if gate is None or gate["passed"] else FAILED


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


def _judged(found: dict[str, Any], tasks: list[int], limit_percent: float) -> dict[str, Any]:
    """What --fail-above judged: the number, both values, how sure the difference is, and whether
    it passed; times in s. Raises ClientError if no time is known of all.
    """
    totals = {total["key"]: total for total in found["totals"]}
    key = next((key for key in JUDGED if _is_known(totals.get(key))), None)
    if key is None:
        raise ClientError("There is no time to compare.")
    baseline_s = totals[key]["baseline_s"]
    limit_s = baseline_s * (1 + limit_percent / 100)
    judged = [
        {
            "task": task,
            "letter": other["letter"],
            "time_s": other["time_s"],
            "change_percent": (other["time_s"] / baseline_s - 1) * 100,
            **{name: other[name] for name in ("difference_s", "low_s", "high_s", "verdict")},
            "passed": other["time_s"] <= limit_s,
        }
        for task, other in zip(tasks[1:], totals[key]["others"], strict=True)
    ]
    return {
        "number": key,
        "meaning": JUDGED[key],
        "unit": "s",
        "limit_percent": limit_percent,
        "limit_s": limit_s,
        "baseline_task": tasks[0],
        "baseline_s": baseline_s,
        "others": judged,
        "passed": all(each["passed"] for each in judged),
    }


def _print_gate(gate: dict[str, Any]) -> None:
    print(
        f"\n--fail-above {gate['limit_percent']:g}: {gate['meaning']}, "
        f"#{gate['baseline_task']} {duration(gate['baseline_s'])}, "
        f"at most {duration(gate['limit_s'])}"
    )
    for each in gate["others"]:
        change = _change(gate["baseline_s"], each["time_s"])
        sure = [_VERDICTS.get(each["verdict"], each["verdict"])]
        if each["low_s"] is not None and each["high_s"] is not None:
            span = f"{_signed(each['low_s'])} to {_signed(each['high_s'])}"
            sure.append(f"95 % interval of the difference {span}")
        result = "passed" if each["passed"] else "FAILED"
        shown = f"  #{each['task']} {duration(each['time_s'])} ({change}): {result}"
        print(plain("; ".join(filter(None, [shown, *sure]))))


def _signed(seconds: float) -> str:
    return ("+" if seconds > 0 else "") + duration(seconds)


def _is_known(total: dict[str, Any] | None) -> bool:
    if total is None or not total["baseline_s"]:
        return False
    return all(each["time_s"] is not None for each in total["others"])
