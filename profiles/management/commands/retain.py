"""`manage.py retain`: what the rules of RETENTION remove; by default it only says so."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.template.defaultfilters import filesizeformat

from profiles.rules import RULES, Share, piece_remove, shares_of
from webprofile.management.bulk import explain_command, plain_errors
from webprofile.settings.retention import rules_of
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from webprofile.terminal.progress import Progress


class Command(BaseCommand):
    help = (
        "Say what the rules of RETENTION would remove now, by kind and owner; with --yes remove it "
        "at once, which `manage.py sweep` otherwise does in small pieces. Results are kept for "
        "ever, and what is in use stays. Rows go on saying what was there."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, "retain", "retain --rules dumps=30d logs=180d", "retain --yes")
        add = parser.add_argument
        kinds = "; ".join(f"{rule.name}: {rule.help}" for rule in RULES.values())
        text = f"as RETENTION, to see what other rules would remove. {kinds}"
        add("--rules", nargs="+", metavar="KIND=DAYSd", help=text)
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--dry-run", action="store_true", help="only say it: the default")
        group.add_argument("--yes", action="store_true", help="remove it")

    def handle(self, *args: Any, **options: Any) -> None:
        rules = self._rules(options)
        with plain_errors():
            found = {name: shares_of(RULES[name], days) for name, days in rules.items()}
            if options["yes"]:
                for name, days in rules.items():
                    _remove(name, days, sum(share.rows for share in found[name]))
        self.stdout.write(_table(found, rules))
        if not options["yes"]:
            self.stdout.write("Nothing was removed: --yes does it now, the sweep by itself.")

    def _rules(self, options: dict[str, Any]) -> dict[str, int]:
        if options["rules"] and options["yes"]:
            text = "--rules only shows: what is removed, RETENTION says, for the pages tell it."
            raise CommandError(text, returncode=USAGE)
        try:
            rules = rules_of(" ".join(options["rules"] or ()))
        except ImproperlyConfigured as error:
            raise CommandError(str(error), returncode=USAGE) from error
        rules = rules or settings.RETENTION
        if not rules:
            text = "RETENTION is empty here: everything is kept. Give this command the site's."
            raise CommandError(text, returncode=USAGE)
        return rules


def _remove(name: str, days: int, rows: int) -> None:
    with Progress(rows, name, unit="rows") as progress:
        while removed := piece_remove(RULES[name], days):
            progress.advance(removed)


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"


def _table(found: dict[str, list[Share]], rules: dict[str, int]) -> str:
    rows = [
        (f"{name}, {_days(rules[name])}", each.owner, each.rows, filesizeformat(each.size_bytes))
        for name, shares in found.items()
        for each in shares
    ]
    every = [each for shares in found.values() for each in shares]
    size = filesizeformat(sum(each.size_bytes for each in every))
    rows.append(("in all", "", sum(each.rows for each in every), size))
    return table(rows, ("rule", "owner", "rows", "size"), right=2)
