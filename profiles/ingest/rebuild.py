"""Rebuild derived data from the raw files; the states of tasks and uploads do not change.

The old derived data stay until the new ones are complete.
"""

import structlog
from django.db import transaction

from profiles.analysis.errors import AnalysisError
from profiles.formats.errors import ProfileFormatError
from profiles.ingest.build import derive, profile_row, store_derived
from profiles.ingest.results import Results, UnusableError, read_results
from profiles.models import OpenedFile, Profile, ProfileUpload
from tasks.models import Attempt
from webprofile.errors import DomainError

log = structlog.get_logger()


class RebuildError(Exception):
    """Derived data cannot be rebuilt; holds an error code and a detail in English."""

    def __init__(self, code: str, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(f"{code}: {detail}" if detail else code)


def rebuild_derived(profile: Profile) -> None:
    """Rebuild a profile's derived data and rows. Idempotent.

    Raises RebuildError, whose code is saved in `Profile.problem`; DomainError storage_unreachable.
    """
    row = Profile.objects.filter(pk=profile.pk)
    try:
        if profile.attempt is not None:
            rebuild_attempt(profile.attempt)
        elif profile.upload is not None:
            _upload_rebuild(profile, profile.upload)
    except RebuildError as error:
        row.update(problem=error.code, rebuild_hinted_at=None)
        raise
    row.update(rebuild_hinted_at=None)


def rebuild_attempt(attempt: Attempt) -> None:
    """Rebuild an attempt's profile, measurement and pairs from its artifacts.

    Raises RebuildError, DomainError storage_unreachable.
    """
    try:
        results = read_results(attempt, Profile.objects.filter(attempt=attempt).first())
    except UnusableError as error:
        raise RebuildError(error.reason.code, error.detail) from error
    if results.profile is not None and results.derived is not None:
        store_derived(results.profile, results.derived)
    _keep(attempt, results)


@transaction.atomic
def _keep(attempt: Attempt, results: Results) -> None:
    if results.profile is not None:
        results.profile.save()
    for row in filter(None, (results.measurement, results.paired)):
        former = type(row)._default_manager.filter(attempt=attempt).first()
        row.pk = former.pk if former else None
        row.save()
    log.info("profile_rebuilt", attempt=str(attempt.pk))


def _upload_rebuild(profile: Profile, upload: ProfileUpload) -> None:
    files = OpenedFile.objects.filter(upload=upload)
    try:
        derived = derive([(file.stored_name, file.object_key) for file in files])
        profile_row(derived.data, profile)
    except (ProfileFormatError, AnalysisError) as error:
        raise RebuildError(error.code, error.detail) from error
    except DomainError as error:
        if error.code in {"storage_unreachable", "reading_stopped"}:
            raise
        raise RebuildError(error.code, "") from error
    store_derived(profile, derived)
    _save_if_there(profile)


@transaction.atomic
def _save_if_there(profile: Profile) -> None:
    """Save the profile unless it was deleted meanwhile; the sweep then removes the new objects."""
    if Profile.objects.select_for_update().filter(pk=profile.pk).exists():
        profile.save()
        log.info("profile_rebuilt", upload=profile.upload_id)
