"""Wait until tasks have ended, without state, so that waiting can be repeated."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from webprofile.client.answers import Task
from webprofile.client.api import Api
from webprofile.client.errors import ClientError, ProblemError, UnreachableError, UsageError
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED, TIMED_OUT
from webprofile.terminal.output import plain
from webprofile.terminal.progress import Progress

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
#: longest outage of the site that is tolerated while waiting
PATIENCE_S = 600.0
#: most tasks in a message
MOST_NAMED = 50
#: up to this number tasks are requested one by one, more with a list of all live tasks
FEW = 5
#: statuses of tasks that have not ended
LIVE = ["initiated", "waiting", "running"]


def deadline_of(timeout_s: float | None) -> float:
    """Return the monotonic time of a timeout, infinity without one."""
    return math.inf if timeout_s is None else time.monotonic() + timeout_s


def wait_until_ended(
    api: Api,
    tasks: Sequence[int],
    deadline: float,
    names: Mapping[int, str] | None = None,
    *,
    command: str = "wait",
) -> dict[int, Task]:
    """Wait until tasks have ended or the deadline; return the tasks by number.

    names: names of tasks in the output; by default model, device and options
    command: the command that waits for unfinished tasks again, which are printed after an
        interruption

    Raises UnreachableError if the site is unavailable for more than `PATIENCE_S`, and ProblemError
    if it refuses the request, for example after the token was revoked.
    """
    ended: dict[int, Task] = {}
    waiting = dict.fromkeys(tasks)
    try:
        with Progress(len(waiting), "Waiting", unit="tasks", stream=api.log) as progress:
            _wait(api, waiting, ended, deadline, progress, names or {})
        left = {number: _get_task(api, number) for number in waiting}
        if waiting:
            print(f"The timeout has passed. {_going_on(waiting, command)}", file=api.log)
    except (KeyboardInterrupt, ClientError):
        print(_going_on(waiting, command), file=api.log)
        raise
    return {number: (ended | left)[number] for number in dict.fromkeys(tasks)}


def _wait(
    api: Api,
    waiting: dict[int, None],
    ended: dict[int, Task],
    deadline: float,
    progress: Progress,
    names: Mapping[int, str],
) -> None:
    """Move tasks from `waiting` to `ended` until the deadline. Raises UnreachableError."""
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
            # tolerates a restart of the site
            if time.monotonic() > answered_at + PATIENCE_S:
                raise
            progress.note("the site does not respond; retrying")
        else:
            answered_at = time.monotonic()
            progress.note(f"{len(waiting)} in progress")
        if not waiting or time.monotonic() >= deadline:
            return
        pause_s = FIRST_PAUSE_S if len(waiting) < before else pause_s * 1.5
        pause_s = min(pause_s, LONGEST_PAUSE_S)
        time.sleep(min(pause_s, max(0.0, deadline - time.monotonic())))


def _ended(api: Api, waiting: list[int]) -> Iterator[Task]:
    if len(waiting) > FEW:
        # those that the list of live tasks lacks; it needs few requests
        live = {row["id"] for row in api.pages("tasks/", [("status", status) for status in LIVE])}
        waiting = [number for number in waiting if number not in live]
    for number in waiting:
        task = _get_task(api, number)
        if not is_live(task):
            yield task


def _going_on(waiting: Iterable[int], command: str) -> str:
    numbers = list(waiting)
    if not numbers:
        return "All tasks have ended."
    text = " ".join(map(str, numbers[:MOST_NAMED])) + (" ..." if numbers[MOST_NAMED:] else "")
    how_many = "1 task has" if len(numbers) == 1 else f"{len(numbers)} tasks have"
    return f"{how_many} not ended. To wait again: webprofile {command} {text}"


def code_of(tasks: Iterable[Task]) -> int:
    """Return the exit code for tasks: FAILED before TIMED_OUT before SUCCEEDED."""
    rows = list(tasks)
    if any(not is_live(task) and task["status"] != "succeeded" for task in rows):
        return FAILED
    return TIMED_OUT if any(is_live(task) for task in rows) else SUCCEEDED


def is_live(task: Task) -> bool:
    return task["status"] in LIVE


def line_of(task: Task, name: str = "") -> str:
    """Return an output line for a task: number, status, name, reason and its detail."""
    # the detail contains the cause; many tasks can have the same title
    reason = task.get("reason")
    title = reason["title"] if reason else ""
    why = " ".join(filter(None, [title, task.get("detail")]))
    parts = [f"#{task['id']}", task["status"], name or name_of(task), why]
    return plain(" ".join(filter(None, parts)))


def name_of(task: Task) -> str:
    """Return the default name of a task: model, device and options."""
    options = [f"{name}={value}" for name, value in (task.get("options") or {}).items()]
    parts = [task.get("model_name", ""), task.get("worker_name", ""), *options]
    return " ".join(filter(None, parts))


def summary_of(tasks: Iterable[Task], *, refused: int = 0) -> str:
    """Return the counts of tasks by status, such as `34 succeeded, 5 failed`.

    refused: number of tasks that could not be created
    """
    counts = Counter("not ended" if is_live(task) else task["status"] for task in tasks)
    counts["refused"] = refused
    others = ("cancelled", "unknown", "refused", "not ended")
    always = [f"{counts[name]} {name}" for name in ("succeeded", "failed")]
    return ", ".join([*always, *(f"{counts[name]} {name}" for name in others if counts[name])])


def _get_task(api: Api, number: int) -> Task:
    """Return a task, with the status `unknown` if it was deleted."""
    try:
        return cast(Task, get_of_task(api, number, f"tasks/{number}/"))
    except UsageError as error:
        return cast(Task, {"id": number, "status": "unknown", "reason": {"title": str(error)}})


def get_of_task(api: Api, number: int, path: str) -> Any:
    """Return an answer about a task. Raises UsageError if it does not exist; ProblemError."""
    try:
        return api.get(path)
    except ProblemError as error:
        if error.status == 404:
            raise unknown(number) from error
        raise


def unknown(number: int) -> UsageError:
    return UsageError(f"Task {number} does not exist, or you don’t have access.")
