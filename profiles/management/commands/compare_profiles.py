"""`manage.py compare_profiles BASE OTHER [OTHER ...]`: compare runs operator by operator."""

import sys
from argparse import ArgumentParser
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError

from profiles.analysis.durations import in_unit, unit_of
from profiles.comparison.comparison import FEWEST, MOST, Comparison, align_profiles, judged
from profiles.comparison.export import plain_number
from profiles.comparison.messages import letter, signed, verdict_words
from profiles.comparison.question import RowQuery, select_rows
from profiles.comparison.waterfall import BYS, WaterfallStep, waterfall
from profiles.exports.formats import profile_of_files
from profiles.formats.columns import Side
from profiles.formats.errors import ProfileFormatError
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import plain_lines, table

#: maximum length of an operator's name in the table
LONGEST_NAME = 60


class Command(BaseCommand):
    """Exit code 1 if a file cannot be read."""

    help = (
        "Compare profiles of load_and_run; the first is the baseline. Files do not contain the "
        "scatter of equal runs on their device, so differences have figures and intervals over "
        "the passes, but no verdict. Exit code 1 if a file cannot be read."
    )
    # comparing files needs no storage
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "profiles",
            nargs="+",
            help="files written by --profile; join several passes of one run with commas",
        )
        parser.add_argument("--host", action="store_true", help="list times on the host")
        parser.add_argument("-t", "--top", type=int, default=20, help="rows (default: 20; 0: all)")
        parser.add_argument("--by", choices=BYS, default="row", help="steps of the waterfall")
        parser.add_argument("--all", action="store_true", help="also list rows that did not change")
        parser.add_argument("--json", action="store_true", help="print JSON, times in s")

    def handle(self, *args: Any, **options: Any) -> None:
        names = options["profiles"]
        if not FEWEST <= len(names) <= MOST:
            raise CommandError(f"{FEWEST} to {MOST} profiles can be compared.", returncode=USAGE)
        try:
            profiles = [profile_of_files(name.split(",")) for name in names]
        except (OSError, ProfileFormatError) as error:
            self.stderr.write(plain_lines(str(error)))
            sys.exit(1)
        comparison = judged(align_profiles(profiles), {})
        side: Side = "host" if options["host"] else "device"
        question = RowQuery(side=side, every=options["all"])
        rows = select_rows(comparison, question).rows.tolist()
        rows = rows[: options["top"]] if options["top"] else rows
        if options["json"]:
            self.stdout.write(msgspec.json.encode(_as_json(comparison, rows, side)).decode())
            return
        for other, name in enumerate(names[1:], start=1):
            self.stdout.write(plain_lines(f"A {names[0]}\n{letter(other)} {name}\n"))
            if not comparison.common[other - 1]:
                self.stdout.write("They have no operator in common.\n")
            steps = waterfall(comparison, other, side=side, by=options["by"])
            self.stdout.write(_steps_text(steps) + "\n")
            self.stdout.write(_rows_text(comparison, rows, other, side) + "\n")


def _steps_text(steps: tuple[WaterfallStep, ...]) -> str:
    names = {"start": "total of A", "rest": "everything else", "end": "total"}
    unit = unit_of(step.to_s for step in steps)
    lines = [
        (
            step.name or names.get(step.kind, "without a scope"),
            signed(step.delta_s, unit) if step.kind in ("step", "rest") else "",
            in_unit(step.to_s, unit),
        )
        for step in steps
    ]
    return table(lines, ("step", f"difference, {unit.name}", f"total so far, {unit.name}"))


def _rows_text(comparison: Comparison, rows: list[int], other: int, side: Side) -> str:
    lines = []
    numbers = comparison.side(side)
    unit = unit_of(numbers.time_s[[0, other]].ravel().tolist())
    for number in rows:
        cell = comparison.rows[number].cells[other - 1]
        if cell is None:
            continue
        profile, node = comparison.main[number]
        verdict = verdict_words(numbers.judgements[other - 1], number)
        lines.append(
            (
                _cut(comparison.label(number)),
                comparison.nodes[profile].kinds[node],
                cell.status,
                in_unit(float(numbers.time_s[0, number]), unit),
                in_unit(float(numbers.time_s[other, number]), unit),
                signed(float(numbers.delta_s[other - 1, number]), unit),
                verdict["change"],
                verdict["interval"],
                verdict["word"],
            )
        )
    times = (f"A, {unit.name}", f"{letter(other)}, {unit.name}", f"difference, {unit.name}")
    return table(
        lines, ("operator", "type", "status", *times, "change, %", "95 % interval", "verdict")
    )


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _as_json(comparison: Comparison, rows: list[int], side: Side) -> list[dict[str, Any]]:
    numbers = comparison.side(side)
    return [
        {
            "row": number,
            "operators": [
                [nodes.short_names[x] for x in comparison.rows[number].members(profile)]
                for profile, nodes in enumerate(comparison.nodes)
            ],
            "status": [cell.status if cell else None for cell in comparison.rows[number].cells],
            "time_s": [plain_number(time_s) for time_s in numbers.time_s[:, number]],
            "difference_s": [plain_number(delta_s) for delta_s in numbers.delta_s[:, number]],
        }
        for number in rows
    ]
