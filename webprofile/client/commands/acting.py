"""Commands `share`, and `cancel`, `enough`, `retry` and `delete` with a result for each task."""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.commands.listing import add_filters, query_of
from webprofile.client.errors import ClientError, ProblemError, UsageError
from webprofile.client.site import PIECE, Site
from webprofile.client.waiting import LIVE, is_live, line_of
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED
from webprofile.terminal.output import plain, print_json

_ENDED = ["succeeded", "failed", "cancelled"]
_UNKNOWN = "The task does not exist, or you don’t have access."
_OVER = "The run had already ended."
#: statuses of errors that concern a single task, after which the command continues
_OF_ONE = {404, 409, 422}
_EXIT_CODES = """exit codes:
  0    done for all tasks{also}
  1    a task was left unchanged; the output shows the task and the reason
  2    a mistake in the arguments
  3    the site cannot be reached, or refuses access
  130  Ctrl-C; changes made so far remain"""

_SHARE_NOTES = """Anyone who has the link can view the result. The link works until it expires,
you revoke it on the page "Share links" of the site, or the task is deleted."""


@dataclass(frozen=True)
class Done:
    """The result for one task: `cancelled`, `ending`, `repeated`, `deleted`, `ended` or `left`.

    code, detail: why the task was left unchanged
    again_as: number of the new task of a repeated one
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
    also = " that had not ended"
    cancel = _added(commands, "cancel", "end tasks", "12 13", "--all-mine", also=also)
    cancel.add_argument(
        "--all-mine", action="store_true", help="cancel all your tasks that have not ended"
    )
    cancel.set_defaults(command=cancel_tasks)
    enough = _added(
        commands, "enough", "end runs after their current pass, and keep the results", "12",
        also=also,
    )  # fmt: skip
    enough.set_defaults(command=partial(_each, _end, ["running"], "End early"))
    retry = _added(
        commands, "retry", "repeat tasks that have ended", "12 13",
        "--status failed --title nightly --yes",
    )  # fmt: skip
    retry.set_defaults(command=partial(_each, _repeat, _ENDED, "Repeat"))
    delete = _added(
        commands, "delete", "delete tasks that have ended, with files and results", "12 13",
        "--created-before 2026-01-01 --yes",
    )  # fmt: skip
    delete.set_defaults(command=partial(_each, _delete, _ENDED, "Delete"))
    share = added(
        commands, "share", "create a link to a result, for readers without an account", "12",
        "12 --days 7 --show log --show inputs", notes=_SHARE_NOTES,
    )  # fmt: skip
    share.add_argument("task", type=int, metavar="TASK", help="number of a task with a result")
    share.add_argument(
        "--days",
        type=int,
        metavar="N",
        help="days until the link expires; default: 30, or the site's limit",
    )
    share.add_argument(
        "--show", action="append", choices=("log", "inputs", "model"), default=[],
        help="show this in addition to figures, operators and graph; may be repeated",
    )  # fmt: skip
    share.add_argument("--json", action="store_true", help="print all details as JSON")
    share.set_defaults(command=share_task)


def _added(
    commands: Parsers, name: str, text: str, *examples: str, also: str = ""
) -> argparse.ArgumentParser:
    parser = added(commands, name, text, *examples, notes=_EXIT_CODES.format(also=also))
    parser.add_argument(
        "tasks",
        nargs="*",
        type=int,
        metavar="TASK",
        help="numbers of tasks; without them, use filters",
    )
    add_filters(parser)
    text = "do not ask for confirmation" + ("" if name == "delete" else " when filters are used")
    parser.add_argument("--yes", action="store_true", help=text)
    parser.add_argument(
        "--json", action="store_true", help="print the result for each task as JSON"
    )
    return parser


def share_task(args: argparse.Namespace) -> int:
    with open_site() as site:
        link = site.share(args.task, days=args.days, parts=args.show)
    if args.json:
        print_json(link)
    else:
        print(link["url"])
        print(f"Expires {link['expires_at'][:10]}. The link is not shown again.", file=sys.stderr)
    return SUCCEEDED


def cancel_tasks(args: argparse.Namespace) -> int:
    if args.all_mine and (args.tasks or query_of(args)):
        raise UsageError("Use --all-mine without tasks and filters.")
    with open_site() as site:
        numbers = [] if args.all_mine else _chosen(site, args, LIVE, "Cancel")
        with _Report(args.json) as report:
            if args.all_mine:
                answer = site.cancel_all()
                for number in answer["cancelled"] + answer["ended"]:
                    report.add(_cancelled(number, answer))
            # in pieces, each of which is reported at once
            for at in range(0, len(numbers), PIECE):
                answer = site.cancel(numbers[at : at + PIECE])
                for number in numbers[at : at + PIECE]:
                    report.add(_cancelled(number, answer))
    return report.code


def _end(site: Site, number: int) -> Done:
    if is_live(site.enough(number)):
        return Done(number, "ending")
    return Done(number, "ended", "run_over", _OVER)


def _repeat(site: Site, number: int) -> Done:
    return Done(number, "repeated", again_as=site.retry(number))


def _delete(site: Site, number: int) -> Done:
    site.delete(number)
    return Done(number, "deleted")


def _each(
    act: Callable[[Site, int], Done], statuses: list[str], verb: str, args: argparse.Namespace
) -> int:
    with open_site() as site:
        numbers = _chosen(site, args, statuses, verb)
        with _Report(args.json) as report:
            for number in numbers:
                try:
                    report.add(act(site, number))
                except ProblemError as error:
                    if error.status not in _OF_ONE:
                        raise
                    detail = _UNKNOWN if error.status == 404 else str(error)
                    report.add(Done(number, "left", error.code, detail))
    return report.code


class _Report:
    """Print each result immediately, or all as JSON at the end, also after an exception."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._results: list[Done] = []

    @property
    def code(self) -> int:
        return FAILED if any(done.result == "left" for done in self._results) else SUCCEEDED

    def add(self, done: Done) -> None:
        self._results.append(done)
        if not self._is_json:
            print(done.line(), flush=True)

    def __enter__(self) -> "_Report":
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_json:
            print_json([asdict(done) for done in self._results])
        elif not self._results:
            print("No matching tasks; nothing was changed.")


def _cancelled(number: int, answer: Mapping[str, list[int]]) -> Done:
    if number in answer["cancelled"]:
        return Done(number, "cancelled")
    if number in answer["ended"]:
        return Done(number, "ended", "run_over", _OVER)
    return Done(number, "left", "not_found", _UNKNOWN)


def _chosen(site: Site, args: argparse.Namespace, statuses: list[str], verb: str) -> list[int]:
    """Return the numbers of the arguments, or of the tasks that match the filters.

    The user confirms tasks that were selected by filters. Raises UsageError without numbers and
    filters, with both, and if confirmation is needed without a terminal.
    """
    if bool(args.tasks) is bool(query_of(args)):
        raise UsageError("Give either tasks or filters.")
    if args.tasks:
        numbers = list(dict.fromkeys(args.tasks))
        if verb == "Delete":
            named = ", ".join(f"#{number}" for number in numbers)
            _confirm(f"{verb} {named} with files and results?", args)
        return numbers
    args.status = args.status or statuses
    tasks = site.tasks(limit=0, **query_of(args))
    if tasks and not args.yes:
        for task in tasks:
            print(line_of(task), file=sys.stderr)
        what = "this task" if len(tasks) == 1 else f"these {len(tasks)} tasks"
        _confirm(f"{verb} {what}?", args)
    return [task["id"] for task in tasks]


def _confirm(question: str, args: argparse.Namespace) -> None:
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Use --yes to confirm without a terminal.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise ClientError("Nothing was changed.")
