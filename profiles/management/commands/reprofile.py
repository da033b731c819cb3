"""`manage.py reprofile`: rebuild derived data from the raw files."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import structlog
from django.core.management.base import CommandError
from django.db.models import Q, QuerySet

from profiles.analysis.archive import VERSION
from profiles.ingest.rebuild import RebuildError, rebuild_attempt, rebuild_derived
from profiles.models import AttemptMeasurement, Profile
from webprofile.errors import DomainError
from webprofile.management.bulk import PlainCommand
from webprofile.messages.errors import word
from webprofile.terminal.exit_codes import FAILED, USAGE
from webprofile.terminal.output import plain

log = structlog.get_logger()


class Command(PlainCommand):
    """Exit code: 0 if all were rebuilt, 1 if one failed, whose old data are kept, 2 for a mistake
    in the arguments.
    """

    help = (
        "Rebuild tables, statistics and graphs from the raw profiles and measurements, which do "
        "not change. The command can be interrupted and repeated."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--task", type=int, nargs="+", metavar="N", help="results of tasks")
        parser.add_argument("--profile", type=int, nargs="+", metavar="N", help="profiles")
        parser.add_argument("--all", action="store_true", help="all results")
        parser.add_argument(
            "--outdated",
            action="store_true",
            help="only results that another version of this program built",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not any(options[name] for name in ("task", "profile", "all", "outdated")):
            raise CommandError("Give --task N, --profile N, --outdated or --all.", returncode=USAGE)
        self._check_known(options)
        failed = self._rebuild(options)
        if failed:
            sys.exit(FAILED)

    def _rebuild(self, options: dict[str, Any]) -> int:
        """Rebuild what was selected; return how many failed."""
        done = failed = 0
        for name, rebuild in self._chosen(options):
            try:
                rebuild()
            except Exception as error:
                # an unexpected error in one profile must not stop the others
                if not isinstance(error, RebuildError | DomainError):
                    log.exception("profile_rebuild_broke", name=name)
                failed += 1
                text = word(error) if isinstance(error, DomainError) else str(error)
                self.stdout.write(plain(f"{name}: failed: {text or type(error).__name__}"))
            else:
                done += 1
                self.stdout.write(f"{name}: done")
        self.stdout.write(f"{done} rebuilt, {failed} failed")
        return failed

    def _check_known(self, options: dict[str, Any]) -> None:
        for task in options["task"] or ():
            profiles, measurements = _of_tasks([task])
            if not profiles.exists() and not measurements.exists():
                raise CommandError(f"Task {task} has no result.", returncode=USAGE)
        for number in options["profile"] or ():
            if not Profile.objects.filter(pk=number).exists():
                raise CommandError(f"Profile {number} does not exist.", returncode=USAGE)

    def _chosen(self, options: dict[str, Any]) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the name and the rebuild function of each selected profile and measurement."""
        profiles, measurements = _of_tasks(options["task"])
        if options["profile"]:
            profiles = Profile.objects.filter(
                Q(pk__in=options["profile"]) | Q(attempt__task_id__in=options["task"] or ())
            )
            measurements = measurements if options["task"] else measurements.none()
        if options["outdated"]:
            profiles = profiles.exclude(derived_version=VERSION)
            measurements = measurements.exclude(derived_version=VERSION)
        # rows may be deleted or rebuilt concurrently, so each is loaded only when it is processed
        for number in list(profiles.order_by("pk").values_list("pk", flat=True)):
            if profile := Profile.objects.filter(pk=number).first():
                yield f"profile {number} ({_source(profile)})", partial(rebuild_derived, profile)
        alone = measurements.filter(attempt__profile=None).order_by("pk")
        for number in list(alone.values_list("pk", flat=True)):
            if row := AttemptMeasurement.objects.filter(pk=number).first():
                name = f"measurement {number} (task {row.attempt.task_id})"
                yield name, partial(rebuild_attempt, row.attempt)


def _of_tasks(
    numbers: list[int] | None,
) -> tuple[QuerySet[Profile], QuerySet[AttemptMeasurement]]:
    """Profiles and measurements of these tasks; all, if `numbers` is None."""
    profiles, measurements = Profile.objects.all(), AttemptMeasurement.objects.all()
    if numbers is None:
        return profiles, measurements
    of_tasks = Q(attempt__task_id__in=numbers)
    return profiles.filter(of_tasks), measurements.filter(of_tasks)


def _source(profile: Profile) -> str:
    if profile.attempt is not None:
        return f"task {profile.attempt.task_id}"
    return f"import {profile.upload_id}"
