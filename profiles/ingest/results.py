"""From an attempt's artifacts to rows that are not saved yet: its profile and its measurement."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from django.conf import settings

from agent.protocol import Plan
from agent.protocol.artifacts import (
    LOG_NAME,
    TRACE_NAMES,
    artifact_of,
    profile_name,
    profile_number,
)
from agent.protocol.measurement import Measurement
from profiles.analysis.errors import AnalysisError
from profiles.analysis.measuring import Latency, latency, times_of
from profiles.analysis.stability import totals_of_passes
from profiles.formats.columns import Side
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.run_log import RunSummary, parse_run_log, parse_warnings
from profiles.ingest.build import Derived, Told, derive, profile_row, untold
from profiles.ingest.measurements import MeasurementFormatError, measurement_row, read_measurement
from profiles.models import AttemptMeasurement, Profile
from tasks.lifecycle.reasons import Reason
from tasks.models import Attempt, Task, artifact_key
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: artifacts that are read with the profiles
_BESIDE = (artifact_of("get_static_mem_info"),)
#: a DomainError of storage that is final, and what it means for the task
_STORAGE = {
    "object_missing": Reason.PROFILE_MISSING,
    "object_too_large": Reason.PROFILE_TOO_LARGE,
}


class UnusableError(Exception):
    """What an attempt left cannot become a result; its task ends with the reason."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason.value}: {detail}" if detail else reason.value)


@dataclass(frozen=True)
class Results:
    """What an attempt's artifacts say. `derived` goes to storage (`deriving.store_derived`)."""

    profile: Profile | None
    derived: Derived | None
    measurement: AttemptMeasurement | None


def read_results(attempt: Attempt, profile: Profile | None = None, told: Told = untold) -> Results:
    """Read an attempt's artifacts; fills `profile` if one is given.

    Raises UnusableError, DomainError storage_unreachable.
    """
    # a script is not measured: what its agent may say of the device belongs to no figure
    measurement = None if attempt.task.is_script else _measurement(attempt)
    read = _derived if wants_profile(attempt.task) else _beside
    derived = read(attempt, told)
    if derived is not None:
        profile = _profile(attempt, derived, profile)
        if measurement is not None:
            _take_iterations(profile, measurement)
    row = None
    if measurement is not None:
        device_s, host_s = (_totals(attempt, derived, side) for side in ("device", "host"))
        row = measurement_row(attempt, measurement, device_s, host_s)
    return Results(
        profile=profile if derived else None,
        derived=derived,
        measurement=row,
    )


def wants_profile(task: Task) -> bool:
    """Whether the task's attempt must leave a profile: a script, or a plan with profiled passes."""
    return task.is_script or Plan.model_validate(task.plan).profiled > 0


def profile_files(attempt: Attempt) -> list[tuple[str, str]]:
    """(name, object key) of the attempt's raw profiles, in the order of their passes.

    Of a script what its Profiler wrote: a trace, a memory flow or both.
    """
    stored = {each.name for each in attempt.artifacts.all() if each.is_stored}
    if attempt.task.is_script:
        names = [name for name in TRACE_NAMES if name in stored]
        return [(name, artifact_key(str(attempt.pk), name)) for name in names]
    numbers = sorted(filter(None, map(profile_number, stored)))
    return [(name, artifact_key(str(attempt.pk), name)) for name in map(profile_name, numbers)]


def _measurement(attempt: Attempt) -> Measurement | None:
    """None for an agent that left none, which is no fault while there is a profile."""
    try:
        measurement = read_measurement(attempt)
    except MeasurementFormatError as error:
        raise UnusableError(Reason.MEASUREMENT_UNREADABLE, str(error)) from error
    if measurement is None and not wants_profile(attempt.task):
        raise UnusableError(Reason.MEASUREMENT_MISSING)
    return measurement


def files_beside(attempt: Attempt) -> list[tuple[str, str]]:
    """(name, object key) of what else is shown of the attempt's run beside its profiles."""
    found = (each for each in attempt.artifacts.all() if each.is_stored and not each.removed_at)
    names = sorted(each.name for each in found if each.name in _BESIDE)
    return [(name, artifact_key(str(attempt.pk), name)) for name in names]


def _beside(attempt: Attempt, told: Told) -> Derived | None:
    """What an attempt without profiled passes left; None if that is nothing that can be read."""
    files = files_beside(attempt)
    try:
        return derive(files, told) if files else None
    except (ProfileFormatError, AnalysisError) as error:
        log.warning("artifact_unreadable", attempt=str(attempt.pk), code=error.code)
    except DomainError as error:
        if error.code not in _STORAGE:
            raise
    return None


def _derived(attempt: Attempt, told: Told) -> Derived:
    passes = profile_files(attempt)
    try:
        found = derive([*passes, *files_beside(attempt)], told)
        # a model's run whose passes cannot be read is no result, whatever else it left
        whole = found.data.has_operators or attempt.task.is_script
        return found if whole else derive(passes, told)
    except ProfileFormatError as error:
        heavy = error.code == "too_heavy"
        reason = Reason.PROFILE_TOO_HEAVY if heavy else Reason.PROFILE_UNREADABLE
        raise UnusableError(reason, str(error)) from error
    except AnalysisError as error:
        raise UnusableError(Reason.NOTHING_TIMED, str(error)) from error
    except DomainError as error:
        if error.code not in _STORAGE:
            raise
        raise UnusableError(_STORAGE[error.code]) from error


def _profile(attempt: Attempt, derived: Derived, profile: Profile | None) -> Profile:
    profile = profile_row(derived.data, profile)
    profile.attempt = attempt
    if attempt.task.is_script:
        return profile  # what it printed is its own, no log of load_and_run
    log_text = _log_text(attempt)
    profile.warnings = parse_warnings(log_text)
    _note_iterations(profile, parse_run_log(log_text))
    return profile


def _take_iterations(profile: Profile, measurement: Measurement) -> None:
    """The log holds the iterations of all passes; a profile's are those of profiled ones alone."""
    times = times_of([each for each in measurement.passes if each.kept], "profiled")
    _note_iterations(profile, latency(times))


def _note_iterations(profile: Profile, found: RunSummary | Latency | None) -> None:
    for name in ("iterations", "mean_ms", "min_ms", "max_ms"):
        setattr(profile, name, getattr(found, name) if found else None)


def _totals(attempt: Attempt, derived: Derived | None, side: Side) -> Sequence[float | None]:
    """Total of each profiled pass on one side, s; None for one that was not merged."""
    if derived is None or not derived.data.has_operators:
        return []
    totals = dict(zip(derived.data.passes, totals_of_passes(derived.data, side), strict=True))
    last = profile_number(profile_files(attempt)[-1][0]) or 0
    found = [totals.get(profile_name(number)) for number in range(1, last + 1)]
    return [total if total is not None and math.isfinite(total) else None for total in found]


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
