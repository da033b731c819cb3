"""Command `compare`: compare results of two to eight tasks, also as a gate in CI."""

import argparse
import math
from typing import Any

from webprofile.client.answers import Comparison, Gate, GateResult, Judged, SideName
from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.gate import judged
from webprofile.terminal.arguments import count
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED, UNDECIDED
from webprofile.terminal.output import duration, percent, plain, print_json, print_table, size

USUAL_ROWS = 15
_EXIT_CODES = """--fail-above fails only on a difference that is more than noise. It judges
the sum of the operators' times on the device. The runs were not measured in pairs, so a verdict
needs undisturbed results with four passes or more, as the plan "standard" makes them, and equal
runs of the device that show how far these differ.

exit codes:
  0  compared; with --fail-above: no task is slower than the baseline by more
  1  with --fail-above: a task is slower by more; there is no time to judge;
     a task has no result
  2  a mistake in the arguments, or a task that you may not see
  3  the site cannot be reached, or does not allow it
  5  with --fail-above: not enough evidence, and no other task fails"""

#: runs that show how far equal runs of the device differ
_SOURCES = {
    "equal": "equal runs of this task",
    "device": "equal runs of the device",
    "sample": "equal runs of the sample model on the device",
}
#: exit codes by the result of the gate
_CODES: dict[GateResult, int] = {
    "failed": FAILED,
    "not enough evidence": UNDECIDED,
    "passed": SUCCEEDED,
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
        help="exit code 1 if another task is slower than the baseline by more; 5 if the evidence "
        "does not suffice",
    )
    compare.add_argument("--json", action="store_true", help="all details as JSON")
    compare.set_defaults(command=compare_tasks)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"“{text}” is not a percentage")
    return value


def compare_tasks(args: argparse.Namespace) -> int:
    side: SideName = "host" if args.host else "device"
    with open_site() as site:
        comparison = site.compare(args.tasks, rows=args.rows, side=side)
        address = f"{site.api.site}/profiles/compare/?" + "&".join(
            f"p={profile['profile']}" for profile in comparison["profiles"]
        )
    gate = None if args.fail_above is None else judged(comparison, args.tasks, args.fail_above)
    if args.json:
        print_json(comparison if gate is None else comparison | {"gate": gate})
    else:
        _print(comparison, args.tasks, address)
        if gate is not None:
            _print_gate(gate)
    return SUCCEEDED if gate is None else _CODES[gate["result"]]


def _print(comparison: Comparison, tasks: list[int], address: str) -> None:
    names = [
        (
            row["letter"],
            f"#{task}",
            row["name"],
            row["origin"],
            size(row.get("host_memory_bytes")),
            duration(row["total_s"]),
        )
        for row, task in zip(comparison["profiles"], tasks, strict=True)
    ]
    print_table(names, ("", "task", "model", "", "peak memory", comparison["side"]), right=2)
    for warning in comparison["warnings"]:
        print(plain(warning))
    print()
    totals = [
        (
            total["key"],
            other["letter"],
            duration(total["baseline_s"]),
            duration(other["time_s"]),
            _change(total["baseline_s"], other["time_s"]),
            other["verdict_text"],
        )
        for total in comparison["totals"]
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
        for row in comparison["rows"]
    ]
    letters = [profile["letter"] for profile in comparison["profiles"]]
    print_table(rows, ("operator", "type", *letters), right=len(letters))
    print(f"{len(rows)} of {comparison['total']} rows that changed most\n{address}")


def _cell(other: dict[str, Any] | None) -> str:
    if other is None or other["time_s"] is None:
        return "" if other is None else str(other["status"])
    change = other["difference_s"]
    sign = "+" if (change or 0) > 0 else ""
    text = f"{duration(other['time_s'])} ({sign}{duration(change)})" if change else ""
    return f"{text or duration(other['time_s'])} {other['verdict_text']}".rstrip()


def _change(baseline_s: float | None, time_s: float | None) -> str:
    if not baseline_s or time_s is None:
        return ""
    ratio = time_s / baseline_s - 1
    return ("+" if ratio > 0 else "") + percent(ratio)


def _print_gate(gate: Gate) -> None:
    print(
        f"\n--fail-above {gate['limit_percent']:g}: {gate['meaning']}, "
        f"#{gate['baseline_task']} {duration(gate['baseline_s'])}"
    )
    for other in gate["others"]:
        is_undecided = other["result"] == "not enough evidence"
        # a change below the limit passes without a verdict
        verdict = other["verdict_text"] if other["verdict"] in ("faster", "slower") else ""
        parts = (
            f"  #{other['task']} {duration(other['time_s'])}: {other['result']}",
            other["verdict_advice"] if is_undecided else verdict,
            _estimate(other),
        )
        print(plain("; ".join(filter(None, parts))))


def _estimate(gated: Judged) -> str:
    """Return the estimated change with its confidence interval and the scatter of equal runs."""
    if gated["change_percent"] is None:
        return ""
    text = f"estimated change {gated['change_percent']:+.1f} %"
    if gated["low_percent"] is not None:
        text += f" (95 %: {gated['low_percent']:+.1f} % to {gated['high_percent']:+.1f} %)"
    if gated["equal_runs_differ_by_percent"] is not None:
        text += f"; {_SOURCES.get(gated['equal_runs_are'] or '', 'equal runs')} may differ by "
        text += f"{gated['equal_runs_differ_by_percent']:.1f} %"
    return text
