"""Devices, tasks and their results at the site; what the commands and `Site` have in common."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, cast

from webprofile.client.answers import (
    Comparison,
    Device,
    Latency,
    OperatorTable,
    SideName,
    Statistics,
    Task,
)
from webprofile.client.api import Api, Query
from webprofile.client.errors import ClientError, ProblemError, UsageError
from webprofile.client.waiting import unknown

#: tasks of one comparison
FEWEST, MOST = 2, 8
#: tasks in one request
PIECE = 500
#: most rows of a table or a comparison that the site returns
MOST_ROWS = 500
#: tasks in one request of a table
TABLE_PIECE = 200


def devices_of(api: Api) -> list[Device]:
    return [cast(Device, row) for row in api.pages("workers/")]


def usable(worker: Device) -> list[str]:
    """Return the MegEngine versions of a device that have no problem."""
    return [runtime["version"] for runtime in worker["runtimes"] if not runtime["problem"]]


def listed(api: Api, query: Query, limit: int) -> list[Task]:
    """Return the tasks that match a query, at most `limit`; 0 for all."""
    tasks: list[Task] = []
    for task in api.pages("tasks/", query):
        tasks.append(cast(Task, task))
        if len(tasks) == limit:
            break
    return tasks


def profile_of(api: Api, task: int) -> dict[str, Any] | None:
    """Return the profile of a task, None if it has none (yet).

    Raises UsageError if the task does not exist; ProblemError.
    """
    try:
        profile: dict[str, Any] = api.get(f"profiles/of-task/{task}/")
    except ProblemError as error:
        if error.code in {"profile_not_yet", "profile_never"}:
            return None
        if error.status == 404:
            raise unknown(task) from error
        raise
    return profile


def latency_of(api: Api, task: int) -> Latency | None:
    """Return the clean latency of a task, also without a profile; None if it has none (yet)."""
    try:
        latency: Latency = api.get(f"profiles/of-task/{task}/measurement/")
    except ProblemError as error:
        if error.status in {404, 409}:
            return None
        raise
    return latency


def result_of(api: Api, task: int) -> int:
    """Return the number of a task's profile. Raises ClientError if it has none (yet)."""
    profile = profile_of(api, task)
    if profile is None:
        raise ClientError(f"Task {task} has no result.")
    return int(profile["id"])


def statistics_of(api: Api, profile: int) -> Statistics:
    statistics: Statistics = api.get(f"profiles/{profile}/statistics/")
    return statistics


def operators_of(
    api: Api, profile: int, *, rows: int, side: SideName, by_type: bool
) -> OperatorTable:
    """Return the slowest operators of a profile, or with `by_type` the sums of each type.

    rows: 1 to `MOST_ROWS`; others are replaced by the nearest of these
    """
    query: Query = [("limit", _limit(rows)), ("side", side)]
    query += [("agg", "sum")] if by_type else []
    table: OperatorTable = api.get(f"profiles/{profile}/operators/", query)
    return table


def _limit(rows: int) -> int:
    return max(1, min(rows, MOST_ROWS))


def exported(api: Api, task: int, kind: str) -> bytes:
    """Return the exported result of a task; raise ClientError if it has none."""
    return api.fetch(f"profiles/{result_of(api, task)}/export/{kind}/")


def tables_of(api: Api, tasks: Sequence[int], kind: str) -> Iterator[bytes]:
    """Yield tables with a row for each task, one of each request, without unknown tasks.

    kind: "csv" or "json"
    """
    for at in range(0, len(tasks), TABLE_PIECE):
        query: Query = [("task", number) for number in tasks[at : at + TABLE_PIECE]]
        yield api.fetch("profiles/of-tasks/", [("format", kind), *query])


def comparison_of(api: Api, tasks: Sequence[int], *, rows: int, side: SideName) -> Comparison:
    """Return the comparison of the results of 2 to 8 tasks, the first of which is the baseline.

    rows: operators that changed most, as in `operators_of`

    Raises UsageError; ClientError if a task has no result.
    """
    if not FEWEST <= len(tasks) <= MOST:
        raise UsageError(f"Name {FEWEST} to {MOST} tasks.")
    query: Query = [("p", result_of(api, task)) for task in tasks]
    comparison: Comparison = api.get(
        "profiles/compare/", [*query, ("limit", _limit(rows)), ("side", side)]
    )
    return comparison


def cancellations(tasks: Sequence[int] | None) -> list[dict[str, Any]]:
    """Return the bodies of the requests that end these tasks; None for all of the user."""
    if tasks is None:
        return [{"all_mine": True}]
    return [{"tasks": list(tasks[at : at + PIECE])} for at in range(0, len(tasks), PIECE)]


def cancelled(api: Api, tasks: Sequence[int] | None) -> dict[str, list[int]]:
    """End tasks; return the numbers that were `cancelled` and that had `ended` already.

    tasks: None for all of the user that have not ended
    """
    answer: dict[str, list[int]] = {"cancelled": [], "ended": []}
    for body in cancellations(tasks):
        piece = api.post("tasks/cancel/", body, repeatable=True)
        for kind, numbers in answer.items():
            numbers += piece[kind]
    return answer


def repeated(api: Api, task: int) -> int:
    """Ask once more for a task that has ended; return the number of the new one."""
    return int(api.post(f"tasks/{task}/retry/", key=str(uuid.uuid4()))["id"])


def deleted(api: Api, task: int) -> None:
    """Delete a task that has ended, with its files and results. Raises ProblemError."""
    api.get(f"tasks/{task}/")
    try:
        api.delete(f"tasks/{task}/")
    except ProblemError as error:
        # an earlier attempt deleted it, but its response was lost
        if error.status != 404:
            raise
