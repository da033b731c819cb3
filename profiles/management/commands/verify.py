"""`manage.py verify`: check the promises of docs/architecture/integrity.md."""

import datetime
import itertools
import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from profiles.integrity import GRACE, PATIENCE, broken_objects, broken_rows
from webprofile.management.bulk import PlainCommand, explain_command
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.progress import Progress

MOST_HOURS = 24 * 3650


class Command(PlainCommand):
    help = (
        "Check the promises of the site: every task ends, at most one of its attempts is active, a "
        "result belongs to the attempt that counts, every stored file matches its row, and every "
        "object has a row. Nothing is changed, and the site can keep running."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, "verify", "verify --json", "verify --grace-hours 0")
        add = parser.add_argument
        text = "maximum time after a deadline until the sweep processes a row"
        add("--patience-s", type=int, default=int(PATIENCE.total_seconds()), metavar="S", help=text)
        text = "maximum age of an object without a row"
        hours = int(GRACE.total_seconds() // 3600)
        add("--grace-hours", type=int, default=hours, metavar="HOURS", help=text)
        add("--json", action="store_true", help="print one JSON object with all violations")

    def handle(self, *args: Any, **options: Any) -> None:
        patience, grace = options["patience_s"], options["grace_hours"]
        if patience < 0 or not 0 <= grace <= MOST_HOURS or patience > MOST_HOURS * 3600:
            raise CommandError("Both times must be between 0 and 10 years.", returncode=USAGE)
        with Progress(None, "verify", unit="objects") as progress:
            violations = list(
                itertools.chain(
                    broken_rows(patience=datetime.timedelta(seconds=patience)),
                    broken_objects(grace=datetime.timedelta(hours=grace), advance=progress.advance),
                )
            )
        if options["json"]:
            rows = [{"promise": row.promise, "what": row.what} for row in violations]
            self.stdout.write(json.dumps({"holds": not violations, "broken": rows}))
        else:
            lines = [f"{row.promise}: {row.what}" for row in violations]
            self.stdout.write("\n".join(lines) or "All checks passed.")
        if violations:
            raise SystemExit(1)
