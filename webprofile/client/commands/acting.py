"""cancel, retry, delete: each of several tasks, with a result of its own."""

import argparse
import sys
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from webprofile.client.api import Api
from webprofile.client.commands import Parsers, added, opened
from webprofile.client.commands.listing import FILTERS, add_filters, listed, query_of
from webprofile.client.commands.waiting import line_of
from webprofile.client.errors import ClientError, ProblemError, UsageError
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED
from webprofile.terminal.output import plain, print_json

#: of one request
PIECE = 500
_LIVE = ["initiated", "waiting", "running"]
_ENDED = ["succeeded", "failed", "cancelled"]
_UNKNOWN = "There is no such task that you may see."
_OVER = "The run had ended already."
#: answers about one task, after which the others may still be asked for
_OF_ONE = {404, 409, 422}
_EXIT_CODES = """exit codes:
  0    done to all{also}
  1    something was left out; the output says which task and why
  2    a mistake in the arguments
  3    the site cannot be reached, or does not allow it
  130  Ctrl-C; what was done so far stays done"""


@dataclass(frozen=True)
class Done:
    """What became of one task: `cancelled`, `repeated`, `deleted`, `ended` or `left`.

    code and detail: why it was left; again_as: the new task of a repeated one
    """

    task: int
    result: str
    code: str = ""
    detail: str = ""
    again_as: int | None = None

    def line(self) -> str:
        again = f"as #{self.again_as}" if self.again_as else ""
        return plain(" ".join(filter(None, [f"#{self.task} {self.result}", again, self.detail])))


def add_parsers(commands: Parsers) -> None:
    also = ", or it had ended already"
    cancel = _added(commands, "cancel", "end tasks", "12 13", "--all-mine", also=also)
    cancel.add_argument("--all-mine", action="store_true", help="all that have not ended")
    cancel.set_defaults(command=cancel_tasks)
    retry = _added(
        commands, "retry", "ask once more for tasks that have ended", "12 13",
        "--status failed --title nightly --yes",
    )  # fmt: skip
    retry.set_defaults(command=retry_tasks)
    delete = _added(
        commands, "delete", "remove tasks that have ended, with files and results", "12 13",
        "--created-before 2026-01-01 --yes",
    )  # fmt: skip
    delete.set_defaults(command=delete_tasks)


def _added(
    commands: Parsers, name: str, text: str, *examples: str, also: str = ""
) -> argparse.ArgumentParser:
    parser = added(commands, name, text, *examples, notes=_EXIT_CODES.format(also=also))
    parser.add_argument("tasks", nargs="*", type=int, metavar="TASK", help="numbers, or filters")
    add_filters(parser)
    asked = "do not ask" if name == "delete" else "do not ask, as it is done for filters"
    parser.add_argument("--yes", action="store_true", help=asked)
    parser.add_argument("--json", action="store_true", help="what became of each as JSON")
    return parser


def cancel_tasks(given: argparse.Namespace) -> int:
    if given.all_mine and (given.tasks or query_of(given)):
        raise UsageError("Name tasks or filters, or say --all-mine.")
    with opened() as api:
        if given.all_mine:
            bodies: list[dict[str, Any]] = [{"all_mine": True}]
        else:
            numbers = _chosen(api, given, _LIVE, "Cancel")
            bodies = [{"tasks": numbers[at : at + PIECE]} for at in range(0, len(numbers), PIECE)]
        with _Report(given.json) as report:
            for body in bodies:
                answer = api.post("tasks/cancel/", body, repeatable=True)
                for number in body.get("tasks", answer["cancelled"] + answer["ended"]):
                    report.add(_cancelled(number, answer))
    return report.code


def retry_tasks(given: argparse.Namespace) -> int:
    with opened() as api:
        numbers = _chosen(api, given, _ENDED, "Repeat")

        def repeat(number: int) -> Done:
            made = api.post(f"tasks/{number}/retry/", key=str(uuid.uuid4()))
            return Done(number, "repeated", again_as=made["id"])

        return _each(numbers, repeat, given)


def delete_tasks(given: argparse.Namespace) -> int:
    with opened() as api:
        numbers = _chosen(api, given, _ENDED, "Delete")

        def delete(number: int) -> Done:
            task = api.get(f"tasks/{number}/")
            try:
                api.delete(f"tasks/{task['id']}/")
            except ProblemError as error:
                # it was there: an answer that was lost had deleted it
                if error.status != 404:
                    raise
            return Done(number, "deleted")

        return _each(numbers, delete, given)


def _each(numbers: list[int], act: Callable[[int], Done], given: argparse.Namespace) -> int:
    with _Report(given.json) as report:
        for number in numbers:
            try:
                report.add(act(number))
            except ProblemError as error:
                if error.status not in _OF_ONE:
                    raise
                detail = _UNKNOWN if error.status == 404 else str(error)
                report.add(Done(number, "left", error.code, detail))
    return report.code


class _Report:
    """Tells of each task at once, or as JSON at the end, also when something breaks before."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._all: list[Done] = []

    @property
    def code(self) -> int:
        return FAILED if any(done.result == "left" for done in self._all) else SUCCEEDED

    def add(self, done: Done) -> None:
        self._all.append(done)
        if not self._is_json:
            print(done.line(), flush=True)

    def __enter__(self) -> "_Report":
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_json:
            print_json([asdict(done) for done in self._all])
        elif not self._all:
            print("No task fits; nothing was changed.")


def _cancelled(number: int, answer: dict[str, list[int]]) -> Done:
    if number in answer["cancelled"]:
        return Done(number, "cancelled")
    if number in answer["ended"]:
        return Done(number, "ended", "run_over", _OVER)
    return Done(number, "left", "not_found", _UNKNOWN)


def _chosen(api: Api, given: argparse.Namespace, statuses: list[str], verb: str) -> list[int]:
    """The numbers, or those of the tasks that fit the filters; a person is asked about them.

    Raises UsageError without either, with both, and where nobody can be asked.
    """
    by_filters = any(getattr(given, name) for name in FILTERS)
    if bool(given.tasks) is by_filters:
        raise UsageError("Name tasks, or give filters: one of the two.")
    if given.tasks:
        numbers = list(dict.fromkeys(given.tasks))
        if verb == "Delete":
            _confirm(f"{verb} {_named(numbers)} with files and results?", given)
        return numbers
    given.status = given.status or statuses
    tasks = listed(api, query_of(given), 0)
    if tasks and not given.yes:
        for task in tasks:
            print(line_of(task), file=sys.stderr)
        what = "this task" if len(tasks) == 1 else f"these {len(tasks)} tasks"
        _confirm(f"{verb} {what}?", given)
    return [task["id"] for task in tasks]


def _named(numbers: list[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)


def _confirm(question: str, given: argparse.Namespace) -> None:
    if given.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Say --yes; nobody is here to ask.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ClientError("Nothing was changed.")
