"""Command `export`: write results of tasks to files."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.commands.listing import add_filters, query_of
from webprofile.client.errors import ClientError, UsageError
from webprofile.client.site import Format, Site
from webprofile.client.waiting import unknown
from webprofile.terminal.exit_codes import FAILED, HELP, REFUSED, SUCCEEDED
from webprofile.terminal.output import whole_file
from webprofile.terminal.progress import Progress

#: file extension by format
FORMATS = {
    "csv": ".csv",
    "json": ".json",
    "trace": ".trace.json",
    "report": ".html",
    "text": ".txt",
}

#: formats of `--table`
TABLE_FORMATS = ("csv", "json")


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
    export.add_argument(
        "tasks",
        nargs="*",
        type=int,
        metavar="TASK",
        help="numbers of tasks; without them, use filters",
    )
    add_filters(export)
    export.add_argument(
        "--format",
        choices=list(FORMATS),
        help="format; default: that of the file's extension, otherwise csv",
    )
    export.add_argument(
        "-o", "--output", help="a file, or a folder (a name without an extension or with a slash "
        "at its end) for one file per task; one .csv can contain several tasks, and its rows then "
        "start with the task's number; default: standard output"
    )  # fmt: skip
    export.add_argument(
        "--table", action="store_true", help="one row per task instead of its operators: "
        "model, title, options, device, version, plan, status, reason, latency, totals; as CSV or "
        "JSON"
    )  # fmt: skip
    export.set_defaults(command=export_tasks)


def export_tasks(args: argparse.Namespace) -> int:
    args.is_folder = bool(args.output) and _is_folder(args.output)
    args.output = Path(args.output) if args.output else None
    args.format = args.format or ("csv" if args.is_folder else _format_of(args.output))
    with open_site() as site:
        tasks = args.tasks or _chosen(site, args)
        if args.table:
            return _table(site, tasks, args)
        if len(tasks) == 1 and not args.is_folder:
            _write(args.output, site.export(tasks[0], args.format))
            return SUCCEEDED
        if args.is_folder:
            return _each(site, tasks, args)
        if args.format != "csv":
            raise UsageError("Several tasks need a folder: -o FOLDER/")
        return _together(site, tasks, args.output)


def _format_of(path: Path | None) -> str:
    """Return the format by the file's extension; raise UsageError for an unknown one."""
    if path is None:
        return "csv"
    # longest first, since .trace.json also ends in .json
    by_length = sorted(FORMATS, key=lambda kind: -len(FORMATS[kind]))
    match = next((kind for kind in by_length if path.name.endswith(FORMATS[kind])), None)
    if match is None:
        endings = ", ".join(FORMATS.values())
        raise UsageError(f"{path}: unknown extension; use {endings} or --format.")
    return match


def _chosen(site: Site, args: argparse.Namespace) -> list[int]:
    query = query_of(args)
    if not query:
        raise UsageError("Give tasks or filters.")
    numbers = [task["id"] for task in site.tasks(limit=0, **query)]
    if not numbers:
        raise ClientError("No matching tasks.")
    return numbers


def _is_folder(name: str) -> bool:
    """Return whether the output is a folder: an existing one or a name without an extension."""
    return name.endswith("/") or Path(name).is_dir() or not Path(name).suffix


def _exports(site: Site, tasks: Sequence[int], format_: Format) -> Iterator[tuple[int, bytes]]:
    """Yield each task with its file, and report tasks without a result."""
    with Progress(len(tasks), "Exporting", unit="tasks") as progress:
        for task in tasks:
            try:
                content = site.export(task, format_)
            except ClientError as error:
                # it concerns all tasks
                if error.exit_code == REFUSED:
                    raise
                progress.line(str(error))
            else:
                yield task, content
            progress.advance()


def _each(site: Site, tasks: Sequence[int], args: argparse.Namespace) -> int:
    """Write one file for each task."""
    _make_folder(args.output)
    written = 0
    for task, content in _exports(site, tasks, args.format):
        # file names of models are untrusted, so they are not used
        _write(args.output / f"task-{task}{FORMATS[args.format]}", content)
        written += 1
    return SUCCEEDED if written == len(tasks) else FAILED


def _together(site: Site, tasks: Sequence[int], output: Path | None) -> int:
    """Write one table, in which each row begins with the task's number."""
    written, rows = 0, list[list[str]]()
    for task, content in _exports(site, tasks, "csv"):
        headings, *lines = _rows(content)
        rows += [[str(task), *line] for line in lines]
        written += 1
    # an existing file is not replaced by an empty one
    if written:
        _write(output, _csv([["task", *headings], *rows]))
    return SUCCEEDED if written == len(tasks) else FAILED


def _table(site: Site, tasks: Sequence[int], args: argparse.Namespace) -> int:
    """Write one row for each task, in several requests, and report unknown tasks."""
    if args.format not in TABLE_FORMATS or args.is_folder:
        raise UsageError("--table writes a single file, CSV or JSON.")
    numbers = sorted(set(tasks))
    if args.format == "json":
        rows = site.table(numbers)
        exported = {row["task"] for row in rows}
        content = (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode()
    else:
        pieces = [list(_rows(piece)) for piece in site.table_files(numbers, "csv")]
        lines = [line for piece in pieces for line in piece[1:]]
        exported = {int(line[0]) for line in lines}
        content = _csv([*pieces[0][:1], *lines])
    _write(args.output, content)
    for number in numbers:
        if number not in exported:
            print(unknown(number), file=sys.stderr)
    return SUCCEEDED if len(exported) == len(numbers) else FAILED


def _csv(rows: list[list[str]]) -> bytes:
    """Encode rows as the site does: with a byte-order mark unless they are ASCII."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    text = buffer.getvalue()
    return text.encode("ascii" if text.isascii() else "utf-8-sig")


def _rows(content: bytes) -> Iterator[list[str]]:
    # a cell may contain the shapes of thousands of tensors; the default limit is 131,072 characters
    csv.field_size_limit(2**31 - 1)
    return csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error


def _write(path: Path | None, content: bytes) -> None:
    """Write to stdout without a path, else to a file that is replaced only when it is complete."""
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
