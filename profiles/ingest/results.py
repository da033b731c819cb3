"""Build an attempt's profile and measurement from its artifacts; the rows are not saved here."""

import math
import re
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import structlog
from django.conf import settings
from pydantic import BaseModel, ValidationError

from agent.protocol.artifacts import (
    LOG_NAME,
    MEASUREMENT_NAME,
    PROFILE_NAMES,
    TRACE_NAMES,
    arm_profile_name,
    limit_of,
    profile_name,
    profile_number,
)
from agent.protocol.measurement import Measurement
from agent.protocol.numbers import LARGEST_NUMBER
from agent.protocol.options import artifact_of
from agent.protocol.pairs import (
    MOST_ARMS,
    OPERATORS_NAME,
    PAIRED_NAME,
    OperatorTimes,
    PairedMeasurement,
    PairRecord,
)
from agent.protocol.plan import Plan
from agent.protocol.run_log import parse_log
from agent.statistics.paired import log_ratio_of_pair, log_time_of_process
from agent.statistics.summaries import Latency, latency, variation
from profiles.analysis.archive import VERSION
from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.analysis.measurement import figures, times_of, used_passes
from profiles.analysis.stability import totals_of_passes
from profiles.comparison.paired_operators import MOST_KEPT, operator_changes
from profiles.formats.columns import Side
from profiles.formats.errors import ProfileFormatError
from profiles.ingest.build import (
    ALL_S,
    DerivedData,
    OnProgress,
    derive,
    ignore_progress,
    profile_row,
)
from profiles.models import AttemptMeasurement, PairedResult, Profile
from tasks.lifecycle.reasons import Reason
from tasks.models import Attempt, artifact_key
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

S = TypeVar("S", bound=BaseModel)

#: artifacts that are read together with the profiles, and shown in addition to them
_BESIDE = (artifact_of("get_static_mem_info"),)
#: warnings of load_and_run; the group is the message without the line prefix
_WARNING = re.compile(r"^\[[^\]\n]{0,300}\] ?\[WARN\] (.+)$", re.MULTILINE)
_MOST_WARNINGS, _LONGEST_WARNING = 20, 300
#: fields of a device state that pages show; the artifact has all of them
_SHOWN_STATE = (
    "at",
    "cpu_percent",
    "load_average",
    "clocks",
    "governor",
    "temperature_c",
    "memory_available_bytes",
    "memory_free_bytes",
    "memory_total_bytes",
    "gpus",
)
#: limits of texts, keys and lists (cores, GPUs, passes)
_LONGEST_TEXT, _LONGEST_KEY, _MOST_ROWS = 500, 100, 200
#: larger numbers are no plausible device readings, and break number formatting
_LARGEST = LARGEST_NUMBER
#: storage errors that a retry cannot fix, with the reason that the task ends with
_STORAGE = {
    "object_missing": Reason.PROFILE_MISSING,
    "object_too_large": Reason.PROFILE_TOO_LARGE,
}


class UnusableError(Exception):
    """The attempt's artifacts cannot become a result; its task ends with `reason`."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason.code}: {detail}" if detail else reason.code)


@dataclass(frozen=True)
class Results:
    """The result of an attempt; `derived` is for storage (`build.store_derived`)."""

    profile: Profile | None
    derived: DerivedData | None
    measurement: AttemptMeasurement | None
    paired: PairedResult | None = None


def read_results(
    attempt: Attempt, profile: Profile | None = None, on_progress: OnProgress = ignore_progress
) -> Results:
    """Read an attempt's artifacts.

    profile: an existing row to update; None creates a new one
    Raises UnusableError, DomainError storage_unreachable.
    """
    # scripts are not measured, so the device state that their agent may report is ignored
    measurement = None if attempt.task.is_script else _measurement(attempt)
    left_out = used_passes(measurement).left_out if measurement else frozenset[str]()
    derived = (
        _derive(attempt, on_progress, left_out)
        if wants_profile(attempt)
        else _beside(attempt, on_progress)
    )
    if derived is not None:
        profile = _profile(attempt, derived, profile)
        if measurement is not None:
            # of the profiled passes; the log covers all passes
            used = used_passes(measurement).used
            times = times_of((row for row in measurement.passes if row.number in used), "profiled")
            _note_iterations(profile, latency(times))
    row = None
    if measurement is not None:
        device_s, host_s = (_totals(attempt, derived, side) for side in ("device", "host"))
        row = measurement_row(attempt, measurement, device_s, host_s)
    return Results(
        profile=profile if derived else None,
        derived=derived,
        measurement=row,
        paired=_paired(attempt, derived, on_progress) if attempt.task.is_paired else None,
    )


def wants_profile(attempt: Attempt) -> bool:
    """Whether a result requires a profile: of scripts, and of plans with profiled passes.

    A run that its user ended early may have none yet.
    """
    if attempt.task.is_script:
        return True
    is_planned = Plan.model_validate(attempt.task.plan).profiled > 0
    return is_planned and (attempt.enough_at is None or bool(profile_files(attempt)))


def profile_files(attempt: Attempt) -> list[tuple[str, str]]:
    """(name, object key) of the attempt's raw profiles, in the order of the passes.

    For a script, these are the files of MegEngine's Profiler: a trace, a memory flow or both.
    """
    return _stored(attempt, TRACE_NAMES if attempt.task.is_script else PROFILE_NAMES)


def _stored(attempt: Attempt, names: Iterable[str]) -> list[tuple[str, str]]:
    """(name, object key) of those of the attempt's artifacts with these names that are stored."""
    keys = {row.name: row.object_key for row in attempt.artifacts.all() if row.is_stored}
    return [(name, keys[name]) for name in names if name in keys]


def _read(attempt: Attempt, name: str, schema: type[S]) -> S:
    """A JSON artifact of the attempt. Raises UnusableError, DomainError storage_unreachable."""
    try:
        data = storage.read(artifact_key(str(attempt.pk), name), limit_bytes=limit_of(name) or 0)
        return schema.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        detail = f"{name}: {place}: {first['msg']}"
        raise UnusableError(Reason.MEASUREMENT_UNREADABLE, detail) from error
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        raise UnusableError(Reason.MEASUREMENT_UNREADABLE, f"{name}: {error.code}") from error


def _paired(
    attempt: Attempt, baseline: DerivedData | None, on_progress: OnProgress
) -> PairedResult:
    """Build the row of a paired comparison.

    baseline: the derived data of the baseline's profile
    """
    measured = _read(attempt, PAIRED_NAME, PairedMeasurement)
    row = paired_row(attempt, measured)
    has_times = bool(_stored(attempt, [OPERATORS_NAME]))
    if baseline is None or not baseline.data.has_operators or not has_times:
        return row
    times = _read(attempt, OPERATORS_NAME, OperatorTimes)
    if not times.pairs or len(times.arms) != len(row.arms):
        return row
    if profiles := _arm_profiles(attempt, baseline.data, len(row.arms), on_progress):
        changes = operator_changes(profiles, times, _iteration_us(measured))
        row.operators = _plain(changes, depth=7, most_rows=MOST_KEPT)
    return row


def _arm_profiles(
    attempt: Attempt, baseline: ProfileData, arms: int, on_progress: OnProgress
) -> list[ProfileData]:
    """Return the profile of each arm; without one that is usable, an empty list."""
    profiles = [baseline]
    for arm in range(1, arms):
        files = _stored(attempt, [arm_profile_name(arm)])
        derived = _derive_optional(attempt, files, on_progress)
        if derived is None or not derived.data.has_operators:
            return []
        profiles.append(derived.data)
    return profiles


def _iteration_us(measured: PairedMeasurement) -> float:
    """Return the iteration of the baseline, median over the pairs that count; 0 without any."""
    turns_ms = [pair.times_ms(0) for pair in measured.pairs if not pair.disturbances]
    # a device may send a pair without whole blocks
    logs = [log_time_of_process(times_ms) for times_ms in turns_ms if len(times_ms) > 1]
    return 1000 * math.exp(statistics.median(logs)) if logs else 0.0


def paired_row(attempt: Attempt, measured: PairedMeasurement) -> PairedResult:
    """Build the row of a paired comparison, not saved yet.

    Raises UnusableError if it has other arms than the task.
    """
    if len(measured.arms) != len(attempt.task.arm_models):
        detail = f"{PAIRED_NAME}: {len(measured.arms)} arms"
        raise UnusableError(Reason.MEASUREMENT_UNREADABLE, detail)
    others = range(1, len(measured.arms))
    return PairedResult(
        attempt=attempt,
        seed=measured.seed,
        measuring_s=measured.measuring_s,
        arms=_plain([arm.model_dump(mode="json") for arm in measured.arms], depth=7),
        pairs=[
            {
                "ratios": [_log_ratio(pair, arm) for arm in others],
                "disturbances": _plain(
                    [row.model_dump(mode="json") for row in pair.disturbances], depth=6
                ),
            }
            for pair in measured.pairs
        ],
        verdicts=_plain(
            [verdict.model_dump(mode="json") for verdict in measured.verdicts], depth=3
        ),
    )


def _log_ratio(pair: PairRecord, arm: int) -> float | None:
    """ln(time of the arm / time of the baseline); None if a device sent no whole pair."""
    try:
        return log_ratio_of_pair(pair.times_ms(0), pair.times_ms(arm))
    except ValueError:
        return None


def _measurement(attempt: Attempt) -> Measurement | None:
    """The attempt's measurement; None if the agent stored none.

    Raises UnusableError if it is unreadable, or missing although the task requires no profile;
    DomainError storage_unreachable.
    """
    if not _stored(attempt, [MEASUREMENT_NAME]):
        if wants_profile(attempt):
            return None
        raise UnusableError(Reason.MEASUREMENT_MISSING)
    return _read(attempt, MEASUREMENT_NAME, Measurement)


def _beside(attempt: Attempt, on_progress: OnProgress) -> DerivedData | None:
    """Derived data of an attempt whose profile is not its result; None without a readable file."""
    files = _stored(attempt, _BESIDE)
    if attempt.task.is_paired:  # the profile of the baseline
        files = [*profile_files(attempt)[:1], *files]
    return _derive_optional(attempt, files, on_progress)


def _derive_optional(
    attempt: Attempt, files: Sequence[tuple[str, str]], on_progress: OnProgress
) -> DerivedData | None:
    """Derived data that the attempt's result does not depend on; None without a usable file.

    Raises DomainError storage_unreachable, reading_stopped.
    """
    within_s = ALL_S / MOST_ARMS if attempt.task.is_paired else ALL_S
    try:
        return derive(files, on_progress, within_s=within_s)
    except (ProfileFormatError, AnalysisError) as error:
        log.warning("artifact_unreadable", attempt=str(attempt.pk), code=error.code)
    except DomainError as error:
        if error.code not in _STORAGE:
            raise
    return None


def _derive(attempt: Attempt, on_progress: OnProgress, disturbed: Collection[str]) -> DerivedData:
    """Derived data of the attempt's profiles, without those of `disturbed` passes."""
    passes = [file for file in profile_files(attempt) if file[0] not in disturbed]
    left_out = [LeftOut(name, "disturbed", "the pass was disturbed") for name in sorted(disturbed)]
    try:
        derived = derive([*passes, *_stored(attempt, _BESIDE)], on_progress, left_out)
        # a model's run without a readable pass is no result: deriving the passes alone raises
        # their error
        is_usable = derived.data.has_operators or attempt.task.is_script
        return derived if is_usable else derive(passes, on_progress, left_out)
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


def _profile(attempt: Attempt, derived: DerivedData, profile: Profile | None) -> Profile:
    profile = profile_row(derived.data, profile)
    profile.attempt = attempt
    if attempt.task.is_script:
        return profile  # a script's output is not a load_and_run log
    log_text = _log_text(attempt)
    profile.warnings = parse_warnings(log_text)
    _note_iterations(profile, latency(parse_log(log_text).e2e_ms))
    return profile


def _note_iterations(profile: Profile, summary: Latency | None) -> None:
    for name in ("iterations", "mean_ms", "min_ms", "max_ms"):
        setattr(profile, name, getattr(summary, name) if summary else None)


def _totals(attempt: Attempt, derived: DerivedData | None, side: Side) -> Sequence[float | None]:
    """Total time of each profiled pass on one side, s; None for a pass that was not merged."""
    if derived is None or not derived.data.has_operators:
        return []
    totals = dict(zip(derived.data.passes, totals_of_passes(derived.data, side), strict=True))
    last = profile_number(profile_files(attempt)[-1][0]) or 0
    return [totals.get(profile_name(number)) for number in range(1, last + 1)]


def _log_text(attempt: Attempt) -> str:
    """The log of load_and_run; empty if it was not stored."""
    try:
        data = storage.read(
            artifact_key(str(attempt.pk), LOG_NAME), limit_bytes=settings.LOG_LIMIT_BYTES * 4
        )
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        return ""
    return data.decode("utf-8", "replace")


def parse_warnings(text: str) -> list[str]:
    """The distinct warnings of a run, such as missing inputs, which pages show to the user."""
    warnings = dict.fromkeys(line.strip()[:_LONGEST_WARNING] for line in _WARNING.findall(text))
    return list(warnings)[:_MOST_WARNINGS]


def measurement_row(
    attempt: Attempt,
    measurement: Measurement,
    device_totals_s: Sequence[float | None],
    host_totals_s: Sequence[float | None] = (),
) -> AttemptMeasurement:
    """Build the row of a measurement, not saved yet; totals hold one value per profile, s."""
    sums, disturbances = figures(measurement), used_passes(measurement).disturbances
    known = [total for total in device_totals_s if total is not None]
    return AttemptMeasurement(
        attempt=attempt,
        derived_version=VERSION,
        **sums | {"passes": _plain(sums["passes"], depth=3)},
        device_totals_s=list(device_totals_s),
        host_totals_s=list(host_totals_s),
        device_cv=variation(known),
        plan=measurement.plan.model_dump(mode="json"),
        disturbances=_plain([row.model_dump(mode="json") for row in disturbances], depth=6),
        canary=_plain(measurement.canary.model_dump(), depth=3) if measurement.canary else {},
        notes=_plain([note.model_dump() for note in measurement.notes], depth=5),
        gate=_plain(measurement.gate, depth=5),
        device={
            when: {key: _plain(state[key], depth=3) for key in _SHOWN_STATE if key in state}
            for when in ("before", "after")
            if isinstance(state := measurement.device.get(when), dict)
        },
        other_load=_plain(measurement.other_load.model_dump(), depth=2)
        if measurement.other_load
        else {},
    )


def _plain(value: Any, *, depth: int, most_rows: int = _MOST_ROWS) -> Any:
    """Reduce untrusted device data to JSON of bounded size and depth.

    PostgreSQL's JSON type allows neither NUL nor NaN.
    """
    if isinstance(value, str):
        return _text(value, _LONGEST_TEXT)
    if isinstance(value, int | float) and not abs(value) < _LARGEST:
        return None
    if isinstance(value, dict | list) and not depth:
        return None
    if isinstance(value, dict):
        return {
            _text(str(key), _LONGEST_KEY): _plain(value[key], depth=depth - 1, most_rows=most_rows)
            for key in islice(value, most_rows)
        }
    if isinstance(value, list):
        return [
            _plain(item, depth=depth - 1, most_rows=most_rows) for item in islice(value, most_rows)
        ]
    return value


def _text(text: str, limit: int) -> str:
    return text[:limit].replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
