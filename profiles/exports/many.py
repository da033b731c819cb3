"""The results of many tasks as one table: its fields, its rows in pieces, and a writer per format.

Memory holds one profile and one piece.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

import arro3.io
import msgspec
from arro3.core import Array, DataType, RecordBatch, RecordBatchReader, Schema
from arro3.core import Field as ArrowField
from django.db.models import Prefetch, QuerySet

from agent.protocol.pairs import ARM_NAMES
from profiles.analysis.errors import AnalysisError
from profiles.exports.csv_file import write_csv
from profiles.exports.fields import FIELDS, Field, as_json, rows_by_time, values_of
from profiles.ingest.loading import profile_data
from profiles.models import AttemptMeasurement, Profile
from profiles.presenters.paired import arm_options
from tasks.models import Attempt, Task, TaskFile
from webprofile.errors import DomainError

FORMAT = "megengine-web-profile-results"
#: version of the fields; increased when a field changes its meaning, not for a new field
VERSION = 1
#: rows of a row group of Parquet, which is the maximum kept in memory
GROUP_ROWS = 50_000

#: number of tasks that are read from the database at once
PIECE = 200

#: the values of each field for m rows, None where a value is absent
Columns = Sequence[Sequence[Any]]
#: callback for a task that has no rows because of an error
Skipped = Callable[[Task, DomainError], object]

#: fields of a task in rows of operators, before the fields of the operator
TASK_FIELDS: tuple[Field, ...] = (
    Field("task", "count", "Number of the task."),
    Field("title", "text", "The owner's words."),
    Field("owner", "text", "E-mail of who asked for it."),
    Field("model", "text", "File name of the model or script."),
    Field("model_md5", "text", "MD5 of the model or script."),
    Field("worker", "text", "Name of the device."),
    Field("version", "text", "Version of MegEngine."),
    Field("plan", "text", "quick, standard, thorough or custom; or script or pairs."),
    Field("options", "json", "Options of load_and_run that differ from their defaults."),
    Field("seed", "text", "Of random inputs; digits, since it may have 19."),
    Field("submitted_at", "text", "When it was submitted, ISO 8601 in UTC."),
)
#: fields of a task in rows of tasks
RESULT_FIELDS: tuple[Field, ...] = (
    Field("status", "text", "initiated, waiting, running, succeeded, failed or cancelled."),
    Field("reason", "text", "Code of why it failed."),
    Field("finished_at", "text", "When it ended, ISO 8601 in UTC."),
    Field("attempts", "count", "How often it was tried."),
    Field("run_s", "number", "How long the last attempt ran, seconds."),
    Field("iterations", "count", "Iterations of the clean passes; without one, while profiling."),
    Field("median_ms", "number", "Median time of an iteration, milliseconds."),
    Field("mean_ms", "number", "Mean of the iterations that `iterations` counts, milliseconds."),
    Field("min_ms", "number", "The shortest of them, milliseconds."),
    Field("max_ms", "number", "The longest of them, milliseconds."),
    Field("p90_ms", "number", "A tenth was slower, milliseconds."),
    Field("p99_ms", "number", "A hundredth was slower, milliseconds."),
    Field("cv", "number", "Standard deviation / mean of the iterations."),
    Field("steady", "text", "Whether the clean passes reach a steady speed: yes or never."),
    Field("steady_after", "count", "Iterations before it."),
    Field("modes", "json", "Speeds of the steady iterations: median_ms and share of each."),
    Field("median_low_ms", "number", "95 % interval of the median over processes, milliseconds."),
    Field("median_high_ms", "number", "Its upper bound, milliseconds."),
    Field("load_ms", "number", "Time to load the model, milliseconds."),
    Field("overhead", "number", "Median while profiling / median without - 1."),
    Field("disturbed_by", "text", "Codes of what disturbed the measurement, with spaces between."),
    Field("operators", "count", "Operators of the profile."),
    Field("device_total_s", "number", "Self times of all operators on the device, seconds."),
    Field("host_total_s", "number", "Self times of all operators on the host, seconds."),
    Field("host_memory_bytes", "count", "Peak memory of the last attempt on the host, bytes."),
    Field("gpu_memory_bytes", "count", "Peak memory of the last attempt on GPUs, bytes."),
    Field(
        "arms",
        "json",
        "Of a paired comparison, the arms after the baseline: model, version, options and verdict.",
    ),
)
#: fields of a verdict in `arms`, as in the API
_VERDICT = ("verdict", "effect", "low", "high", "pairs")
_MEMORY = ("host_memory_bytes", "gpu_memory_bytes")
#: fields by the kind of row: a task or an operator
ROWS: Mapping[str, tuple[Field, ...]] = {
    "task": TASK_FIELDS + RESULT_FIELDS,
    "operator": TASK_FIELDS + FIELDS,
}


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
    return [[value] * len(values[0]) for value in _of_task(task)] + values


def _pieces(tasks: QuerySet[Task]) -> Iterator[list[Task]]:
    """Read tasks by primary key in pieces, so that a long export is not one long query."""
    rows = tasks.order_by("pk").prefetch_related(None).prefetch_related(*_WITH)
    last = 0
    while piece := list(rows.filter(pk__gt=last)[:PIECE]):
        yield piece
        last = piece[-1].pk


_WITH = (
    Prefetch("files", TaskFile.objects.filter(kind=TaskFile.Kind.MODEL)),
    Prefetch("attempts", Attempt.objects.select_related("profile", "measurement", "paired")),
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
        _plan_of(task),
        as_json(task.options),
        str(task.seed),
        _time(task.submitted_at),
    ]


def _plan_of(task: Task) -> str:
    if task.is_script:
        return "script"
    return "pairs" if task.is_paired else str(task.plan.get("preset", ""))


def _of_result(task: Task) -> list[Any]:
    attempts = list(task.attempts.all())
    profile = _profile_of(task)
    measurements = (getattr(attempt, "measurement", None) for attempt in attempts)
    measurement = next(filter(None, measurements), None)
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
        *(_of(measurement, name) for name in ("p90_ms", "p99_ms", "cv")),
        *_steady(measurement),
        *(_of(measurement, name) for name in ("load_ms", "overhead")),
        " ".join(sorted({str(item["code"]) for item in measurement.disturbances}))
        if measurement
        else None,
        *(_of(profile, name) for name in ("operators", "device_total_s", "host_total_s")),
        *(_of(attempts[-1] if attempts else None, name) for name in _MEMORY),
        _arms_of(task),
    ]


def _arms_of(task: Task) -> str | None:
    """Return the arms of a paired comparison after the first, with their verdicts if it has any."""
    if task.pairing is None:
        return None
    results = (getattr(attempt, "paired", None) for attempt in task.attempts.all())
    result = next(filter(None, results), None)
    verdicts = {row["arm"]: row for row in result.verdicts} if result else {}
    models = task.arm_models
    rows = []
    for number, arm in enumerate(task.pairing["arms"], start=1):
        verdict = verdicts.get(number, {})
        row = {
            "arm": ARM_NAMES[number],
            "model": models[number].name if models else None,
            "model_md5": models[number].md5 if models else None,
            "version": arm["runtime_version"],
            "options": arm_options(task, number),
        }
        rows.append(row | {name: verdict.get(name) for name in _VERDICT})
    return as_json(rows)


def _steady(measurement: AttemptMeasurement | None) -> list[Any]:
    if measurement is None:
        return [None] * 5
    state, interval = measurement.steady_state, measurement.interval
    is_steady = state.get("is_steady")
    return [
        None if is_steady is None else "yes" if is_steady else "never",
        state["start"] if is_steady else None,
        as_json(measurement.modes) if measurement.modes else None,
        interval.get("low_ms"),
        interval.get("high_ms"),
    ]


def _profile_of(task: Task) -> Profile | None:
    """Return the profile of the task's successful attempt."""
    profiles = (getattr(attempt, "profile", None) for attempt in task.attempts.all())
    return next(filter(None, profiles), None)


def _of(row: object, name: str) -> Any:
    return getattr(row, name, None)


def _time(moment: Any) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None


def write_json(stream: BinaryIO, fields: Sequence[Field], pieces: Iterable[Columns]) -> None:
    """Write a JSON array with one object per line; nan and infinity, which JSON lacks, are null."""
    names = [field.heading for field in fields]
    is_raw = [field.kind == "json" for field in fields]
    before = b"[\n"
    for columns in pieces:
        for values in zip(*columns, strict=True):
            row = {
                name: msgspec.Raw(value.encode()) if raw and value is not None else value
                for name, raw, value in zip(names, is_raw, values, strict=True)
            }
            stream.write(before + msgspec.json.encode(row))
            before = b",\n"
    stream.write(b"\n]\n" if before == b",\n" else b"[]\n")


class _ParquetOutput(io.RawIOBase):
    """A stream that keeps the first error instead of raising it.

    arro3 panics if a write fails, and loses the class of errors that the batches raise.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.error: BaseException | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                self._stream.write(data)
            except OSError as error:
                self.error = error
        return len(data)


def write_parquet(stream: BinaryIO, fields: Sequence[Field], pieces: Iterable[Columns]) -> None:
    """Write one row group per `GROUP_ROWS` rows; the schema has the description of each field."""
    types = {"text": DataType.utf8(), "json": DataType.utf8(), "count": DataType.int64()}
    described = [
        ArrowField(
            field.heading,
            types.get(field.kind, DataType.float64()),
            metadata={"description": field.help},
        )
        for field in fields
    ]
    schema = Schema(described, metadata={"format": FORMAT, "version": str(VERSION)})
    output = _ParquetOutput(stream)

    def batches() -> Iterator[RecordBatch]:
        try:
            for columns in pieces:
                if output.error is not None:
                    return
                arrays = [
                    Array(column, type=field.type)
                    for column, field in zip(columns, described, strict=True)
                ]
                yield RecordBatch.from_arrays(arrays, schema=schema)
        except (Exception, KeyboardInterrupt) as error:
            output.error = error

    arro3.io.write_parquet(
        RecordBatchReader.from_batches(schema, batches()),
        cast(BinaryIO, output),
        compression="zstd(1)",
        max_row_group_size=GROUP_ROWS,
    )
    if output.error is not None:
        raise output.error


#: functions that write pieces of rows into a stream, by format
WRITERS: Mapping[str, Callable[[BinaryIO, Sequence[Field], Iterable[Columns]], None]] = {
    "csv": write_csv,
    "json": write_json,
    "parquet": write_parquet,
}
