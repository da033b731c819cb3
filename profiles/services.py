"""Everything that changes profiles and artifacts."""

from collections.abc import Iterable

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agent.protocol import FileOffer
from profiles import storage
from profiles.analysis.errors import AnalysisError
from profiles.analysis.totals import totals
from profiles.models import LOG_NAME, PROFILE_NAME, Artifact, Profile, artifact_key
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.load_and_run import parse
from profiles.parsers.npz import to_npz
from profiles.parsers.run_log import RunSummary, parse_run_log, parse_warnings
from tasks.models import Attempt, TaskFile
from tasks.reasons import Reason
from tasks.services import task_complete, task_fail
from tasks.states import Outcome, TaskState
from webprofile.errors import DomainError

log = structlog.get_logger()


@transaction.atomic
def artifacts_record(attempt: Attempt, files: Iterable[FileOffer]) -> None:
    """Note the files that an agent says it stored; they are checked when they are read."""
    for file in files:
        Artifact.objects.get_or_create(
            attempt=attempt,
            name=file.name,
            defaults={"size_bytes": file.size_bytes, "md5": file.md5},
        )


def profile_build(attempt: Attempt) -> None:
    """Read an attempt's artifacts, keep their columns and summary, end its task. May be repeated.

    Storage is read and written outside of the transaction; DomainError storage_unreachable passes
    through, so that the caller tries again.
    """
    task = attempt.task
    if task.state != TaskState.PROCESSING:
        return
    try:
        data = storage.read(
            artifact_key(str(attempt.pk), PROFILE_NAME),
            limit_bytes=settings.PROFILE_SIZE_LIMIT_BYTES,
        )
        columns = parse(data, max_bytes=settings.PROFILE_SIZE_LIMIT_BYTES)
        log_text = _log_text(attempt)
        profile = _profile_row(attempt, columns, parse_run_log(log_text))
        profile.warnings = parse_warnings(log_text)
    except ProfileFormatError as error:
        task_fail(task, reason=Reason.PROFILE_UNREADABLE.value, detail=str(error))
        return
    except AnalysisError as error:
        task_fail(task, reason=Reason.NOTHING_TIMED.value, detail=str(error))
        return
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        too_large = error.code == "object_too_large"
        reason = Reason.PROFILE_TOO_LARGE if too_large else Reason.PROFILE_MISSING
        task_fail(task, reason=reason.value)
        return
    storage.write(profile.columns_key, to_npz(columns))
    _profile_keep(attempt, profile)


@transaction.atomic
def _profile_keep(attempt: Attempt, profile: Profile) -> None:
    # only the call that moves the task writes the row: a repeated hint changes nothing
    if task_complete(attempt.task):
        profile.save()
        log.info("profile_built", attempt=str(attempt.pk), operators=profile.operators)


def _profile_row(attempt: Attempt, columns: ProfileColumns, summary: RunSummary | None) -> Profile:
    sums = totals(columns)
    profile = Profile(
        attempt=attempt,
        operators=len(columns),
        device_total_s=sums.device_s,
        host_total_s=sums.host_s,
    )
    if summary is not None:
        profile.iterations = summary.iterations
        profile.mean_ms, profile.min_ms, profile.max_ms = (
            summary.mean_ms,
            summary.min_ms,
            summary.max_ms,
        )
    return profile


def _log_text(attempt: Attempt) -> str:
    """What load_and_run printed, empty if it did not arrive."""
    try:
        data = storage.read(
            artifact_key(str(attempt.pk), LOG_NAME), limit_bytes=settings.LOG_LIMIT_BYTES * 4
        )
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        return ""
    return data.decode("utf-8", "replace")


def abandoned_uploads_purge(limit: int = 200) -> int:
    """Delete what was uploaded for tasks that never waited; returns how many files."""
    files = TaskFile.objects.filter(
        task__state=TaskState.FINISHED,
        task__outcome=Outcome.CANCELLED,
        task__submitted_at=None,
        purged_at=None,
    )[:limit]
    count = 0
    for file in files:
        storage.delete(file.object_key)
        TaskFile.objects.filter(pk=file.pk).update(purged_at=timezone.now())
        count += 1
    return count
