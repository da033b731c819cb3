"""`manage.py submit FILE --as E-MAIL`: many tasks at once, and whether all succeeded."""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from tasks.models import Task
from tasks.states import Status
from tasks.submission.batches import BatchRefusedError, PlannedTask, Refusal, batch_plan, devices_of
from tasks.submission.creation import create_task, fail_copy
from tasks.submission.uploads import FileStore, confirm_task
from tasks.submission.validation import quota_of
from webprofile.api.problems import flattened
from webprofile.client.batchfile.arguments import FORMAT_HELP, add_batch_arguments, blocks_asked
from webprofile.client.batchfile.local_files import look_at, size_of
from webprofile.client.batchfile.matrix import MATRIX_HEADERS, cells_of, room_words
from webprofile.client.batchfile.mistakes import BatchError
from webprofile.errors import DomainError
from webprofile.management.bulk import explain_command, plain_errors, user_named
from webprofile.messages.errors import word
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import HELP, TIMED_OUT
from webprofile.terminal.output import table
from webprofile.terminal.progress import Progress

POLL_S = 1.0
#: of tasks in a message
MOST_NAMED = 50


@dataclass(frozen=True)
class Made:
    """A cell, and its task in the queue or why there is none."""

    planned: PlannedTask
    task: Task | None
    problem: str = ""
    #: the owner has as many live tasks as allowed: later there is room
    is_full: bool = False


class Command(BaseCommand):
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
        add("--as", dest="owner", required=True, metavar="E-MAIL", help="whose tasks they are")
        add("--dry-run", action="store_true", help="check everything, print the matrix, stop")
        add("--wait", action=argparse.BooleanOptionalAction, default=True, help="for the results")
        add("--timeout", type=seconds, metavar="S", help="wait so long at most")
        add("--json", action="store_true", help="the result on standard output as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        with plain_errors():
            owner = user_named(options["owner"], for_work=True)
            cells = cells_of(blocks_asked(argparse.Namespace(**options)), devices_of(owner))
            paths = {asked.path for cell in cells for asked in cell.files}
            with Progress(size_of(paths), "Reading", unit="bytes") as progress:
                files = look_at(paths, progress.advance)
            try:
                planned = batch_plan(owner, cells, files)
            except BatchRefusedError as error:
                raise _mistakes(error) from error
            if options["dry_run"]:
                self.stdout.write(_matrix(planned))
                self._tell_room(owner, len(planned), waits=options["wait"])
                return
            timeout_s = options["timeout"]
            until = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
            made = list[Made]()
            try:
                _submit(owner, planned, until if options["wait"] else 0.0, made)
                in_time = not options["wait"] or _wait(made, until)
            except (KeyboardInterrupt, DomainError):
                self.stderr.write(_going_on(made, len(planned)), str)  # not in red
                raise
            self._tell(made, in_time=in_time, options=options)

    def _tell_room(self, owner: User, tasks: int, *, waits: bool) -> None:
        """Whether the owner's limit leaves room. Raises CommandError if it does not."""
        text, fits = room_words(tasks, **quota_of(owner)._asdict(), waits=waits)
        if not fits:
            raise CommandError(text)
        self.stderr.write(text, str)  # not in red

    def _tell(self, made: Sequence[Made], *, in_time: bool, options: dict[str, Any]) -> None:
        tasks = [each.task.pk for each in made if each.task]
        found = Task.objects.in_bulk(tasks)
        if options["json"]:
            self.stdout.write(json.dumps([_row(each, found) for each in made], indent=1))
        failed = len(made) - len(tasks)
        if options["wait"]:
            live = sum(task.is_live for task in found.values())
            succeeded = sum(task.status == Status.SUCCEEDED for task in found.values())
            failed = len(made) - succeeded - live
            text = f"{succeeded} succeeded, {failed} failed, {live} under way"
            self.stderr.write(text, str)  # not in red
        if failed:
            raise CommandError(f"{failed} of {len(made)} tasks did not succeed.")
        if not in_time:
            raise CommandError("Waited long enough; the tasks go on.", returncode=TIMED_OUT)


def _submit(owner: User, planned: Sequence[PlannedTask], until: float, made: list[Made]) -> None:
    """Each in its turn; where the owner's limit is reached, wait for room until then.

    made: gets each, so that whoever stops this knows how far it came
    """
    store = FileStore()
    with Progress(len(planned), "Submitting", unit="tasks") as progress:
        for each in planned:
            found = _make(owner, each, store)
            while found.is_full and time.monotonic() < until:
                progress.note("waiting until one of the tasks ended")
                time.sleep(POLL_S)
                found = _make(owner, each, store)
            name = f"#{found.task.pk}" if found.task else "refused"
            progress.step(f"{name} {each.cell.name} {found.problem}".rstrip())
            made.append(found)


def _wait(made: Sequence[Made], until: float) -> bool:
    """Whether all ended in time."""
    names = {each.task.pk: each.planned.cell.name for each in made if each.task}
    waiting = set(names)
    with Progress(len(waiting), "Waiting", unit="tasks") as progress:
        while waiting:
            live = _live(waiting)
            for _, task in sorted(Task.objects.in_bulk(waiting - live).items()):
                text = f"#{task.pk} {task.status.value} {names[task.pk]} {task.reason}"
                progress.step(text.rstrip())
            waiting = live
            if waiting and time.monotonic() >= until:
                return False
            if waiting:
                time.sleep(POLL_S)
    return True


def _going_on(made: Sequence[Made], planned: int) -> str:
    live = sorted(_live({each.task.pk for each in made if each.task}))
    numbers = " ".join(map(str, live[:MOST_NAMED])) + (" ..." if live[MOST_NAMED:] else "")
    return f"{len(made)} of {planned} were submitted; {len(live)} go on: {numbers}"


def _make(owner: User, planned: PlannedTask, store: FileStore) -> Made:
    """One task on its way into the queue; whatever fails, no half of it stays in the way."""
    try:
        task = create_task(owner=owner, worker=planned.worker, request=planned.request)
    except DomainError as error:
        is_full = error.code == "quota_reached" and bool(error.data["limit"])
        return Made(planned, None, word(error), is_full)
    try:
        for row, asked in zip(task.files.all(), planned.cell.files, strict=True):
            store.store(row, asked.path)
        confirm_task(task)
    except (DomainError, OSError, KeyboardInterrupt) as error:
        code = error.code if isinstance(error, DomainError) else ""
        problem = word(error) if isinstance(error, DomainError) else str(error)
        fail_copy(task, detail=problem)
        if code == "storage_unreachable" or isinstance(error, KeyboardInterrupt):
            raise  # the next one would fare no better
        return Made(planned, None, problem)
    return Made(planned, task)


def _live(tasks: set[int]) -> set[int]:
    found = Task.objects.only("state").in_bulk(sorted(tasks))
    return {pk for pk, task in found.items() if task.is_live}


def _mistakes(error: BatchRefusedError) -> BatchError:
    return BatchError(
        (cell.place_of(field), text)
        for cell, refusal in error.refusals
        for field, text in _told(refusal)
    )


def _told(refusal: Refusal) -> Iterator[tuple[str, str]]:
    """The fields at fault, and what is wrong with them."""
    if isinstance(refusal, DomainError):
        yield refusal.field, word(refusal)
        return
    for each in flattened(refusal.detail):
        yield each["field"], each["detail"]


def _matrix(planned: Sequence[PlannedTask]) -> str:
    rows = [each.cell.matrix_row for each in planned]
    return f"{table(rows, list(MATRIX_HEADERS))}\n{len(rows)} tasks; nothing was created."


def _row(made: Made, found: dict[int, Task]) -> dict[str, Any]:
    task = found.get(made.task.pk) if made.task else None
    return {
        "task": task.pk if task else None,
        **made.planned.cell.result_row,
        "status": task.status.value if task else "failed",
        "reason": task.reason if task else made.problem,
    }
