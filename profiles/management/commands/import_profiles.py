"""`manage.py import_profiles FOLDER|FILE... --as E-MAIL`: import many profiles for a user."""

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from accounts.models import User
from profiles.imports.local_files import import_profile, profiles_below
from profiles.models import ProfileUpload
from webprofile.client.batchfile import BatchError
from webprofile.errors import DomainError
from webprofile.management.bulk import PlainCommand, explain_command, user_named
from webprofile.messages.errors import word
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import TIMED_OUT, USAGE
from webprofile.terminal.output import plain
from webprofile.terminal.progress import Progress

POLL_S = 1.0
#: ids per query
PIECE = 500
State = ProfileUpload.State


class Command(PlainCommand):
    """Exit code: 0 if all supported files became profiles, 1 if not, 4 if --timeout passed."""

    help = (
        "Import profiles from this machine's disk, as the page Profiles does. Formats are detected "
        "from the contents; other files are listed with the reason and skipped. The running site "
        "reads the profiles; --no-wait does not wait for that. The command can be interrupted and "
        "repeated: no profile is imported twice."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(
            parser,
            "import_profiles measured/ --as you@example.com",
            "import_profiles run-1/ run-2/ --passes --as you@example.com --no-wait",
            notes="formats: JSON of load_and_run --profile or get_profile(), memory_flow.svg,\n"
            "chrome_timeline.json, StaticMemoryInfo.json with the graph.json beside it\n\n"
            "exit code: 0 if all profiles were imported, even if other files were skipped;\n"
            "1 if a profile failed, 2 for a mistake in the arguments, 4 if --timeout passed",
        )
        add = parser.add_argument
        add("paths", nargs="+", type=Path, metavar="FOLDER|FILE", help="folders include subfolders")
        add("--as", dest="owner", required=True, metavar="E-MAIL", help="owner of the profiles")
        add("--passes", action="store_true", help="files of a folder are passes of one profile")
        add("--again", action="store_true", help="also import files that this user imported before")
        add("--wait", action=argparse.BooleanOptionalAction, default=True, help="wait for results")
        add("--timeout", type=seconds, metavar="S", help="maximum waiting time")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = user_named(options["owner"], for_work=True)
        below = profiles_below(options["paths"], folder_is_one=options["passes"])
        for path, why in below.left_out:
            self.stderr.write(
                f"{plain(path)}: skipped. {plain(word(why))}", str
            )  # without the colour of errors
        groups = below.profiles
        if not groups:
            raise CommandError("None of the files is a profile.", returncode=USAGE)
        uploads, failed = self._open(owner, groups, again=options["again"])
        timeout_s = options["timeout"]
        until = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        if options["wait"]:
            failed += _wait(uploads, until)
        left = _live(uploads) if options["wait"] else []
        stored = len(groups) - failed - len(left)
        parts = [f"{stored} {'imported' if options['wait'] else 'stored'}", f"{failed} failed"]
        parts += [f"{len(left)} being read"] if left else []
        self.stderr.write(", ".join([*parts, f"{len(below.left_out)} skipped"]), str)
        if failed:
            raise CommandError(f"{failed} of {len(groups)} could not be imported.")
        if left:
            raise CommandError("The timeout has passed; the site continues.", returncode=TIMED_OUT)

    def _open(
        self, owner: User, groups: list[tuple[Path, ...]], *, again: bool
    ) -> tuple[list[int], int]:
        """Return (ids of the imports that are being read, number of rejected profiles)."""
        uploads: list[int] = []
        with Progress(len(groups), "Storing", unit="profiles") as progress:
            for files in groups:
                try:
                    imported = import_profile(owner, files, again=again)
                except (DomainError, BatchError, OSError) as error:
                    if getattr(error, "code", "") == "storage_unreachable":
                        raise  # the next profile would fail as well
                    text = word(error) if isinstance(error, DomainError) else str(error)
                    progress.line(f"{files[0]}: {text}")
                else:
                    number = imported.upload.pk
                    uploads.append(number)
                    done = (
                        f"imported as {number}"
                        if imported.is_new
                        else f"was imported before: {number}"
                    )
                    self.stdout.write(f"{plain(files[0])}: {done}")
                progress.advance()
        return uploads, len(groups) - len(uploads)


def _wait(uploads: list[int], until: float) -> int:
    """Wait until all imports are read or the time is over; returns the number of failures."""
    failed = 0
    waiting = set(uploads)
    with Progress(len(uploads), "Reading", unit="profiles") as progress:
        while waiting:
            live = set(_live(sorted(waiting)))
            rows = {row.pk: row for row in _rows(sorted(waiting - live))}
            for number in sorted(waiting - live):
                row = rows.get(number)
                if row is None or row.state == State.DELETED:
                    failed += 1
                    progress.line(f"import {number}: deleted meanwhile")
                elif row.state == State.FAILED:
                    failed += 1
                    text = word(DomainError(f"opened_{row.problem}", name=row.name))
                    progress.line(f"import {number}: {text}")
            progress.advance(len(waiting) - len(live))
            waiting = live
            if not waiting or time.monotonic() >= until:
                break
            time.sleep(POLL_S)
    return failed


def _rows(uploads: list[int]) -> Iterator[ProfileUpload]:
    for start in range(0, len(uploads), PIECE):
        yield from ProfileUpload.objects.filter(pk__in=uploads[start : start + PIECE])


def _live(uploads: list[int]) -> list[int]:
    return [row.pk for row in _rows(uploads) if row.state in (State.INITIATED, State.PROCESSING)]
