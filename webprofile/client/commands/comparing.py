"""Commands `compare` (results of two to eight tasks, also as a gate in CI) and `check`."""

import argparse
import math
from typing import Any

from webprofile.client.answers import Comparison, Gate, Judged, Pairs, SideName
from webprofile.client.batchfile.paired import CODES, LETTERS
from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.commands.pairing import print_pairs, wait_for_pairs
from webprofile.client.errors import ClientError, UsageError
from webprofile.client.gate import confirmed, judged
from webprofile.client.site import Site
from webprofile.client.waiting import code_of, deadline_of, line_of, wait_until_ended
from webprofile.terminal.arguments import count, seconds
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED, UNDECIDED
from webprofile.terminal.output import duration, percent, plain, print_json, print_table, size

USUAL_ROWS = 15
_EXIT_CODES = """--fail-above and --gate fail only if a difference is more than noise. They
judge the median latency with the profiler off, or, if a result has none, the sum of the operators'
times on the device. The runs were not measured in pairs, so a verdict needs undisturbed results
(for the sum, with at least four profiled passes, as in the plan "standard") and equal runs on the
device that show how much they differ. Without a verdict, --fail-above passes a change below its
limit, and --gate reports not enough evidence. With --confirm, the tasks are then measured again in
pairs of processes on the device of the baseline, as by webprofile ab.

exit codes:
  0    compared; no task is slower than the baseline (with --fail-above: by more)
  1    with --fail-above: a task is slower by more; with --gate: a task is slower, or its outputs
       differ in pairs; there are no times to judge; a task has no result
  2    a mistake in the arguments, or a task that you cannot access
  3    the site cannot be reached, or refuses access
  5    with --fail-above or --gate: not enough evidence, and no other task fails
  130  Ctrl-C; the paired comparison of --confirm continues"""

_CHECK_NOTES = """The check runs the stored files on the same device, as a new task. A result
still holds if the difference of the latencies is within that of equal runs on this device. After
Ctrl-C, "webprofile show N" prints the answer of check N.

exit codes:
  0    the result still holds
  1    it no longer holds, it cannot be checked, or the check failed
  2    a mistake in the arguments
  3    the site cannot be reached, or refuses access
  4    --timeout passed
  5    not enough evidence
  130  Ctrl-C; the check continues"""
#: exit codes by the verdict on the latency; without a verdict, UNDECIDED
_CHECK_CODES = {"none": SUCCEEDED, "faster": FAILED, "slower": FAILED}
#: runs that show how far equal runs of the device differ
_SOURCES = {
    "equal": "equal runs of this task",
    "device": "equal runs of the device",
    "sample": "equal runs of the sample model on the device",
}


def add_parsers(commands: Parsers) -> None:
    compare = added(
        commands,
        "compare",
        "compare the results of two to eight tasks; the first is the baseline",
        "12 17",
        "12 17 --fail-above 5    # in CI: exit code 1 if 17 is more than 5 % slower",
        "12 17 --gate verdict --confirm    # exit code 1 if 17 is slower at all",
        notes=_EXIT_CODES,
    )
    compare.add_argument("tasks", nargs="+", type=int, metavar="TASK", help="numbers of tasks")
    compare.add_argument(
        "-n",
        "--rows",
        type=count,
        default=USUAL_ROWS,
        metavar="N",
        help="number of operators to list",
    )
    compare.add_argument("--host", action="store_true", help="list times on the host")
    gates = compare.add_mutually_exclusive_group()
    gates.add_argument(
        "--fail-above",
        type=_share,
        metavar="PERCENT",
        help="exit code 1 if another task is slower than the baseline by more; 5 if there is not "
        "enough evidence",
    )
    gates.add_argument(
        "--gate",
        choices=["verdict"],
        help='exit code 1 if the verdict on another task is "slower"; 5 if there is no verdict',
    )
    compare.add_argument(
        "--confirm",
        action="store_true",
        help="with --gate: measure 2 to 4 tasks in pairs if there is not enough evidence",
    )
    compare.add_argument("--json", action="store_true", help="print all details as JSON")
    compare.set_defaults(command=compare_tasks)
    check = added(
        commands,
        "check",
        "measure the latency of a result again in a few seconds; report whether it still holds",
        "12",
        notes=_CHECK_NOTES,
    )
    check.add_argument("task", type=int, metavar="TASK", help="number of a task with a latency")
    check.add_argument("--timeout", type=seconds, metavar="S", help="maximum waiting time")
    check.add_argument("--json", action="store_true", help="print all details as JSON")
    check.set_defaults(command=check_task)


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
    if args.confirm and args.gate is None:
        raise UsageError("--confirm needs --gate verdict.")
    if args.confirm and len(args.tasks) > len(LETTERS):
        raise UsageError(f"--confirm compares at most {len(LETTERS)} tasks.")
    with open_site() as site:
        comparison = site.compare(args.tasks, rows=args.rows, side=side)
        address = f"{site.api.site}/profiles/compare/?" + "&".join(
            f"p={profile['profile']}" for profile in comparison["profiles"]
        )
        gate, pairs = None, None
        if args.gate is not None or args.fail_above is not None:
            gate = judged(comparison, args.tasks, args.fail_above)
        if gate is not None and args.confirm and gate["result"] == "not enough evidence":
            number, pairs = _measured_in_pairs(site, args.tasks)
            gate = confirmed(gate, number, pairs)
    if args.json:
        print_json(comparison if gate is None else comparison | {"gate": gate, "pairs": pairs})
    else:
        _print(comparison, args.tasks, address)
        if gate is not None:
            _print_gate(gate)
        if pairs is not None:
            print()
            print_pairs(pairs)
    return SUCCEEDED if gate is None else CODES[gate["result"]]


def check_task(args: argparse.Namespace) -> int:
    deadline = deadline_of(args.timeout)
    with open_site() as site:
        number = site.check_result(args.task)
        print(f"Task {number} measures the latency again.", file=site.api.log)
        task = wait_until_ended(site.api, [number], deadline)[number]
        latency = site.latency(number)
    check = latency and latency.get("check")
    if args.json:
        print_json({"task": task, "latency": latency})
    else:
        print(plain(check["text"] if check else line_of(task)))
    if task["status"] != "succeeded":
        return code_of([task])
    return _CHECK_CODES.get(check["verdict"], UNDECIDED) if check else UNDECIDED


def _measured_in_pairs(site: Site, tasks: list[int]) -> tuple[int, Pairs]:
    """Compare tasks in pairs; return the number of the new task, and its result.

    Raises ClientError without one.
    """
    number = site.compare_paired(tasks)
    print(f"Not enough evidence; task {number} measures in pairs.", file=site.api.log)
    task, pairs = wait_for_pairs(site, number, math.inf)
    if pairs is None:
        raise ClientError(f"The paired comparison has no result: {line_of(task)}")
    return number, pairs


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
            _change(other["change"]),
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
    print(f"{len(rows)} of {comparison['total']} rows, largest changes first\n{address}")


def _cell(other: dict[str, Any] | None) -> str:
    if other is None or other["time_s"] is None:
        return "" if other is None else str(other["status"])
    change = other["difference_s"]
    sign = "+" if (change or 0) > 0 else ""
    text = f"{duration(other['time_s'])} ({sign}{duration(change)})" if change else ""
    return f"{text or duration(other['time_s'])} {other['verdict_text']}".rstrip()


def _change(ratio: float | None) -> str:
    return ("+" if (ratio or 0) > 0 else "") + percent(ratio)


def _print_gate(gate: Gate) -> None:
    limit, paired_task = gate["limit_percent"], gate["paired_task"]
    name = "--gate verdict" if limit is None else f"--fail-above {limit:g}"
    how = f"measured in pairs by #{paired_task}" if paired_task else "not measured in pairs"
    baseline = f"#{gate['baseline_task']} {duration(gate['baseline_s'])}"
    print(f"\n{name}: {gate['meaning']}, {baseline}; {how}")
    for other in gate["others"]:
        if other["paired"] is not None:
            print(plain(f"  #{other['task']}: {other['result']}; {other['paired']['sentence']}"))
            continue
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
