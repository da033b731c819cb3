"""`manage.py export`: results of many tasks as one table, or one profile in any format."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils import timezone

from profiles.analysis.data import ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.exports.formats import FORMATS, prepare_export, profile_of_files
from profiles.exports.many import ROWS, WRITERS, Columns, operator_columns, task_columns
from profiles.exports.provenance import provenance
from profiles.formats.errors import ProfileFormatError
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from tasks.command_filters import add_filters, filtered_tasks, is_narrowed
from tasks.models import Task
from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int
from webprofile.management.bulk import PlainCommand, explain_command
from webprofile.messages.errors import word
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table, whole_file
from webprofile.terminal.progress import Progress

#: file name endings by format, of tables and of one profile
_TABLES = {name: f".{name}" for name in WRITERS}
_PROFILES = {name: format_.ending for name, format_ in FORMATS.items()}


class Command(PlainCommand):
    """Exit code: 0 if all tasks are in the file, 1 if a profile could not be read."""

    help = (
        "Write the results of many tasks into one table. `--fields` describes the columns; Parquet "
        "files contain these descriptions. `--profile` writes one profile, of a task or of files, "
        "in a format that its page also exports."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(
            parser,
            "export --status succeeded --title nightly -o nightly.parquet",
            "export 12 13 --rows operator -o operators.csv",
            "export --all --format json > all.json",
            "export --fields --rows operator",
            "export --profile 12 --query 'type=Concat&order=memory' -o concat.csv",
            "export --profile profile.json profile-2.json -o report.html",
            notes="exit code: 0 if all tasks are in the file, 1 if a profile could not be read or "
            "the file\ncould not be written, 2 for a mistake in the arguments",
        )
        add_filters(parser)
        add = parser.add_argument
        add("--all", action="store_true", help="all tasks, instead of numbers or filters")
        add("--rows", choices=sorted(ROWS), help="what a row is; default: task")
        add(
            "--format", choices=list(_TABLES | _PROFILES), help="default: that of the output's "
            f"extension, otherwise csv; tables: {', '.join(_TABLES)}; "
            f"profiles: {', '.join(_PROFILES)}"
        )  # fmt: skip
        add("-o", "--output", type=Path, help="output file; default: standard output")
        add("--fields", action="store_true", help="describe the columns and exit")
        add(
            "--profile", nargs="+", metavar="TASK|FILE", help="one profile: the number of a task, "
            "or files of load_and_run, one for each pass; files need no site"
        )  # fmt: skip
        add("--query", help="with --profile: the query string of a result page")

    def handle(self, *args: Any, **options: Any) -> None:
        rows_of = options["rows"] or "task"
        fields = ROWS[rows_of]
        if options["fields"]:
            rows = [(field.heading, field.kind, field.help) for field in fields]
            self.stdout.write(table(rows, ("column", "kind", "")))
            return
        is_chosen = options["all"] or is_narrowed(options)
        if options["profile"]:
            if is_chosen or options["rows"]:
                raise CommandError(
                    "--profile excludes numbers, filters and --rows.", returncode=USAGE
                )
            _export_profile(options)
            return
        if options["query"]:
            raise CommandError("--query needs --profile.", returncode=USAGE)
        if not is_chosen:
            raise CommandError("Give numbers, filters or --all.", returncode=USAGE)
        write = WRITERS[_format(options, _TABLES)]
        skipped: list[int] = []
        tasks = filtered_tasks(options)
        with _open_output(options["output"]) as stream:
            write(stream, fields, _pieces(tasks, rows_of, skipped))
        if skipped:
            raise CommandError(f"{len(skipped)} profiles could not be read and are missing.")


def _pieces(tasks: QuerySet[Task], rows: str, skipped: list[int]) -> Iterator[Columns]:
    """Yield the rows in pieces and show the progress; add tasks that have none to `skipped`."""

    def skip(task: Task, error: DomainError) -> None:
        skipped.append(task.pk)
        progress.line(f"#{task.pk} {word(error)}")

    with Progress(tasks.count(), "Exporting", unit="tasks") as progress:
        if rows == "task":
            for columns in task_columns(tasks):
                yield columns
                progress.advance(len(columns[0]))
        else:
            for columns in operator_columns(tasks, skip):
                yield columns
                progress.advance()


def _format(options: dict[str, Any], endings: Mapping[str, str]) -> str:
    """Return the chosen format, by default the one that matches the name of the output.

    endings: file name endings by format. Raises CommandError if the format is not among them.
    """
    name = options["output"].name.lower() if options["output"] else ".csv"
    matching = [key for key, ending in endings.items() if name.endswith(ending)]
    # `.trace.json` also ends with `.json`
    chosen = options["format"] or max(matching, key=lambda key: len(endings[key]), default="")
    if chosen not in endings:
        raise CommandError(f"Give --format: {', '.join(endings)}.", returncode=USAGE)
    return str(chosen)


def _export_profile(options: dict[str, Any]) -> None:
    format_ = FORMATS[_format(options, _PROFILES)]
    question = QueryDict((options["query"] or "").removeprefix("?"))
    try:
        pieces = format_.make(prepare_export(question, *_profile_of(options["profile"])))
    except (ProfileFormatError, AnalysisError, OSError) as error:
        raise CommandError(str(error)) from error
    with _open_output(options["output"]) as stream:
        stream.writelines(pieces)


def _profile_of(sources: list[str]) -> tuple[ProfileData, dict[str, Any], Profile | None]:
    """Return data, provenance and profile of a task, or of files, one for each pass.

    A number means a task, unless a file has this name.
    """
    number = parse_int(sources[0], maximum=LARGEST_KEY) if len(sources) == 1 else None
    if number is not None and not Path(sources[0]).exists():
        profile = Profile.objects.filter(attempt__task_id=number).first()
        if profile is None:
            raise CommandError(f"Task {sources[0]} has no profile.", returncode=USAGE)
        return profile_data(profile), provenance(profile), profile
    meta = {"title": Path(sources[0]).name, "source": "file", "warnings": []}
    meta["exported_at"] = timezone.now().isoformat(timespec="seconds")
    return profile_of_files(sources), meta, None


@contextmanager
def _open_output(path: Path | None) -> Iterator[BinaryIO]:
    """Open the output file, which gets its name when it is complete, or standard output."""
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
