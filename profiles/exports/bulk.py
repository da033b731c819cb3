"""Export the results of many tasks as one table, in pieces; memory holds one profile and one
piece.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.db.models import Prefetch, QuerySet

from profiles.analysis.errors import AnalysisError
from profiles.exports.fields import as_json, rows_by_time, values_of
from profiles.exports.many import Column
from profiles.ingest.loading import profile_data
from profiles.models import AttemptMeasurement, Profile
from tasks.models import Attempt, Task, TaskFile
from webprofile.errors import DomainError

#: number of tasks that are read from the database at once
PIECE = 200

Columns = Sequence[Column]
#: callback for a task that has no rows because of an error
Skipped = Callable[[Task, DomainError], object]


def task_columns(tasks: QuerySet[Task]) -> Iterator[Columns]:
    """Yield pieces of `ROWS["task"]`: one row for each task, including tasks without a result."""
    for piece in _pieces(tasks):
        rows = [_of_task(task) + _of_result(task) for task in piece]
        yield list(zip(*rows, strict=True))


def operator_columns(tasks: QuerySet[Task], skipped: Skipped) -> Iterator[Columns]:
    """Yield pieces of `ROWS["operator"]`: the operators of each task, slowest on the device first.

    A task without a profile has no rows; one whose profile cannot be read is passed to `skipped`.
    """
    for piece in _pieces(tasks):
        for task in piece:
            profile = _profile_of(task)
            if profile is None:
                continue
            try:
                yield _operators(task, profile)
            except DomainError as error:
                skipped(task, error)


def _operators(task: Task, profile: Profile) -> Columns:
    data = profile_data(profile)
    try:
        values = values_of(data, rows_by_time(data.columns))
    except AnalysisError as error:
        raise DomainError("export_question", detail=str(error)) from error
    count = len(values[0].values)
    return [[value] * count for value in _of_task(task)] + [column.optional() for column in values]


def _pieces(tasks: QuerySet[Task]) -> Iterator[list[Task]]:
    """Read tasks by primary key in pieces, so that a long export is not one long query."""
    rows = tasks.order_by("pk").prefetch_related(None).prefetch_related(*_WITH)
    last = 0
    while piece := list(rows.filter(pk__gt=last)[:PIECE]):
        yield piece
        last = piece[-1].pk


_WITH = (
    Prefetch("files", TaskFile.objects.filter(kind=TaskFile.Kind.MODEL)),
    Prefetch("attempts", Attempt.objects.select_related("profile", "measurement")),
)


def _of_task(task: Task) -> list[Any]:
    model = next(iter(task.files.all()), None)
    return [
        task.pk,
        task.title,
        task.owner.email,
        model.name if model else None,
        model.md5 if model else None,
        task.worker.name,
        task.runtime_version,
        "script" if task.is_script else str(task.plan.get("preset", "")),
        as_json(task.options),
        str(task.seed),
        _time(task.submitted_at),
    ]


def _of_result(task: Task) -> list[Any]:
    attempts = list(task.attempts.all())
    profile = _profile_of(task)
    measurement = _measurement_of(task)
    # for a plan without a clean pass, only the times of its log are known
    has_clean = measurement is not None and measurement.iterations
    times: AttemptMeasurement | Profile | None = measurement if has_clean else profile
    return [
        task.status.value,
        task.reason,
        _time(task.finished_at),
        len(attempts),
        attempts[-1].run_s if attempts else None,
        *(_of(times, name) for name in ("iterations", "median_ms", "mean_ms", "min_ms", "max_ms")),
        *(_of(measurement, name) for name in ("p90_ms", "p99_ms", "cv", "load_ms", "overhead")),
        " ".join(sorted({str(item["code"]) for item in measurement.contaminations}))
        if measurement
        else None,
        *(_of(profile, name) for name in ("operators", "device_total_s", "host_total_s")),
    ]


def _profile_of(task: Task) -> Profile | None:
    """Return the profile of the task's successful attempt."""
    profiles = (getattr(attempt, "profile", None) for attempt in task.attempts.all())
    return next(filter(None, profiles), None)


def _measurement_of(task: Task) -> AttemptMeasurement | None:
    measurements = (getattr(attempt, "measurement", None) for attempt in task.attempts.all())
    return next(filter(None, measurements), None)


def _of(row: object, name: str) -> Any:
    return getattr(row, name, None)


def _time(moment: Any) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None
