"""Fields and writers of the table of many tasks; a writer keeps at most one piece in memory."""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from profiles.exports.csv_file import CsvWriter
from profiles.exports.fields import FIELDS, Field

FORMAT = "megengine-web-profile-results"
#: version of the fields; increased when a field changes its meaning, not for a new field
VERSION = 1
#: rows of a row group of Parquet, which is the maximum kept in memory
GROUP_ROWS = 50_000

#: the values of one field for m rows, None where a value is absent; writers take lists of these
Column = Sequence[Any]

#: fields of a task in rows of operators, before the fields of the operator
TASK_FIELDS: tuple[Field, ...] = (
    Field("task", "count", "Number of the task."),
    Field("title", "text", "The owner's words."),
    Field("owner", "text", "E-mail of who asked for it."),
    Field("model", "text", "File name of the model or script."),
    Field("model_md5", "text", "MD5 of the model or script."),
    Field("worker", "text", "Name of the device."),
    Field("version", "text", "Version of MegEngine."),
    Field("plan", "text", "quick, standard, thorough or custom; script for a script."),
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
    Field("iterations", "count", "Iterations of the clean pass; without one, while profiling."),
    Field("median_ms", "number", "Median time of an iteration, milliseconds."),
    Field("mean_ms", "number", "Mean of the iterations that `iterations` counts, milliseconds."),
    Field("min_ms", "number", "The shortest of them, milliseconds."),
    Field("max_ms", "number", "The longest of them, milliseconds."),
    Field("p90_ms", "number", "A tenth was slower, milliseconds."),
    Field("p99_ms", "number", "A hundredth was slower, milliseconds."),
    Field("cv", "number", "Standard deviation / mean of the iterations."),
    Field("load_ms", "number", "Time to load the model, milliseconds."),
    Field("overhead", "number", "Median while profiling / median without - 1."),
    Field("disturbed_by", "text", "Codes of what disturbed the measurement, with spaces between."),
    Field("operators", "count", "Operators of the profile."),
    Field("device_total_s", "number", "Self times of all operators on the device, seconds."),
    Field("host_total_s", "number", "Self times of all operators on the host, seconds."),
)
#: fields by the kind of row: a task or an operator
ROWS: Mapping[str, tuple[Field, ...]] = {
    "task": TASK_FIELDS + RESULT_FIELDS,
    "operator": TASK_FIELDS + FIELDS,
}


class JsonWriter:
    """Write a JSON array with one object per line; nan and infinity, which JSON lacks, are null."""

    def __init__(self, stream: BinaryIO, fields: Sequence[Field]) -> None:
        self._stream = stream
        self._names = [field.heading for field in fields]
        self._raw = [field.kind == "json" for field in fields]
        self._before = b"[\n"

    def write(self, columns: Sequence[Column]) -> None:
        for values in zip(*columns, strict=True):
            row = {
                name: msgspec.Raw(value.encode()) if raw and value is not None else value
                for name, raw, value in zip(self._names, self._raw, values, strict=True)
            }
            self._stream.write(self._before + msgspec.json.encode(row))
            self._before = b",\n"

    def close(self) -> None:
        self._stream.write(b"\n]\n" if self._before == b",\n" else b"[]\n")


class ParquetWriter:
    """Write one row group per `GROUP_ROWS` rows; the schema has the description of each field."""

    def __init__(self, stream: BinaryIO, fields: Sequence[Field]) -> None:
        types = {"text": pa.string(), "json": pa.string(), "count": pa.int64()}
        about = {"format": FORMAT, "version": str(VERSION)}
        self._schema = pa.schema(
            [
                pa.field(
                    field.heading,
                    types.get(field.kind, pa.float64()),
                    metadata={"description": field.help},
                )
                for field in fields
            ],
            metadata=about,
        )
        self._file = pq.ParquetWriter(stream, self._schema, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, columns: Sequence[Column]) -> None:
        arrays = [
            pa.array(column, type=field.type, from_pandas=False)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        batch = pa.record_batch(arrays, schema=self._schema)
        self._waiting.append(batch)
        self._rows += batch.num_rows
        if self._rows >= GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting), row_group_size=GROUP_ROWS)
        self._waiting, self._rows = [], 0


WRITERS: Mapping[str, type[CsvWriter] | type[JsonWriter] | type[ParquetWriter]] = {
    "csv": CsvWriter,
    "json": JsonWriter,
    "parquet": ParquetWriter,
}
