"""`manage.py doctor`: test each part of the site and print what is wrong and how to fix it."""

import json
import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webprofile.management.bulk import explain_command
from webprofile.operations.healthcheck.examining import PARTS, examine
from webprofile.operations.healthcheck.finding import TIME_LIMIT_S, Finding, State
from webprofile.terminal.exit_codes import FAILED

_WIDTH = max(len(part.name) for part in PARTS)


class Command(BaseCommand):
    help = (
        "Test each part that the site depends on, in the way the site uses it, and print what is "
        "wrong and how to fix it. Nothing is changed. Exit code 1 if a part is broken."
    )
    # the command must also run when the system checks of the settings fail
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, "doctor", "doctor --json")
        add = parser.add_argument
        add("--json", action="store_true", help="print one JSON object with all checks")
        text = "time limit of each check"
        add("--time-limit-s", type=float, default=TIME_LIMIT_S, metavar="S", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        # the findings replace what libraries log about the failures
        logging.disable(logging.CRITICAL)
        try:
            rows = []
            for name, finding in examine(time_limit_s=options["time_limit_s"]):
                rows.append(finding.as_row(name))
                if not options["json"]:
                    self._print(name, finding)
        finally:
            logging.disable(logging.NOTSET)
        is_ok = all(row["state"] != State.BROKEN for row in rows)
        if options["json"]:
            self.stdout.write(json.dumps({"ok": is_ok, "parts": rows}))
        if not is_ok:
            raise SystemExit(FAILED)

    def _print(self, name: str, finding: Finding) -> None:
        row = finding.as_row(name)
        line = f"{row['state']:<7} {name:<{_WIDTH}}  {row['text']}"
        self.stdout.write(f"{line} {row['next_step']}".rstrip())
