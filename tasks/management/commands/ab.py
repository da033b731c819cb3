"""`manage.py ab MODEL MODEL -w DEVICE --as E-MAIL`: compare models in pairs of processes."""

import argparse
import json
import time
from math import inf
from typing import Any

from django.core.management.base import CommandError, CommandParser

from profiles.comparison.paired_operators import explanation
from profiles.presenters.paired import paired_view
from profiles.selectors import paired_of
from tasks.management.commands.submit import (
    SubmittedCell,
    plan_tasks,
    submit_tasks,
    versions_by_device,
    wait_for_ends,
)
from tasks.models import Task
from webprofile.client.batchfile.local_files import look_at
from webprofile.client.batchfile.matrix import cells_of
from webprofile.client.batchfile.paired import (
    CODES,
    PAIRED_HELP,
    GateResult,
    PairedModels,
    add_paired_arguments,
    keys_from_arguments,
    result_of_arm,
    worst_of,
)
from webprofile.errors import DomainError
from webprofile.management.bulk import PlainCommand, explain_command, user_named
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import TIMED_OUT
from webprofile.terminal.output import plain


class Command(PlainCommand):
    help = "Compare two to four models on a device in pairs of processes that take turns."

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(
            parser,
            "ab old.mge new.mge -w x86-1 -d data=cat.npy --as you@example.com",
            "ab net.mge net.mge -w x86-1 --arm-option B:fast_run --as you@example.com",
            notes=PAIRED_HELP,
        )
        parser.add_argument("models", nargs="+", metavar="MODEL", help="files")
        add_paired_arguments(parser)
        add = parser.add_argument
        add("--as", dest="owner", required=True, metavar="E-MAIL", help="owner of the task")
        add("--wait", action=argparse.BooleanOptionalAction, default=True, help="wait for the end")
        add("--timeout", type=seconds, default=inf, metavar="S", help="maximum waiting time")
        add("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = user_named(options["owner"], for_work=True)
        keys = keys_from_arguments(argparse.Namespace(**options))
        block = PairedModels(options["models"], **keys).block()
        cells = cells_of([block], versions_by_device(owner))
        files = look_at({file.path for cell in cells for file in cell.files})
        planned = plan_tasks(owner, cells, files)
        until = time.monotonic() + options["timeout"]
        submitted = list[SubmittedCell]()
        try:
            submit_tasks(owner, planned, until if options["wait"] else 0.0, submitted)
            in_time = not options["wait"] or wait_for_ends(submitted, until)
        except (KeyboardInterrupt, DomainError):
            if tasks := [entry.task.pk for entry in submitted if entry.task]:
                self.stderr.write(f"Task {tasks[0]} continues.", str)  # not in red
            raise
        (entry,) = submitted
        if entry.task is None:
            raise CommandError(entry.problem)
        if not in_time:
            raise CommandError("The timeout has passed; the task continues.", returncode=TIMED_OUT)
        if options["wait"]:
            self._print_result(Task.objects.get(pk=entry.task.pk), as_json=options["json"])
        else:
            self.stdout.write(
                json.dumps({"task": entry.task.pk}) if options["json"] else str(entry.task.pk)
            )

    def _print_result(self, task: Task, *, as_json: bool) -> None:
        """Print outputs that differ and the verdicts. Raises CommandError if an arm fails."""
        paired = paired_of(task)
        if paired is None:
            raise CommandError(f"Task {task.pk} has no result.")
        view = paired_view(paired, task)
        result: GateResult = worst_of(
            result_of_arm(row["verdict"], differs=words.letter in view["differing"])
            for row, words in zip(paired.verdicts, view["verdicts"], strict=True)
        )
        if as_json:
            fields = {"task": task.pk, "result": result, "differing": view["differing"]}
            fields |= {"verdicts": paired.verdicts, "operators": paired.operators}
            self.stdout.write(json.dumps(fields, indent=1))
        else:
            for letter in view["differing"]:
                self.stdout.write(f"DIFFERENT OUTPUTS: those of {letter} differ from those of A.")
            for words in view["verdicts"]:
                text = f"{words.letter} {words.title}: {words.sentence} {words.more}"
                self.stdout.write(plain(text.rstrip()))
            rows = zip(view["operators"], paired.operators, paired.verdicts, strict=False)
            for arm, changes, verdict in rows:
                self.stdout.write(plain(f"{arm.title}: {arm.sentence}".rstrip(": ")))
                named, _ = explanation(changes, verdict["verdict"], verdict["effect"])
                for words, operator in zip(arm.named, named, strict=True):
                    change = f"{words.difference} ({words.effect})"
                    self.stdout.write(plain(f"  {change} {operator['name']} {operator['type']}"))
        if result != "passed":
            raise CommandError(f"Task {task.pk}: {result}.", returncode=CODES[result])
