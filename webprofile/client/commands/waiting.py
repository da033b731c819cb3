"""wait: until tasks have ended. It holds no state: who stopped it may begin again."""

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from webprofile.client.api import Api
from webprofile.client.commands import Parsers, added, opened
from webprofile.client.errors import ProblemError, UnreachableError, UsageError
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import FAILED, HELP, SUCCEEDED, TIMED_OUT
from webprofile.terminal.output import plain, print_json
from webprofile.terminal.progress import Progress

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
#: how long the site may be away while one waits
PATIENCE_S = 600.0
#: of tasks in a message
MOST_NAMED = 50
#: more than so many are asked for as a list of all that live
FEW = 5
_LIVE = [("status", status) for status in ("initiated", "waiting", "running")]


def add_parsers(commands: Parsers) -> None:
    wait = added(
        commands,
        "wait",
        "wait until tasks have ended; may be stopped with Ctrl-C and begun again",
        "12 13 14",
        "12 --timeout 600 --json",
        notes=HELP,
    )
    wait.add_argument("tasks", nargs="+", type=int, metavar="TASK")
    wait.add_argument("--timeout", type=seconds, metavar="S", help="wait so long at most")
    wait.add_argument("--json", action="store_true", help="the tasks as JSON")
    wait.set_defaults(command=wait_for)


def wait_for(given: argparse.Namespace) -> int:
    with opened() as api:
        found = wait_until_ended(api, given.tasks, deadline_of(given.timeout))
    if given.json:
        print_json(list(found.values()))
    print(summary_of(found.values()), file=sys.stderr)
    return code_of(found.values())


def deadline_of(timeout_s: float | None) -> float:
    """On the monotonic clock."""
    return math.inf if timeout_s is None else time.monotonic() + timeout_s


def wait_until_ended(
    api: Api, tasks: Sequence[int], deadline: float, names: Mapping[int, str] | None = None
) -> dict[int, dict[str, Any]]:
    """Each task as it ended, or as it is when the time is over.

    names: what tasks are called in lines of the terminal; else by model, device and options
    Raises UnreachableError if the site is away for long. Who stops it is told what goes on.
    """
    ended: dict[int, dict[str, Any]] = {}
    waiting = dict.fromkeys(tasks)
    try:
        with Progress(len(waiting), "Waiting", unit="tasks") as progress:
            _wait(api, waiting, ended, deadline, progress, names or {})
        left = {number: _shown(api, number) for number in waiting}
        if waiting:
            print(f"Waited long enough. {_going_on(waiting)}", file=sys.stderr)
    except (KeyboardInterrupt, UnreachableError):
        print(_going_on(waiting), file=sys.stderr)
        raise
    return {number: (ended | left)[number] for number in dict.fromkeys(tasks)}


def _wait(
    api: Api,
    waiting: dict[int, None],
    ended: dict[int, dict[str, Any]],
    deadline: float,
    progress: Progress,
    names: Mapping[int, str],
) -> None:
    """Moves tasks from `waiting` to `ended`. Raises UnreachableError."""
    pause_s = FIRST_PAUSE_S
    answered_at = time.monotonic()
    while True:
        before = len(waiting)
        try:
            for task in _ended(api, list(waiting)):
                del waiting[task["id"]]
                ended[task["id"]] = task
                progress.step(line_of(task, names.get(task["id"], "")))
        except UnreachableError:
            # a run that takes hours outlives a restart of the site
            if time.monotonic() > answered_at + PATIENCE_S:
                raise
            progress.note("the site does not answer; trying on")
        else:
            answered_at = time.monotonic()
            progress.note(f"{len(waiting)} under way")
        if not waiting or time.monotonic() >= deadline:
            return
        pause_s = FIRST_PAUSE_S if len(waiting) < before else pause_s * 1.5
        pause_s = min(pause_s, LONGEST_PAUSE_S)
        time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))


def _ended(api: Api, waiting: list[int]) -> Iterator[dict[str, Any]]:
    for number in _perhaps_ended(api, waiting):
        task = _shown(api, number)
        if not is_live(task):
            yield task


def _going_on(waiting: Iterable[int]) -> str:
    numbers = list(waiting)
    if not numbers:
        return "All tasks have ended."
    shown = " ".join(map(str, numbers[:MOST_NAMED])) + (" ..." if numbers[MOST_NAMED:] else "")
    how_many = "1 task goes on" if len(numbers) == 1 else f"{len(numbers)} tasks go on"
    return f"{how_many}. To wait again: webprofile wait {shown}"


def code_of(tasks: Iterable[dict[str, Any]]) -> int:
    """The exit code for these tasks: a failure weighs more than one that goes on."""
    found = list(tasks)
    if any(not is_live(task) and task["status"] != "succeeded" for task in found):
        return FAILED
    return TIMED_OUT if any(is_live(task) for task in found) else SUCCEEDED


def is_live(task: dict[str, Any]) -> bool:
    return task["status"] in {"initiated", "waiting", "running"}


def line_of(task: dict[str, Any], name: str = "") -> str:
    """One line of a terminal: a task, how it is, and why."""
    why = (task.get("reason") or {}).get("title", "")
    parts = [f"#{task['id']}", task["status"], name or name_of(task), why]
    return plain(" ".join(filter(None, parts)))


def name_of(task: dict[str, Any]) -> str:
    """What tells it from other tasks: model, device, options."""
    options = [f"{name}={value}" for name, value in (task.get("options") or {}).items()]
    parts = [task.get("model_name", ""), task.get("worker_name", ""), *options]
    return " ".join(filter(None, parts))


def summary_of(tasks: Iterable[dict[str, Any]], *, refused: int = 0) -> str:
    """All tasks in one line: `34 succeeded, 5 failed`.

    refused: how many could not be made
    """
    found = Counter("going on" if is_live(task) else task["status"] for task in tasks)
    found["refused"] = refused
    others = ("cancelled", "unknown", "refused", "going on")
    always = [f"{found[name]} {name}" for name in ("succeeded", "failed")]
    return ", ".join([*always, *(f"{found[name]} {name}" for name in others if found[name])])


def _perhaps_ended(api: Api, waiting: list[int]) -> list[int]:
    """Those that no list names as living: few requests, however many wait."""
    if len(waiting) <= FEW:
        return waiting
    live = {row["id"] for row in api.pages("tasks/", list(_LIVE))}
    return [number for number in waiting if number not in live]


def _shown(api: Api, number: int) -> dict[str, Any]:
    """A task that was deleted meanwhile did not succeed."""
    try:
        return task_of(api, number)
    except UsageError as error:
        return {"id": number, "status": "unknown", "reason": {"title": str(error)}}


def task_of(api: Api, number: int) -> dict[str, Any]:
    """All about a task. Raises UsageError if it is not there; ProblemError."""
    try:
        found: dict[str, Any] = api.get(f"tasks/{number}/")
    except ProblemError as error:
        if error.status == 404:
            raise unknown(number) from error
        raise
    return found


def unknown(number: int) -> UsageError:
    return UsageError(f"There is no task {number} that you may see.")
