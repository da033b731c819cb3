"""`manage.py purge`: remove what is older than some days; by default it only says how much."""

import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from profiles.models import RemovedObjects
from profiles.retention import KINDS, NAMED_ONLY, Amount, amount_of, purge
from webprofile.management.bulk import explain_command, plain_errors
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from webprofile.terminal.progress import Progress

#: what is younger may still be written to by an agent that was away
LEAST_DAYS = 1
MOST_DAYS = 36500


class Command(BaseCommand):
    help = (
        "Remove files, profiles and logs of tasks that ended some days ago, uploads never "
        "completed, old health checks, idempotency keys, sessions and tokens. Without --yes "
        "nothing is removed. May be stopped at any time and repeated. Objects leave storage by "
        "`manage.py sweep`. The audit log stays."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(
            parser,
            "purge --older-than 90",
            "purge --older-than 90 --yes",
            "purge --older-than 365 --only tasks opened --yes",
        )
        add = parser.add_argument
        add("--older-than", type=int, required=True, metavar="DAYS", help="since they ended")
        kinds = "; ".join(f"{kind.name}: {kind.help}" for kind in KINDS.values())
        text = f"{kinds}. Without it all but {' and '.join(NAMED_ONLY)}."
        add("--only", nargs="+", choices=list(KINDS), metavar="KIND", help=text)
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--dry-run", action="store_true", help="only say how much: the default")
        group.add_argument("--yes", action="store_true", help="remove it")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["older_than"]
        if not LEAST_DAYS <= days <= MOST_DAYS:
            text = f"--older-than takes {LEAST_DAYS} to {MOST_DAYS} days."
            raise CommandError(text, returncode=USAGE)
        before = timezone.now() - datetime.timedelta(days=days)
        chosen = options["only"] or [name for name in KINDS if name not in NAMED_ONLY]
        with plain_errors():
            found = {name: amount_of(KINDS[name], before) for name in chosen}
            if options["yes"]:
                found = {name: _purged(name, before, found[name].rows) for name in chosen}
        self.stdout.write(_table(found))
        if not options["yes"]:
            self.stdout.write("Nothing was removed: --yes does it.")
        elif left := RemovedObjects.objects.filter(is_last=False).count():
            self.stdout.write(f"{left} folders of storage are left for the sweep to empty.")


def _purged(name: str, before: datetime.datetime, rows: int) -> Amount:
    with Progress(rows, name, unit="rows") as progress:
        return purge(KINDS[name], before, progress.advance)


def _table(found: dict[str, Amount]) -> str:
    rows = [
        (name, KINDS[name].help, each.rows, filesizeformat(each.size_bytes))
        for name, each in found.items()
    ]
    total = sum(each.size_bytes for each in found.values())
    rows.append(("", "in all", sum(each.rows for each in found.values()), filesizeformat(total)))
    return table(rows, ("kind", "", "rows", "size"), right=2)
