"""`manage.py submit FILE --as E-MAIL`: submit a batch of tasks and wait for their results."""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rest_framework.exceptions import ValidationError

from accounts.models import User
from tasks.lifecycle.reasons import Reason, wording_for
from tasks.models import Task
from tasks.states import Status
from tasks.submission.contents import head_bytes_of, inspect_files
from tasks.submission.creation import create_task, fail_copy, task_rows
from tasks.submission.request import TaskRequest
from tasks.submission.schema import TaskBody, find_worker, task_request_of
from tasks.submission.uploads import FileStore, confirm_task
from tasks.submission.validation import admit, quota_of
from webprofile.api.problems import flattened
from webprofile.client.batchfile import BatchError
from webprofile.client.batchfile.arguments import (
    FORMAT_HELP,
    add_batch_arguments,
    blocks_from_arguments,
)
from webprofile.client.batchfile.local_files import LocalFile, look_at, size_of
from webprofile.client.batchfile.matrix import (
    MATRIX_HEADERS,
    Cell,
    cells_of,
    newest_first,
    room_words,
)
from webprofile.errors import DomainError
from webprofile.management.bulk import PlainCommand, explain_command, user_named
from webprofile.messages.errors import word
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import HELP, TIMED_OUT
from webprofile.terminal.output import table
from webprofile.terminal.progress import Progress
from workers.models import Worker
from workers.selectors import visible_workers

POLL_S = 1.0
#: most tasks that a message lists
MOST_NAMED = 50


@dataclass(frozen=True)
class PlannedTask:
    """A task that can be created: the cell of the matrix, and the validated request.

    worker: None if the request's target chooses it
    """

    cell: Cell
    worker: Worker | None
    request: TaskRequest


@dataclass(frozen=True)
class SubmittedCell:
    """A cell of the batch with its task, or with the reason why it has none."""

    planned: PlannedTask
    task: Task | None
    problem: str = ""
    #: the owner has as many live tasks as allowed; the submission can be retried later
    is_at_limit: bool = False


class Command(PlainCommand):
    help = "Submit tasks: models x devices x versions x option sets x repeats."

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(
            parser,
            "submit nightly.toml --as you@example.com --dry-run",
            "submit nightly.toml --as you@example.com",
            'submit -s train.py --arguments "--epochs 1" -w x86-1 --as you@example.com',
            "submit -m resnet18.mge -w x86-1 -r 3 --as you@example.com --no-wait",
            notes=f"{FORMAT_HELP}\n\n{HELP}",
        )
        add_batch_arguments(parser)
        add = parser.add_argument
        add("--as", dest="owner", required=True, metavar="E-MAIL", help="owner of the tasks")
        add("--dry-run", action="store_true", help="check everything and print the matrix only")
        add("--wait", action=argparse.BooleanOptionalAction, default=True, help="wait for results")
        add("--timeout", type=seconds, default=inf, metavar="S", help="maximum waiting time")
        add("--json", action="store_true", help="print the tasks as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        owner = user_named(options["owner"], for_work=True)
        cells = cells_of(
            blocks_from_arguments(argparse.Namespace(**options)), versions_by_device(owner)
        )
        paths = {file.path for cell in cells for file in cell.files}
        with Progress(size_of(paths), "Reading", unit="bytes") as progress:
            files = look_at(paths, progress.advance)
        planned = plan_tasks(owner, cells, files)
        if options["dry_run"]:
            rows = [[*planned_task.cell.matrix_row.values()] for planned_task in planned]
            self.stdout.write(table(rows, list(MATRIX_HEADERS)))
            self.stdout.write(f"{len(rows)} tasks; nothing was created.")
            self._print_quota(owner, len(planned), waits=options["wait"])
            return
        until = time.monotonic() + options["timeout"]
        submitted = list[SubmittedCell]()
        try:
            submit_tasks(owner, planned, until if options["wait"] else 0.0, submitted)
            in_time = not options["wait"] or wait_for_ends(submitted, until)
        except (KeyboardInterrupt, DomainError):
            self.stderr.write(_interruption_text(submitted, len(planned)), str)  # not in red
            raise
        self._print_results(submitted, in_time=in_time, options=options)

    def _print_quota(self, owner: User, tasks: int, *, waits: bool) -> None:
        """Print how many more tasks the owner's limit allows. Raises CommandError if too few."""
        text, fits = room_words(tasks, **quota_of(owner)._asdict(), waits=waits)
        if not fits:
            raise CommandError(text)
        self.stderr.write(text, str)  # not in red

    def _print_results(
        self, submitted: Sequence[SubmittedCell], *, in_time: bool, options: dict[str, Any]
    ) -> None:
        tasks = [entry.task.pk for entry in submitted if entry.task]
        tasks_by_id = Task.objects.in_bulk(tasks)
        if options["json"]:
            self.stdout.write(
                json.dumps([_json_row(entry, tasks_by_id) for entry in submitted], indent=1)
            )
        failed = len(submitted) - len(tasks)
        if options["wait"]:
            live = sum(task.is_live for task in tasks_by_id.values())
            succeeded = sum(task.status == Status.SUCCEEDED for task in tasks_by_id.values())
            failed = len(submitted) - succeeded - live
            text = f"{succeeded} succeeded, {failed} failed, {live} not ended"
            self.stderr.write(text, str)  # not in red
        if failed:
            raise CommandError(f"{failed} of {len(submitted)} tasks did not succeed.")
        if not in_time:
            raise CommandError("The timeout has passed; the tasks continue.", returncode=TIMED_OUT)


def versions_by_device(user: User) -> dict[str, list[str]]:
    """Return the usable versions of each device that a user may use, newest first."""
    return {
        worker.name: newest_first([r.version for r in worker.runtimes.all() if not r.problem])
        for worker in visible_workers(user)
    }


def plan_tasks(
    owner: User, cells: Iterable[Cell], files: Mapping[Path, LocalFile]
) -> list[PlannedTask]:
    """Validate every cell by the rules for a single task, including the headers of data files.

    The client does this over the API (`tasks/judge/`). Raises BatchError with the first error of
    each invalid cell. Each request is validated again when its task is created, since devices and
    limits may change until then.
    """
    planned, errors = [], list[tuple[str, str]]()
    results: dict[tuple[object, ...], PlannedTask | None] = {}
    for cell in cells:
        if cell.request_key not in results:
            try:
                results[cell.request_key] = _validate(owner, cell, files)
            except (DomainError, ValidationError) as error:
                results[cell.request_key] = None
                errors += [(cell.place_of(field), text) for field, text in _field_errors(error)]
        if result := results[cell.request_key]:
            request = replace(result.request, title=cell.title)
            planned.append(replace(result, cell=cell, request=request))
    if errors:
        raise BatchError(errors)
    return planned


def _validate(owner: User, cell: Cell, files: Mapping[Path, LocalFile]) -> PlannedTask:
    """Validate one cell.

    Raises ValidationError, and DomainError, also those that `submit_task` would raise after the
    upload.
    """
    uploads = [file.body(files[file.path]) for file in cell.files]
    body = TaskBody.read(cell.body(uploads, cell.worker))
    request = task_request_of(body, owner)
    worker = find_worker(body["worker"])
    task, rows = task_rows(owner, request, admit(owner=owner, worker=worker, request=request))
    heads = {}
    for number, (row, local) in enumerate(zip(rows, cell.files, strict=True)):
        row.pk = number
        if size := head_bytes_of(row):
            with local.path.open("rb") as file:
                heads[number] = file.read(size)
    inspect_files(task, rows, heads)
    return PlannedTask(cell, worker, request)


def _field_errors(error: DomainError | ValidationError) -> Iterator[tuple[str, str]]:
    if isinstance(error, DomainError):
        yield error.field, word(error)
        return
    for problem in flattened(error.detail):
        yield problem["field"], problem["detail"]


def submit_tasks(
    owner: User, planned: Sequence[PlannedTask], until: float, submitted: list[SubmittedCell]
) -> None:
    """Submit the tasks one after the other; at the owner's limit, wait for room until `until`.

    submitted: gets an entry for each task at once, so that the caller knows how far an interrupted
        run came
    """
    store = FileStore()
    with Progress(len(planned), "Submitting", unit="tasks") as progress:
        for planned_task in planned:
            entry = _submit_cell(owner, planned_task, store)
            while entry.is_at_limit and time.monotonic() < until:
                progress.note("waiting until one of the tasks ends")
                time.sleep(POLL_S)
                entry = _submit_cell(owner, planned_task, store)
            name = f"#{entry.task.pk}" if entry.task else "refused"
            progress.step(f"{name} {planned_task.cell.name} {entry.problem}".rstrip())
            submitted.append(entry)


def wait_for_ends(submitted: Sequence[SubmittedCell], until: float) -> bool:
    """Wait until all tasks have ended; return False if some are live at the deadline."""
    names = {entry.task.pk: entry.planned.cell.name for entry in submitted if entry.task}
    waiting = set(names)
    with Progress(len(waiting), "Waiting", unit="tasks") as progress:
        while waiting:
            live = _live_ids(waiting)
            for _, task in sorted(Task.objects.in_bulk(waiting - live).items()):
                wording = wording_for(task)
                why = " ".join(filter(None, [str(wording.title) if wording else "", task.message]))
                progress.step(f"#{task.pk} {task.status.value} {names[task.pk]} {why}".rstrip())
            waiting = live
            if waiting and time.monotonic() >= until:
                return False
            if waiting:
                time.sleep(POLL_S)
    return True


def _interruption_text(submitted: Sequence[SubmittedCell], planned: int) -> str:
    live = sorted(_live_ids({entry.task.pk for entry in submitted if entry.task}))
    numbers = " ".join(map(str, live[:MOST_NAMED])) + (" ..." if live[MOST_NAMED:] else "")
    return f"{len(submitted)} of {planned} were submitted; {len(live)} continue: {numbers}"


def _submit_cell(owner: User, planned: PlannedTask, store: FileStore) -> SubmittedCell:
    """Create a task, copy its files and queue it. If a step fails, the task is marked as failed."""
    try:
        task = create_task(owner=owner, worker=planned.worker, request=planned.request)
    except DomainError as error:
        is_at_limit = error.code == "quota_reached" and bool(error.data["limit"])
        return SubmittedCell(planned, None, word(error), is_at_limit)
    try:
        for row, file in zip(task.files.all(), planned.cell.files, strict=True):
            store.store(row, file.path)
        confirm_task(task)
    except (DomainError, OSError, KeyboardInterrupt) as error:
        code = error.code if isinstance(error, DomainError) else ""
        problem = word(error) if isinstance(error, DomainError) else str(error)
        fail_copy(task, reason=Reason.UPLOAD_ABANDONED, detail=problem)
        if code == "storage_unreachable" or isinstance(error, KeyboardInterrupt):
            raise  # the next one would fare no better
        return SubmittedCell(planned, None, problem)
    return SubmittedCell(planned, task)


def _live_ids(tasks: set[int]) -> set[int]:
    tasks_by_id = Task.objects.only("state").in_bulk(sorted(tasks))
    return {pk for pk, task in tasks_by_id.items() if task.is_live}


def _json_row(submitted: SubmittedCell, tasks_by_id: dict[int, Task]) -> dict[str, Any]:
    task = tasks_by_id.get(submitted.task.pk) if submitted.task else None
    return {
        "task": task.pk if task else None,
        **submitted.planned.cell.result_row,
        "status": task.status.value if task else "failed",
        "reason": task.reason if task else submitted.problem,
    }
