"""`manage.py export`: results of many tasks as a table, with the same values in every format."""

import codecs
import csv
import io
import json
import math
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from agent.protocol.plan import Plan
from profiles.exports import csv_file, many
from profiles.exports.fields import FIELDS
from profiles.exports.many import ROWS, WRITERS
from profiles.models import AttemptMeasurement, Profile
from profiles.services import build_attempt_profile
from profiles.tests.make import (
    SLOWER,
    finished_attempt,
    make_paired_task,
    make_pairing,
    make_profile,
    measurement_json,
    profile_json,
    profiled_pass,
    to_json,
)
from profiles.tests.pages import ended_attempt
from tasks.models import Attempt, Task
from tasks.tests.make import make_task, make_user
from webprofile.errors import DomainError

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("storage")]

HOSTILE = '=cmd()|é,\n"x'


@pytest.fixture
def tasks() -> list[Task]:
    """A task measured in two passes, one with hostile names, and one that never ran."""
    alice = make_user()
    plan = Plan(preset="custom", profiled=2)
    files = {
        "profile.json": profile_json(0.25),
        "profile-2.json": profile_json(0.75),
        "measurement.json": measurement_json(
            profiled_pass(1, 7.0), profiled_pass(2, 9.0), plan=plan
        ),
    }
    measured = ended_attempt(files, alice, plan=plan)
    names = make_profile({"1": 1.0, "2": 0.5}, names={"1": HOSTILE})
    hostile = finished_attempt(to_json(names), owner=alice)
    for attempt in (measured, hostile):
        build_attempt_profile(attempt)
    Task.objects.filter(pk=hostile.task_id).update(title=HOSTILE)
    return [measured.task, hostile.task, make_task(alice)]


def export(path: Path, *arguments: str) -> Path:
    call_command("export", "--all", "-o", str(path), *arguments)
    return path


def rows_of(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".csv":
        return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    return pq.read_table(path).to_pylist()


def test_a_row_of_a_task_has_its_inputs_and_results(tasks, tmp_path):
    Attempt.objects.filter(task=tasks[0]).update(host_memory_bytes=149 << 20)
    for ending in WRITERS:
        rows = rows_of(export(tmp_path / f"all.{ending}"))
        assert [str(row["task"]) for row in rows] == [str(task.pk) for task in tasks], ending
        assert [row["status"] for row in rows] == ["succeeded", "succeeded", "initiated"]
        assert list(rows[0]) == [field.heading for field in ROWS["task"]]
        assert [str(row["host_memory_bytes"]) for row in rows] in (
            ["156237824", "None", "None"], ["156237824", "", ""],
        )  # fmt: skip
        first, last = rows[0], rows[2]
        assert (first["owner"], first["plan"], first["model"]) == (
            "alice@example.com", "custom", "net.mge"
        )  # fmt: skip
        assert float(first["device_total_s"]) == 0.5  # the median of the passes
        assert last["device_total_s"] in (None, "")


def test_a_row_of_an_operator_begins_with_the_fields_of_its_task(tasks, tmp_path):
    for ending in WRITERS:
        rows = rows_of(export(tmp_path / f"all.{ending}", "--rows", "operator"))
        numbers = [str(row["task"]) for row in rows]
        assert numbers == [str(tasks[0].pk)] + [str(tasks[1].pk)] * 2, ending
        assert [float(row["device_time_s"]) for row in rows] == [0.5, 1.0, 0.5]
        assert list(rows[0])[-len(FIELDS) :] == [field.heading for field in FIELDS]
        assert int(rows[0]["device_samples"]) == 2


def test_a_row_of_a_paired_comparison_has_its_arms_and_verdicts(tasks, tmp_path):
    alice = tasks[0].owner
    make_paired_task(SLOWER, owner=alice)
    waiting = make_task(alice, pairing=make_pairing())
    for ending in WRITERS:
        first, *_, decided, undecided = rows_of(export(tmp_path / f"all.{ending}"))
        assert first["arms"] in (None, ""), ending
        assert undecided["task"] in (waiting.pk, str(waiting.pk))
        assert (decided["model"], decided["plan"]) == ("net.mge", "pairs")
        (arm,), (open_arm,) = (
            row["arms"] if ending == "json" else json.loads(row["arms"])
            for row in (decided, undecided)
        )
        assert (arm["arm"], arm["model"], arm["version"]) == ("B", "net.mge", "1.13.0")
        assert arm["options"] == {"fast_run": True}
        verdict = (arm["verdict"], arm["effect"], arm["low"], arm["high"])
        assert verdict == ("slower", 0.1, 0.08, 0.12)
        assert (open_arm["model"], open_arm["verdict"]) == ("net.mge", None)


def test_without_a_clean_pass_iteration_times_are_from_profiled_passes(tasks, tmp_path):
    Profile.objects.update(iterations=7, mean_ms=8.0, min_ms=7.5, max_ms=9.0)
    first = rows_of(export(tmp_path / "all.csv"))[0]
    names = ("iterations", "mean_ms", "min_ms", "max_ms", "median_ms")
    assert [first[name] for name in names] == ["7", "8.0", "7.5", "9.0", ""]


def test_rows_of_tasks_have_the_steady_state_modes_and_interval(tasks, tmp_path):
    attempt = tasks[0].attempts.get()
    AttemptMeasurement.objects.update_or_create(
        attempt=attempt,
        defaults={
            "steady_state": {"is_steady": True, "start": 14, "median_ms": 10.0},
            "modes": [{"median_ms": 10.0, "share": 1.0}],
            "interval": {"low_ms": 9.9, "high_ms": 10.3, "processes": 5},
        },
    )
    first, *others = rows_of(export(tmp_path / "all.json"))
    names = ("steady", "steady_after", "modes", "median_low_ms", "median_high_ms")
    assert [first[name] for name in names] == [
        "yes", 14, [{"median_ms": 10.0, "share": 1.0}], 9.9, 10.3
    ]  # fmt: skip
    assert all(row["steady"] is None for row in others)


def test_csv_has_a_byte_order_mark_if_a_name_is_not_ascii(tasks, tmp_path):
    file = tmp_path / "a.csv"
    for rows in ROWS:
        call_command("export", str(tasks[0].pk), "--rows", rows, "-o", str(file))
        assert file.read_bytes().isascii(), rows
    Task.objects.filter(pk=tasks[0].pk).update(title="夜间运行")
    for rows in ROWS:
        written = export(file, "--rows", rows).read_bytes()
        assert written.startswith(codecs.BOM_UTF8), rows
        assert written.decode("utf-8-sig").startswith("task,")
        assert "夜间运行" in written.decode()


def test_formulas_are_escaped_only_in_csv(tasks, tmp_path):
    (row,) = (r for r in rows_of(export(tmp_path / "a.csv")) if r["title"])
    assert row["title"].startswith("'=cmd()")
    (row,) = (r for r in rows_of(export(tmp_path / "a.json")) if r["title"])
    assert row["title"].startswith("=cmd()")


def test_every_parquet_column_has_a_description(tasks, tmp_path):
    schema = pq.read_schema(export(tmp_path / "a.parquet", "--rows", "operator"))
    assert schema.metadata[b"format"] == b"megengine-web-profile-results"
    assert all(field.metadata[b"description"] for field in schema)
    assert str(schema.field("device_time_s").type) == "double"
    assert str(schema.field("task").type) == "int64"


def test_the_command_lists_the_columns(capsys):
    call_command("export", "--fields", "--rows", "operator")
    output = capsys.readouterr().out
    assert all(field.help in output for field in ROWS["operator"])


def test_nan_differs_from_a_missing_number(tmp_path):
    fields = [many.Field("x", "number", "x"), many.Field("o", "json", "o")]
    columns = [[math.nan, None, math.inf], ['{"a":1}', None, "[]"]]
    tables = {}
    for ending, write in WRITERS.items():
        with (path := tmp_path / f"a.{ending}").open("wb") as stream:
            write(stream, fields, [columns])
        tables[ending] = rows_of(path)
    assert [row["x"] for row in tables["csv"]] == ["nan", "", "inf"]
    assert tables["json"] == [
        {"x": None, "o": {"a": 1}},
        {"x": None, "o": None},
        {"x": None, "o": []},
    ]
    values = [row["x"] for row in tables["parquet"]]
    assert math.isnan(values[0])
    assert values[1:] == [None, math.inf]


@pytest.mark.parametrize("ending", list(WRITERS))
def test_an_export_without_tasks_is_empty(db, tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    call_command("export", "--owner", "nobody@example.com", "-o", str(path))
    assert rows_of(path) == []


def test_filters_and_numbers_select_the_tasks(tasks, tmp_path):
    path = tmp_path / "a.json"
    call_command("export", str(tasks[1].pk), str(tasks[2].pk), "--status", "succeeded", "-o", path)
    assert [row["task"] for row in rows_of(path)] == [tasks[1].pk]
    with pytest.raises(CommandError, match="--all"):
        call_command("export", "-o", path)


def test_an_unreadable_profile_is_reported_and_the_others_are_exported(tasks, tmp_path, capsys):
    Profile.objects.filter(attempt__task=tasks[0]).update(derived_version=0, problem="broken")
    path = tmp_path / "a.csv"
    with pytest.raises(CommandError, match="1 profiles"):
        export(path, "--rows", "operator")
    assert f"#{tasks[0].pk} " in capsys.readouterr().err
    assert len(rows_of(path)) == 2


def test_a_failed_export_leaves_the_existing_file(tasks, tmp_path, settings):
    settings.S3_ENDPOINT_URL = "http://127.0.0.1:9"
    (tmp_path / "a.csv").write_text("before")
    with pytest.raises(CommandError):
        export(tmp_path / "none" / "a.csv")
    with pytest.raises(CommandError, match="profiles could not be read"):
        export(tmp_path / "a.csv", "--rows", "operator")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    with pytest.raises(CommandError, match="--format"):
        export(tmp_path / "a.xlsx")


def test_a_full_disk_is_not_a_usage_error(tasks, tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    for ending in WRITERS:
        with pytest.raises(CommandError, match="No space left") as caught:
            export(tmp_path / "full", "--format", ending)
        assert caught.value.returncode == 1
        with pytest.raises(CommandError) as caught:
            export(tmp_path / "none" / f"a.{ending}")
        assert caught.value.returncode == 2
        assert [path.name for path in tmp_path.iterdir()] == ["full"], ending


def test_parquet_has_row_groups_of_limited_size(tmp_path, monkeypatch):
    monkeypatch.setattr(many, "GROUP_ROWS", 100)
    path = tmp_path / "a.parquet"
    pieces = ([list(range(start, start + 50))] for start in range(0, 1000, 50))
    with path.open("wb") as stream:
        many.write_parquet(stream, ROWS["task"][:1], pieces)
    assert pq.ParquetFile(path).num_row_groups == 10
    assert pq.read_table(path)["task"].to_pylist() == list(range(1000))


@pytest.mark.parametrize("ending", sorted(WRITERS.keys() - {"csv"}))
def test_rows_are_written_while_others_are_still_computed(tmp_path, monkeypatch, ending):
    """An export of many tasks must not be in memory at once."""
    monkeypatch.setattr(many, "GROUP_ROWS", 20_000)
    sizes = []
    with (path := tmp_path / f"a.{ending}").open("wb", buffering=0) as stream:

        def pieces() -> Iterator[list[list[float]]]:
            generator = random.Random(1)
            for _ in range(10):
                yield [[generator.random() for _ in range(20_000)]]
                sizes.append(path.stat().st_size)

        WRITERS[ending](stream, [many.Field("x", "number", "x")], pieces())
    assert sizes[-1] > 0.7 * path.stat().st_size


def test_a_large_csv_table_is_not_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "_IN_MEMORY_BYTES", 1 << 16)
    monkeypatch.setattr(csv_file, "_PART_BYTES", 1 << 16)
    pieces = ([[number / 7 for number in range(1000)]] for _ in range(100))
    tracemalloc.start()
    with (path := tmp_path / "a.csv").open("wb") as stream:
        WRITERS["csv"](stream, [many.Field("x", "number", "x")], pieces)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 0.5 * path.stat().st_size


@pytest.mark.parametrize("ending", list(WRITERS))
def test_an_error_of_the_rows_or_of_the_output_keeps_its_class(ending, capfd):
    def pieces() -> Iterator[list[list[float]]]:
        yield [[1.0]]
        raise DomainError("storage_unreachable", status=503)

    class Closed(io.BytesIO):
        def write(self, data: object) -> int:
            raise BrokenPipeError

    fields = [many.Field("x", "number", "x")]
    with pytest.raises(DomainError, match="storage_unreachable"):
        WRITERS[ending](io.BytesIO(), fields, pieces())
    with pytest.raises(BrokenPipeError):
        WRITERS[ending](Closed(), fields, [[[1.0]]])
    assert capfd.readouterr().err == ""
