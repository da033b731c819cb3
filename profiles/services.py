"""Everything that changes profiles and artifacts."""

import math
from collections.abc import Iterable

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agent.protocol import FileOffer, Plan
from agent.protocol.artifacts import (
    LOG_NAME,
    PROFILE_NAME,
    TOTAL_LIMIT_BYTES,
    limit_of,
)
from agent.protocol.measurement import Measurement
from profiles import storage
from profiles.analysis.errors import AnalysisError
from profiles.analysis.measuring import latency, times_of
from profiles.analysis.totals import totals
from profiles.measurements import (
    MeasurementFormatError,
    further_totals,
    measurement_read,
    measurement_row,
)
from profiles.models import Artifact, AttemptMeasurement, Profile, artifact_key
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.load_and_run import parse
from profiles.parsers.npz import to_npz
from profiles.parsers.run_log import RunSummary, parse_run_log, parse_warnings
from tasks.models import Attempt, Task, TaskFile
from tasks.reasons import Reason
from tasks.services import task_complete, task_fail
from tasks.states import Outcome, TaskState
from webprofile.errors import DomainError

log = structlog.get_logger()


def artifacts_judge(attempt: Attempt, files: Iterable[FileOffer]) -> list[tuple[FileOffer, str]]:
    """Each offered file with why it may not be stored, in one line; empty if it may.

    Each must have a known name and its size; with what is recorded already all must fit together.
    """
    known = dict(attempt.artifacts.values_list("name", "size_bytes"))
    total, judged = sum(known.values()), []
    for file in files:
        added = file.size_bytes - known.get(file.name, 0)
        refused = _why_refused(file, total + added)
        if refused:
            log.warning("artifact_refused", attempt=str(attempt.pk), name=file.name, why=refused)
        else:
            total += added
            known[file.name] = file.size_bytes
        judged.append((file, refused))
    return judged


def artifacts_allowed(attempt: Attempt, files: Iterable[FileOffer]) -> list[FileOffer]:
    """Those of the offered files that the attempt may store, in their order."""
    return [file for file, refused in artifacts_judge(attempt, files) if not refused]


def _why_refused(file: FileOffer, total_bytes: int) -> str:
    limit = limit_of(file.name)
    if limit is None:
        return "no file of this name is kept"
    if file.size_bytes > limit:
        return f"it has {file.size_bytes} bytes, the most is {limit}"
    if total_bytes > TOTAL_LIMIT_BYTES:
        return f"all files together would have {total_bytes} bytes, the most is {TOTAL_LIMIT_BYTES}"
    return ""


@transaction.atomic
def artifacts_offer(attempt: Attempt, files: Iterable[FileOffer]) -> None:
    """Note the files that an agent was given places for. Repeating it changes nothing."""
    _note(attempt, files, is_stored=False)


@transaction.atomic
def artifacts_record(attempt: Attempt, files: Iterable[FileOffer]) -> None:
    """Note the files that an agent says it stored; they are checked when they are read."""
    _note(attempt, files, is_stored=True)


def _note(attempt: Attempt, files: Iterable[FileOffer], *, is_stored: bool) -> None:
    for file in files:
        Artifact.objects.update_or_create(
            attempt=attempt,
            name=file.name,
            defaults={"size_bytes": file.size_bytes, "md5": file.md5, "is_stored": is_stored},
        )


class _Unusable(Exception):
    """What an attempt left cannot become a result; ends its task with a reason."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason.value)


def profile_build(attempt: Attempt) -> None:
    """Read an attempt's artifacts, keep their columns and summary, end its task. May be repeated.

    Storage is read and written outside of the transaction; DomainError storage_unreachable passes
    through, so that the caller tries again.
    """
    task = attempt.task
    if task.state != TaskState.PROCESSING:
        return
    try:
        measurement = _read_measurement(attempt)
        profile, columns = _read_profile(attempt) if wants_profile(task) else (None, None)
    except _Unusable as unusable:
        task_fail(task, reason=unusable.reason.value, detail=unusable.detail)
        return
    row = None
    if measurement is not None:
        first = [_finite(profile.device_total_s)] if profile else []
        if profile is not None:
            _take_iterations(profile, measurement)
        row = measurement_row(attempt, measurement, further_totals(attempt, first))
    if profile is not None and columns is not None:
        storage.write(profile.columns_key, to_npz(columns))
    _results_keep(attempt, profile, row)


def wants_profile(task: Task) -> bool:
    """Whether the task's plan has profiled passes, so that its attempt must leave a profile."""
    return Plan.model_validate(task.plan).profiled > 0


@transaction.atomic
def _results_keep(
    attempt: Attempt, profile: Profile | None, measurement: AttemptMeasurement | None
) -> None:
    # only the call that moves the task writes the rows: a repeated hint changes nothing
    if not task_complete(attempt.task):
        return
    if profile is not None:
        profile.save()
    if measurement is not None:
        measurement.save()
    operators = profile.operators if profile else 0
    log.info("profile_built", attempt=str(attempt.pk), operators=operators)


def _read_measurement(attempt: Attempt) -> Measurement | None:
    """None for an agent that left none, which is no fault while there is a profile."""
    try:
        measurement = measurement_read(attempt)
    except MeasurementFormatError as error:
        raise _Unusable(Reason.MEASUREMENT_UNREADABLE, str(error)) from error
    if measurement is None and not wants_profile(attempt.task):
        raise _Unusable(Reason.MEASUREMENT_MISSING)
    return measurement


def _read_profile(attempt: Attempt) -> tuple[Profile, ProfileColumns]:
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
        raise _Unusable(Reason.PROFILE_UNREADABLE, str(error)) from error
    except AnalysisError as error:
        raise _Unusable(Reason.NOTHING_TIMED, str(error)) from error
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        too_large = error.code == "object_too_large"
        raise _Unusable(
            Reason.PROFILE_TOO_LARGE if too_large else Reason.PROFILE_MISSING
        ) from error
    return profile, columns


def _take_iterations(profile: Profile, measurement: Measurement) -> None:
    """The log holds the iterations of all passes; a profile's are those of profiled ones alone."""
    times = times_of([each for each in measurement.passes if each.kept], "profiled")
    found = latency(times)
    profile.iterations = found.iterations if found else None
    profile.mean_ms, profile.min_ms, profile.max_ms = (
        (found.mean_ms, found.min_ms, found.max_ms) if found else (None, None, None)
    )


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and math.isfinite(seconds) else None


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
        task__outcome__in=(Outcome.CANCELLED, Outcome.FAILED),
        task__submitted_at=None,
        purged_at=None,
    )[:limit]
    count = 0
    for file in files:
        storage.delete(file.object_key)
        TaskFile.objects.filter(pk=file.pk).update(purged_at=timezone.now())
        count += 1
    return count
