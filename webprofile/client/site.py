"""`Site`: the Python interface of a site, which does what the commands of `webprofile` do."""

import io
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from webprofile.client.access_tokens import USUAL_DAYS, new_token, revoke
from webprofile.client.answers import (
    Artifact,
    Comparison,
    Device,
    Gate,
    Latency,
    OperatorTable,
    Planned,
    SideName,
    Statistics,
    Task,
)
from webprofile.client.api import Api, Query
from webprofile.client.batchfile.matrix import Block, blocks_of, read_batch
from webprofile.client.errors import ClientError
from webprofile.client.gate import judged
from webprofile.client.login_file import Login, login_read, site_checked
from webprofile.client.results import (
    MOST_ROWS,
    cancelled,
    comparison_of,
    deleted,
    devices_of,
    exported,
    latency_of,
    listed,
    operators_of,
    repeated,
    result_of,
    statistics_of,
    tables_of,
)
from webprofile.client.submission import check_cells, planned, prepared, submit_cells
from webprofile.client.waiting import deadline_of, task_of, wait_until_ended
from webprofile.terminal.output import whole_file

#: a row of a table of tasks, whose columns `/api/v1/docs/` of a site describes
Row = dict[str, Any]
Format = Literal["csv", "json", "trace", "report", "text"]


class _Silent(io.StringIO):
    """A stream that discards the progress which commands print."""

    def write(self, text: str) -> int:
        return len(text)


class Site:
    """A site and the user whose token is used. A context manager, which closes connections.

    address, token: by default those of `WEBPROFILE_SITE` and `WEBPROFILE_TOKEN`, or of
        `webprofile login`

    Methods raise ClientError: ProblemError if the site refuses a request (`code` is stable),
    UnreachableError if it does not answer, UsageError for wrong arguments.
    """

    def __init__(self, address: str = "", token: str = "") -> None:
        given = {"WEBPROFILE_SITE": address, "WEBPROFILE_TOKEN": token}
        if address and token:
            login = Login(site_checked(address), token)
        else:
            chosen = {name: value for name, value in given.items() if value}
            login = login_read({**os.environ, **chosen})
        self._connection = Api(login, _Silent())

    @classmethod
    def log_in(
        cls, address: str, email: str, password: str, *, code: str = "", days: int = USUAL_DAYS
    ) -> Self:
        """Create an access token with the scopes `read` and `write`, which is not stored.

        code: of the authenticator app, for a user with a second factor
        days: how long the token lives

        Raises ProblemError; its code is `code_needed` without a code that is needed.
        """
        address = site_checked(address)
        return cls(address, new_token(address, email, password, lambda: code, days=days))

    def log_out(self) -> None:
        """Revoke the token."""
        revoke(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def workers(self) -> list[Device]:
        """Return the devices that the user may use."""
        return devices_of(self._connection)

    def tasks(self, *, limit: int = 50, **filters: str | Sequence[str]) -> list[Task]:
        """Return tasks, newest first.

        limit: 0 for all
        filters: query parameters of `GET /api/v1/tasks/`: status, worker_name, title, ...
        """
        query: Query = []
        for name, value in filters.items():
            values = [value] if isinstance(value, str) else value
            query += [(name, item) for item in values]
        return listed(self._connection, query, limit)

    def task(self, number: int) -> Task:
        return task_of(self._connection, number)

    def check(self, **keys: Any) -> list[Planned]:
        """Check what `submit` would create, but create nothing; return a row for each task.

        Raises BatchError with all mistakes.
        """
        return self._check(blocks_of(keys, folder=Path()))

    def check_file(self, path: str | Path) -> list[Planned]:
        """Check a batch file as `check` does."""
        return self._check(read_batch(Path(path)))

    def _check(self, blocks: Sequence[Block]) -> list[Planned]:
        run, cells = prepared(self._connection, blocks, "", deadline_of(None))
        check_cells(run, cells)
        return planned(cells)

    def submit(self, *, key: str = "", wait_for_room: bool = True, **keys: Any) -> list[int]:
        """Create models x devices x versions x option sets x repeats; return the tasks' numbers.

        key: name of this submission; repeated within a day, it creates nothing twice
        wait_for_room: wait while the user's limit of live tasks is reached
        keys: those of a batch file: `models=["net.mge"], workers=["x86-1"], options={...}`

        Raises BatchError with all mistakes before anything is created; ClientError if the site
        refused some tasks.
        """
        return self._submit(blocks_of(keys, folder=Path()), key, wait_for_room)

    def submit_file(
        self, path: str | Path, *, key: str = "", wait_for_room: bool = True
    ) -> list[int]:
        """Create the tasks of a batch file; arguments and errors as for `submit`."""
        return self._submit(read_batch(Path(path)), key, wait_for_room)

    def _submit(self, blocks: Sequence[Block], key: str, wait_for_room: bool) -> list[int]:
        run, cells = prepared(self._connection, blocks, key or uuid.uuid4().hex, deadline_of(None))
        quota = check_cells(run, cells)
        rows = submit_cells(run, cells, may_wait=wait_for_room and quota.get("limit") != 0)
        if refused := [row["problem"] for row in rows if row["task"] is None]:
            made = [row["task"] for row in rows if row["task"] is not None]
            raise ClientError(f"Refused: {'; '.join(refused)}. Submitted: {made}")
        return [row["task"] for row in rows]

    def wait(self, tasks: Sequence[int], *, timeout_s: float | None = None) -> dict[int, Task]:
        """Wait until tasks have ended or the timeout has passed; return the tasks by number."""
        return wait_until_ended(self._connection, tasks, deadline_of(timeout_s))

    def latency(self, task: int) -> Latency | None:
        """Return the time of an iteration without the profiler, ms; None if there is none."""
        return latency_of(self._connection, task)

    def statistics(self, task: int) -> Statistics:
        """Return the totals of a result, s. Raises ClientError without one."""
        return statistics_of(self._connection, result_of(self._connection, task))

    def operators(
        self, task: int, *, rows: int = MOST_ROWS, side: SideName = "device", by_type: bool = False
    ) -> OperatorTable:
        """Return the slowest operators, at most 500, or with `by_type` the sums of each type.

        Raises ClientError without a result.
        """
        profile = result_of(self._connection, task)
        return operators_of(self._connection, profile, rows=rows, side=side, by_type=by_type)

    def compare(
        self, tasks: Sequence[int], *, rows: int = 15, side: SideName = "device"
    ) -> Comparison:
        """Compare 2 to 8 results; the first is the baseline."""
        return comparison_of(self._connection, tasks, rows=rows, side=side)

    def judge(self, tasks: Sequence[int], limit_percent: float) -> Gate:
        """Judge whether tasks are slower than the first by more, as `compare --fail-above` does.

        Return the judged total with the `result`: `passed`, `failed` or `not enough evidence`.
        Raises ClientError if a task has no result, or there is no time to judge.
        """
        return judged(self.compare(tasks, rows=1), tasks, limit_percent)

    def export(self, task: int, format: Format = "csv") -> bytes:
        """Return all operators of a result as a file."""
        return exported(self._connection, task, format)

    def table(self, tasks: Sequence[int]) -> list[Row]:
        """Return a row for each task, as `export --table` does; unknown tasks have none."""
        pieces = tables_of(self._connection, sorted(set(tasks)), "json")
        return [row for piece in pieces for row in json.loads(piece)]

    def artifacts(self, task: int) -> list[Artifact]:
        """Return the files that the runs of a task left."""
        return list(self._connection.get(f"tasks/{task}/artifacts/"))

    def download(self, task: int, name: str, path: str | Path) -> None:
        """Write an artifact of the last attempt to a file, which is replaced when complete."""
        with whole_file(Path(path)) as stream:
            for piece in self._connection.download(
                f"tasks/{task}/artifacts/{quote(name, safe='')}/"
            ):
                stream.write(piece)

    def cancel(self, tasks: Sequence[int]) -> Mapping[str, list[int]]:
        """End tasks; return the numbers of those `cancelled` and of those that had `ended`."""
        return cancelled(self._connection, tasks)

    def cancel_all(self) -> Mapping[str, list[int]]:
        """End all tasks of the user that have not ended; returns the same as `cancel`."""
        return cancelled(self._connection, None)

    def retry(self, task: int) -> int:
        """Ask once more for a task that has ended; return the number of the new one."""
        return repeated(self._connection, task)

    def delete(self, task: int) -> None:
        """Delete a task that has ended, with its files and results."""
        deleted(self._connection, task)
