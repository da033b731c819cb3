"""`manage.py purge`: remove old data; without --yes it only reports how much."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from profiles.models import RemovedObjects
from profiles.retention.policy import NAMED_ONLY, POLICIES, OwnerShare, purge, shares_of
from webprofile.management.bulk import PlainCommand, explain_command
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from webprofile.terminal.progress import Progress

#: an agent that was offline may still write to younger tasks
LEAST_DAYS = 1
MOST_DAYS = 36500


class Command(PlainCommand):
    help = (
        "Report what RETENTION removes now, by kind and owner, or with --older-than what is older: "
        "results, old health checks, idempotency keys, sessions and tokens. --yes removes it at "
        "once; otherwise the sweep removes what RETENTION names, in small pieces. Data in use and "
        "the audit log are kept. The command can be interrupted and repeated. `manage.py sweep` "
        "deletes the objects from storage."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(
            parser,
            "purge",
            "purge --older-than 30 --only dumps",
            "purge --older-than 90 --yes",
            "purge --older-than 365 --only tasks opened --yes",
        )
        add = parser.add_argument
        text = "minimum age since the end; default: the ages in RETENTION, which task pages show"
        add("--older-than", type=int, metavar="DAYS", help=text)
        kinds = "; ".join(f"{policy.name}: {policy.help}" for policy in POLICIES.values())
        last = f"{', '.join(NAMED_ONLY[:-1])} and {NAMED_ONLY[-1]}"
        text = f"kinds to remove, with --older-than. {kinds}. Default: all except {last}."
        add("--only", nargs="+", choices=list(POLICIES), metavar="KIND", help=text)
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--dry-run", action="store_true", help="only report (default)")
        group.add_argument("--yes", action="store_true", help="remove the data")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = _chosen_policies(options["older_than"], options["only"])
        shares = {name: shares_of(POLICIES[name], days) for name, days in chosen.items()}
        self.stdout.write(_table(shares, chosen))
        if not options["yes"]:
            self.stdout.write("Nothing was removed. Use --yes to remove it.")
            return
        count = 0
        for name, days in chosen.items():
            rows = sum(share.rows for share in shares[name])
            with Progress(rows, name, unit="rows") as progress:
                count += purge(POLICIES[name], days, progress.advance)
        self.stdout.write(f"Rows removed: {count}.")
        if left := RemovedObjects.objects.filter(is_last=False).count():
            self.stdout.write(f"The sweep will delete {left} files and folders from storage.")


def _chosen_policies(days: int | None, only: list[str] | None) -> dict[str, int]:
    """The chosen policies, with the number of days to keep."""
    if days is None:
        if only:
            raise CommandError("--only needs --older-than.", returncode=USAGE)
        if not settings.RETENTION:
            text = "RETENTION is empty: give --older-than DAYS, or set RETENTION as the site does."
            raise CommandError(text, returncode=USAGE)
        return dict(settings.RETENTION)
    if not LEAST_DAYS <= days <= MOST_DAYS:
        text = f"--older-than must be {LEAST_DAYS} to {MOST_DAYS} days."
        raise CommandError(text, returncode=USAGE)
    names = only or [name for name in POLICIES if name not in NAMED_ONLY]
    return dict.fromkeys(names, days)


def _table(shares_of_policy: dict[str, list[OwnerShare]], days: dict[str, int]) -> str:
    rows = [
        (f"{name}, {_days(days[name])}", share.owner, share.rows, filesizeformat(share.size_bytes))
        for name, shares in shares_of_policy.items()
        for share in shares
    ]
    total = [share for shares in shares_of_policy.values() for share in shares]
    size = filesizeformat(sum(share.size_bytes for share in total))
    rows.append(("total", "", sum(share.rows for share in total), size))
    return table(rows, ("kind", "owner", "rows", "size"), right=2)


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"
