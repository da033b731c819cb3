"""export: results of tasks as files."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from webprofile.client.api import Api, Query
from webprofile.client.commands import Parsers, added, opened
from webprofile.client.commands.listing import add_filters, listed, query_of
from webprofile.client.commands.showing import profile_of
from webprofile.client.commands.waiting import unknown
from webprofile.client.errors import ClientError, ProblemError, UsageError
from webprofile.terminal.exit_codes import FAILED, HELP, SUCCEEDED
from webprofile.terminal.progress import Progress
from webprofile.terminal.whole_files import whole_file

#: format and the ending of its files
FORMATS = {
    "csv": ".csv",
    "json": ".json",
    "trace": ".trace.json",
    "report": ".html",
    "text": ".txt",
}

#: of `--table`
TABLE_FORMATS = ("csv", "json")
#: tasks in one request
TABLE_PIECE = 200


def add_parsers(commands: Parsers) -> None:
    export = added(
        commands,
        "export",
        "write results to files",
        "12 -o resnet18.csv",
        "12 --format report -o resnet18.html",
        "--status succeeded --title nightly -o nightly.csv",
        "12 13 14 --format json -o results/",
        "--table --title nightly -o matrix.csv",
        notes=HELP,
    )
    export.add_argument("tasks", nargs="*", type=int, metavar="TASK", help="or filters")
    add_filters(export)
    export.add_argument(
        "--format", choices=list(FORMATS), help="default: as the file's name ends; otherwise csv"
    )
    export.add_argument(
        "-o", "--output", type=Path, help="one file, or a folder for a file of each task: that is "
        "a name without an ending; several tasks fit into one .csv, whose rows then begin with the "
        "task's number; without it standard output"
    )  # fmt: skip
    export.add_argument(
        "--table", action="store_true", help="one row for each task instead of its operators: "
        "model, title, options, device, version, plan, status, reason, latency, totals; as CSV or "
        "JSON"
    )  # fmt: skip
    export.set_defaults(command=export_tasks)


def export_tasks(given: argparse.Namespace) -> int:
    given.format = given.format or _format_of(given.output)
    with opened() as api:
        tasks = given.tasks or _chosen(api, given)
        if given.table:
            return _table(api, tasks, given)
        if len(tasks) == 1 and not _is_folder(given.output):
            _write(given.output, _content(api, tasks[0], given.format))
            return SUCCEEDED
        if _is_folder(given.output):
            return _each(api, tasks, given)
        if given.format != "csv":
            raise UsageError("Several tasks go into a folder: -o FOLDER/")
        return _together(api, tasks, given.output)


def _format_of(path: Path | None) -> str:
    """Raises UsageError for an ending that tells no format."""
    if path is None or _is_folder(path):
        return "csv"
    # a trace ends like JSON
    by_length = sorted(FORMATS, key=lambda kind: -len(FORMATS[kind]))
    found = next((kind for kind in by_length if path.name.endswith(FORMATS[kind])), None)
    if found is None:
        endings = ", ".join(FORMATS.values())
        raise UsageError(f"{path}: an ending of {endings} says the format, or --format does.")
    return found


def _chosen(api: Api, given: argparse.Namespace) -> list[int]:
    query = query_of(given)
    if not query:
        raise UsageError("Name tasks or filters.")
    found = [task["id"] for task in listed(api, query, 0)]
    if not found:
        raise ClientError("No task fits.")
    return found


def _is_folder(path: Path | None) -> bool:
    """A name without an ending is one to be made."""
    return path is not None and (path.is_dir() or not path.suffix)


def _content(api: Api, task: int, kind: str) -> bytes:
    """Raises ClientError for a task without a result."""
    profile = profile_of(api, task)
    if profile is None:
        raise ClientError(f"Task {task} has no result.")
    return api.fetch(f"profiles/{profile['id']}/export/{kind}/")


def _each(api: Api, tasks: Sequence[int], given: argparse.Namespace) -> int:
    """A file for each; those without a result are told."""
    _making(given.output)
    left_out = 0
    with Progress(len(tasks), "Exporting", unit="tasks") as progress:
        for task in tasks:
            try:
                content = _content(api, task, given.format)
            except (ClientError, ProblemError) as error:
                left_out += 1
                _tell(progress, error)
            else:
                # our own names: those of models are a stranger's words
                _write(given.output / f"task-{task}{FORMATS[given.format]}", content)
            progress.advance()
    return FAILED if left_out else SUCCEEDED


def _together(api: Api, tasks: Sequence[int], output: Path | None) -> int:
    """One table; each row begins with its task."""
    left_out = 0
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    with Progress(len(tasks), "Exporting", unit="tasks") as progress:
        for task in tasks:
            try:
                rows = _rows(_content(api, task, "csv"))
            except (ClientError, ProblemError) as error:
                left_out += 1
                _tell(progress, error)
            else:
                headings = next(rows)
                if not text.tell():
                    writer.writerow(["task", *headings])
                writer.writerows([task, *row] for row in rows)
            progress.advance()
    _write(output, text.getvalue().encode())
    return FAILED if left_out else SUCCEEDED


def _table(api: Api, tasks: Sequence[int], given: argparse.Namespace) -> int:
    """A row for each task, asked for piece by piece; those that are not there are told."""
    if given.format not in TABLE_FORMATS or _is_folder(given.output):
        raise UsageError("--table is one file of CSV or JSON.")
    rows: list[Any] = []
    headings: list[str] = []
    wanted = sorted(set(tasks))
    for begin in range(0, len(wanted), TABLE_PIECE):
        query: Query = [("format", given.format)]
        query += [("task", number) for number in wanted[begin : begin + TABLE_PIECE]]
        content = api.fetch("profiles/of-tasks/", query)
        if given.format == "json":
            rows += json.loads(content)
        else:
            lines = _rows(content)
            headings = next(lines)
            rows += lines
    if given.format == "json":
        there = {row["task"] for row in rows}
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    else:
        there = {int(row[0]) for row in rows}
        written = io.StringIO(newline="")
        csv.writer(written).writerows([headings, *rows])
        text = written.getvalue()
    _write(given.output, text.encode())
    for number in wanted:
        if number not in there:
            print(unknown(number), file=sys.stderr)
    return SUCCEEDED if len(there) == len(wanted) else FAILED


def _rows(content: bytes) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(content.decode(), newline=""))


def _tell(progress: Progress, error: ClientError) -> None:
    """What is not about one task alone ends all. Raises it then."""
    if isinstance(error, ProblemError) and error.status in {401, 403}:
        raise error
    progress.line(str(error))


def _making(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error


def _write(path: Path | None, content: bytes) -> None:
    """Standard output without a path; a file appears only when it is whole."""
    if path is None:
        sys.stdout.buffer.write(content)
        return
    try:
        with whole_file(path) as stream:
            stream.write(content)
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError) as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except OSError as error:
        raise ClientError(f"{path}: {error.strerror or error}; nothing was written") from error
