"""`manage.py export`: results of many tasks as one CSV, JSON or Parquet file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from profiles.bulk_exports import operator_columns, task_columns
from profiles.exporting.many import ROWS, WRITERS
from tasks.management.choosing import add_filters, is_narrowed, tasks_chosen
from tasks.models import Task
from webprofile.errors import DomainError
from webprofile.management.bulk import explain_command, plain_errors
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from webprofile.terminal.progress import Progress
from webprofile.terminal.whole_files import whole_file
from webprofile.wording import word


class Command(BaseCommand):
    """Exit code: 0 if all tasks are in the file, 1 if a profile could not be read."""

    help = (
        "Write the results of many tasks into one table. `--fields` prints what the columns hold; "
        "Parquet files carry the same as descriptions of their columns."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(
            parser,
            "export --status succeeded --title nightly -o nightly.parquet",
            "export 12 13 --rows operator -o operators.csv",
            "export --all --format json > all.json",
            "export --fields --rows operator",
            notes="exit code: 0 if all tasks are in the file, 1 if a profile could not be read or "
            "the file not\nbe written, 2 for a mistake in the arguments",
        )
        add_filters(parser)
        add = parser.add_argument
        add("--all", action="store_true", help="every task; otherwise say which")
        add("--rows", choices=sorted(ROWS), default="task", help="one for each; default: task")
        add("--format", choices=list(WRITERS), help="by default as the output's name ends, or csv")
        add("-o", "--output", type=Path, help="where to; by default to standard output")
        add("--fields", action="store_true", help="print the columns and stop")

    def handle(self, *args: Any, **options: Any) -> None:
        fields = ROWS[options["rows"]]
        if options["fields"]:
            rows = [(field.heading, field.kind, field.help) for field in fields]
            self.stdout.write(table(rows, ("column", "kind", "")))
            return
        if not options["all"] and not is_narrowed(options):
            raise CommandError("Say which: numbers, filters or --all.", returncode=USAGE)
        writer_of = WRITERS[_format(options)]
        with plain_errors():
            tasks = tasks_chosen(options)
            with _opened(options["output"]) as stream:
                writer = writer_of(stream, fields)
                skipped = self._write(writer, tasks, options["rows"])
                writer.close()
        if skipped:
            raise CommandError(f"{skipped} profiles could not be read; all others are there.")

    def _write(self, writer: Any, tasks: QuerySet[Task], rows: str) -> int:
        """Returns how many tasks were skipped."""
        problems = []

        def skip(task: Task, error: DomainError) -> None:
            problems.append(task.pk)
            progress.line(f"#{task.pk} {word(error)}")

        with Progress(tasks.count(), "Exporting", unit="tasks") as progress:
            if rows == "task":
                for columns in task_columns(tasks):
                    writer.write(columns)
                    progress.advance(len(columns[0]))
            else:
                for columns in operator_columns(tasks, skip):
                    writer.write(columns)
                    progress.advance()
        return len(problems)


def _format(options: dict[str, Any]) -> str:
    """Raises CommandError for a name that ends in nothing known."""
    if options["format"]:
        return str(options["format"])
    suffix = options["output"].suffix.lower().lstrip(".") if options["output"] else "csv"
    if suffix not in WRITERS:
        raise CommandError(f"Say --format: {', '.join(WRITERS)}.", returncode=USAGE)
    return str(suffix)


@contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO]:
    """The file, which appears under its name only when it is whole; or standard output."""
    if path is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CommandError(f"The output could not be written: {error.strerror}") from error
        return
    try:
        with whole_file(path) as stream:
            yield stream
    except (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError) as error:
        raise CommandError(f"{path}: {error.strerror}", returncode=USAGE) from error
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}; nothing was written") from error
