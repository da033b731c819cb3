"""`manage.py tasks`: list tasks, and cancel, end early, repeat or delete many at once."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet

from profiles.retention.deletion import delete_task
from tasks.command_filters import add_filters, filtered_tasks, is_narrowed
from tasks.lifecycle.cancel import cancel_and_check, end_early
from tasks.models import Purpose, Task
from tasks.states import LIVE, TaskState
from tasks.submission.copies import repeat_task
from webprofile.errors import DomainError
from webprofile.management.bulk import PlainCommand, confirm, explain_command
from webprofile.messages.errors import word
from webprofile.terminal.arguments import count
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from webprofile.terminal.progress import Progress

#: number of rows that are read from the database at a time
CHUNK_ROWS = 200
FIELDS = (
    "task", "status", "reason", "owner", "worker", "version", "kind", "model", "title",
    "created_at", "finished_at",
)  # fmt: skip

QuerySetFilter = Callable[[QuerySet[Task]], QuerySet[Task]]
TaskAction = Callable[[Task], str]


_NOTES = "exit code: 0 if all tasks were changed, 1 if one could not be"
_EXAMPLES = {
    "list": (
        "tasks list --status failed --created-after 2026-11-01",
        "tasks list --owner you@example.com --limit 0 --json",
    ),
    "cancel": ("tasks cancel 12 13", "tasks cancel --worker x86-1 --status waiting --yes"),
    "enough": ("tasks enough 12",),
    "retry": ("tasks retry --status failed --title nightly",),
    "delete": ("tasks delete 12 --yes", "tasks delete --created-before 2026-01-01"),
}


class Command(PlainCommand):
    """List, cancel, end early, repeat or delete tasks.

    Exit code 1 if some of them could not be changed.
    """

    help = "List, cancel, end early, repeat and delete tasks, by number or by filters."

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, *(examples[0] for examples in _EXAMPLES.values()), notes=_NOTES)
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb, text in {
            "list": "print tasks, newest first",
            "cancel": "end tasks that have not ended",
            "enough": "end runs after their current pass, and keep the results",
            "retry": "repeat tasks that have ended; the copies have the same owners",
            "delete": "delete tasks that have ended, with files and results",
        }.items():
            added = verbs.add_parser(verb, help=text)
            explain_command(added, *_EXAMPLES[verb], text=text)
            add_filters(added)
            if verb == "list":
                text = "maximum number of tasks; 0 for all"
                added.add_argument("--limit", type=count, default=100, metavar="N", help=text)
                added.add_argument("--json", action="store_true", help="one JSON object per line")
            else:
                added.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *args: Any, **options: Any) -> None:
        tasks = filtered_tasks(options)
        if options["verb"] == "list":
            self._list(tasks, options)
            return
        if not is_narrowed(options):
            raise CommandError("Give numbers or filters.", returncode=USAGE)
        self._run_verb(_VERBS[options["verb"]], tasks, options)

    def _list(self, tasks: QuerySet[Task], options: dict[str, Any]) -> None:
        rows = (_row(task) for task in _limited(tasks, options["limit"]))
        if options["json"]:
            # one object per line, so that 100,000 tasks are not held in memory
            for row in rows:
                self.stdout.write(json.dumps(row))
            return
        cells = [list(row.values()) for row in rows]
        self.stdout.write(table(cells, FIELDS, widest=30))
        if 0 < options["limit"] == len(cells) < tasks.count():
            self.stderr.write(f"Only the newest {len(cells)} are listed; --limit lists more.", str)

    def _run_verb(
        self,
        verb: tuple[str, QuerySetFilter, TaskAction],
        tasks: QuerySet[Task],
        options: dict[str, Any],
    ) -> None:
        label, filter_tasks, action = verb
        chosen = filter_tasks(tasks)
        self._check_known(chosen, options)
        numbers = list(chosen.order_by("pk").values_list("pk", flat=True))
        if not numbers:
            self.stdout.write("No matching tasks; nothing was changed.")
            return
        confirm(f"{label} {len(numbers)} tasks?", options)
        failed = 0
        with Progress(len(numbers), label, unit="tasks") as progress:
            for task in _read(numbers):
                try:
                    self.stdout.write(action(task))
                except DomainError as error:
                    failed += 1
                    progress.line(f"#{task.pk} {word(error)}")
                progress.advance()
        if failed:
            raise CommandError(f"{failed} of {len(numbers)} tasks could not be changed.")

    def _check_known(self, chosen: QuerySet[Task], options: dict[str, Any]) -> None:
        """Raise CommandError if an id names no task, or a task that the verb cannot change."""
        strange = set(options["ids"]) - set(chosen.values_list("pk", flat=True))
        if strange:
            tasks = Task.objects.only("state", "purpose").in_bulk(strange)
            whys = defaultdict[str, set[int]](set)
            for number in strange:
                whys[_why_not(options["verb"], tasks.get(number))].add(number)
            lines = [f"{why}: {_named(numbers)}." for why, numbers in sorted(whys.items())]
            raise CommandError(f"{' '.join(lines)} Nothing was changed.", returncode=USAGE)


def _why_not(verb: str, task: Task | None) -> str:
    if task is None:
        return "Unknown task"
    if verb == "enough":
        return "Not running"
    if verb == "retry" and task.purpose == Purpose.HEALTH:
        return "Health checks are not repeated"
    if (task.state == TaskState.FINISHED) is (verb == "cancel"):
        return "Already ended" if verb == "cancel" else "Not ended yet"
    return "Excluded by the filters"


def _named(numbers: set[int]) -> str:
    return ", ".join(f"#{number}" for number in sorted(numbers)[:20])


def _limited(tasks: QuerySet[Task], limit: int) -> Iterator[Task]:
    return (tasks[:limit] if limit > 0 else tasks).iterator(chunk_size=CHUNK_ROWS)


def _read(numbers: list[int]) -> Iterable[Task]:
    """Yield the tasks, each read just before it is changed, since others may change meanwhile."""
    for number in numbers:
        if task := Task.objects.filter(pk=number).first():
            yield task


def _row(task: Task) -> dict[str, Any]:
    values = (
        task.pk,
        task.status.value,
        task.reason,
        task.owner.email,
        task.worker.name,
        task.runtime_version,
        task.kind,
        task.model_name,
        task.title,
        task.created_at.isoformat(timespec="seconds"),
        task.finished_at.isoformat(timespec="seconds") if task.finished_at else "",
    )
    return dict(zip(FIELDS, values, strict=True))


def _cancel(task: Task) -> str:
    if not cancel_and_check(task):
        raise DomainError("run_over", status=409)
    return f"#{task.pk} {task.status.value}"


def _enough(task: Task) -> str:
    end_early(task)
    return f"#{task.pk} ending"


def _retry(task: Task) -> str:
    copy, _ = repeat_task(task, owner=task.owner)
    return f"#{task.pk} repeated as #{copy.pk}"


def _delete(task: Task) -> str:
    number = task.pk
    delete_task(task, by=None)
    return f"#{number} deleted"


_VERBS: dict[str, tuple[str, QuerySetFilter, TaskAction]] = {
    "cancel": ("Cancel", lambda tasks: tasks.filter(state__in=LIVE), _cancel),
    "enough": ("End early", lambda tasks: tasks.filter(state=TaskState.RUNNING), _enough),
    "retry": (
        "Repeat",
        lambda tasks: tasks.filter(state=TaskState.FINISHED, purpose=Purpose.USER),
        _retry,
    ),
    "delete": ("Delete", lambda tasks: tasks.filter(state=TaskState.FINISHED), _delete),
}
