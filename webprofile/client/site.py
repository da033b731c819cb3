"""`Site`: the Python interface of a site, which does what the commands of `webprofile` do."""

import io
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TextIO, cast
from urllib.parse import quote

from webprofile.client.access_tokens import USUAL_DAYS, new_token, revoke
from webprofile.client.answers import (
    Artifact,
    Comparison,
    Device,
    Gate,
    Latency,
    OperatorTable,
    Pairs,
    Planned,
    Preset,
    ShareLink,
    SideName,
    Statistics,
    Task,
)
from webprofile.client.api import Api, Query
from webprofile.client.batchfile.matrix import Block, blocks_of, read_batch
from webprofile.client.batchfile.paired import PairedModels
from webprofile.client.errors import ClientError, ProblemError, UsageError
from webprofile.client.gate import judged
from webprofile.client.login_file import Login, login_read, site_checked, token_checked
from webprofile.client.submission import check_cells, devices_of, prepared, submit_cells
from webprofile.client.waiting import deadline_of, get_of_task, wait_until_ended
from webprofile.terminal.output import whole_file

#: tasks of one comparison
FEWEST, MOST = 2, 8
#: tasks in one request
PIECE = 500
#: most rows of a table or a comparison that the site returns
MOST_ROWS = 500
#: tasks in one request of a table
TABLE_PIECE = 200

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
    log: stream to which long operations write their progress; by default none

    Methods raise ClientError: ProblemError if the site refuses a request (`code` is stable),
    UnreachableError if it does not answer, UsageError for wrong arguments.
    """

    def __init__(self, address: str = "", token: str = "", *, log: TextIO | None = None) -> None:
        given = {"WEBPROFILE_SITE": address, "WEBPROFILE_TOKEN": token}
        if address and token:
            login = Login(site_checked(address), token_checked(token))
        else:
            chosen = {name: value for name, value in given.items() if value}
            login = login_read({**os.environ, **chosen})
        self.api = Api(login, log or _Silent())

    @classmethod
    def log_in(
        cls, address: str, email: str, password: str, *, code: str = "", days: int = USUAL_DAYS
    ) -> Self:
        """Create an access token with the scopes `read` and `write`, which is not stored.

        code: of the authenticator app, for a user with a second factor
        days: lifetime of the token

        Raises ProblemError, with the code `code_needed` if a code is needed and missing.
        """
        address = site_checked(address)
        return cls(address, new_token(address, email, password, lambda: code, days=days))

    def log_out(self) -> None:
        """Revoke the token."""
        revoke(self.api)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.api.close()

    def workers(self) -> list[Device]:
        """Return the devices that the user may use."""
        return devices_of(self.api)

    def presets(self) -> list[Preset]:
        """Return the user's presets of options, newest first."""
        return [cast(Preset, row) for row in self.api.pages("tasks/option-presets/")]

    def tasks(self, *, limit: int = 50, **filters: str | Sequence[str]) -> list[Task]:
        """Return tasks, newest first.

        limit: 0 for all
        filters: query parameters of `GET /api/v1/tasks/`: status, worker_name, title, ...
        """
        query: Query = []
        for name, value in filters.items():
            values = [value] if isinstance(value, str) else value
            query += [(name, item) for item in values]
        tasks: list[Task] = []
        for task in self.api.pages("tasks/", query):
            tasks.append(cast(Task, task))
            if len(tasks) == limit:
                break
        return tasks

    def task(self, number: int) -> Task:
        return cast(Task, get_of_task(self.api, number, f"tasks/{number}/"))

    def check(self, **keys: Any) -> list[Planned]:
        """Check what `submit` would create, but create nothing; return a row for each task.

        Raises BatchError with all mistakes.
        """
        return self._check(blocks_of(keys, folder=Path()))

    def check_file(self, path: str | Path) -> list[Planned]:
        """Check a batch file as `check` does."""
        return self._check(read_batch(Path(path)))

    def _check(self, blocks: Sequence[Block]) -> list[Planned]:
        run, cells = prepared(self.api, blocks, "", deadline_of(None))
        check_cells(run, cells)
        return [cast(Planned, cell.matrix_row) for cell in cells]

    def submit(
        self, *, key: str = "", wait_for_room: bool = True, reuse: bool = False, **keys: Any
    ) -> list[int]:
        """Create models x devices x versions x option sets x repeats; return the tasks' numbers.

        key: name of this submission; repeated within a day, it creates nothing twice
        wait_for_room: wait while the user's limit of live tasks is reached
        reuse: use the user's earlier results of equal tasks, if there are any, instead of new
            tasks; their numbers are returned
        keys: those of a batch file: `models=["net.mge"], workers=["x86-1"], options={...}`

        Raises BatchError with all mistakes before anything is created; ClientError if the site
        refused some tasks.
        """
        return self._submit(blocks_of(keys, folder=Path()), key, wait_for_room, reuse=reuse)

    def submit_file(
        self,
        path: str | Path,
        *,
        key: str = "",
        wait_for_room: bool = True,
        reuse: bool = False,
    ) -> list[int]:
        """Create the tasks of a batch file; arguments and errors as for `submit`."""
        return self._submit(read_batch(Path(path)), key, wait_for_room, reuse=reuse)

    def _submit(
        self, blocks: Sequence[Block], key: str, wait_for_room: bool, *, reuse: bool = False
    ) -> list[int]:
        run, cells = prepared(self.api, blocks, key or uuid.uuid4().hex, deadline_of(None))
        run.reused = {} if reuse else None
        quota = check_cells(run, cells)
        rows = submit_cells(run, cells, may_wait=wait_for_room and quota.get("limit") != 0)
        if refused := [row["problem"] for row in rows if row["task"] is None]:
            made = [row["task"] for row in rows if row["task"] is not None]
            raise ClientError(f"Refused: {'; '.join(refused)}. Submitted: {made}")
        return [row["task"] for row in rows]

    def ab(
        self,
        models: Sequence[str | Path],
        worker: str,
        *,
        key: str = "",
        wait_for_room: bool = True,
        **keys: Any,
    ) -> int:
        """Compare 2 to 4 models on a device in pairs of processes; return the task's number.

        models: the first is the baseline; one model may be given several times
        key, wait_for_room: as for `submit`
        keys: further fields of `batchfile.paired.PairedModels`, such as `options={...}`,
            `arm_options={"B": {"fast_run": True}}`, `versions=["1.13.0"]`, `margin=0.02`

        Raises BatchError with all mistakes before anything is created; ClientError if the site
        refuses the task.
        """
        (task,) = self._submit([PairedModels(models, worker, **keys).block()], key, wait_for_room)
        return task

    def compare_paired(self, tasks: Sequence[int], *, key: str = "") -> int:
        """Compare what 2 to 4 ended tasks ran, on the device of the first one, in pairs of
        processes; return the number of the new task.
        """
        baseline, *others = tasks
        body = {"others": others}
        key = key or str(uuid.uuid4())
        return int(self.api.post(f"tasks/{baseline}/compare-paired/", body, key=key)["id"])

    def pairs(self, task: int) -> Pairs:
        """Return the result of a paired comparison. Raises ProblemError without one."""
        return cast(Pairs, get_of_task(self.api, task, f"profiles/of-task/{task}/pairs/"))

    def wait(self, tasks: Sequence[int], *, timeout_s: float | None = None) -> dict[int, Task]:
        """Wait until tasks have ended or the timeout has passed; return the tasks by number."""
        return wait_until_ended(self.api, tasks, deadline_of(timeout_s))

    def latency(self, task: int) -> Latency | None:
        """Return the time of an iteration without the profiler, ms; None if there is none (yet)."""
        try:
            return cast(Latency, self.api.get(f"profiles/of-task/{task}/measurement/"))
        except ProblemError as error:
            if error.status in {404, 409}:
                return None
            raise

    def profile(self, task: int) -> dict[str, Any] | None:
        """Return the profile of a task, None if it has none (yet)."""
        try:
            return cast(dict[str, Any], get_of_task(self.api, task, f"profiles/of-task/{task}/"))
        except ProblemError as error:
            if error.code in {"profile_not_yet", "profile_never"}:
                return None
            raise

    def _result(self, task: int) -> int:
        """Return the number of a task's profile. Raises ClientError if it has none (yet)."""
        profile = self.profile(task)
        if profile is None:
            raise ClientError(f"Task {task} has no result.")
        return int(profile["id"])

    def statistics(self, task: int) -> Statistics:
        """Return the totals of a result, s. Raises ClientError without one."""
        return cast(Statistics, self.api.get(f"profiles/{self._result(task)}/statistics/"))

    def operators(
        self, task: int, *, rows: int = MOST_ROWS, side: SideName = "device", by_type: bool = False
    ) -> OperatorTable:
        """Return the slowest operators, at most 500, or with `by_type` the sums of each type.

        Raises ClientError without a result.
        """
        query: Query = [("limit", _limit(rows)), ("side", side)]
        query += [("agg", "sum")] if by_type else []
        path = f"profiles/{self._result(task)}/operators/"
        return cast(OperatorTable, self.api.get(path, query))

    def compare(
        self, tasks: Sequence[int], *, rows: int = 15, side: SideName = "device"
    ) -> Comparison:
        """Compare 2 to 8 results; the first is the baseline.

        rows: operators that changed most, at most 500
        """
        if not FEWEST <= len(tasks) <= MOST:
            raise UsageError(f"Give {FEWEST} to {MOST} tasks.")
        query: Query = [("p", self._result(task)) for task in tasks]
        query += [("limit", _limit(rows)), ("side", side)]
        return cast(Comparison, self.api.get("profiles/compare/", query))

    def judge(self, tasks: Sequence[int], limit_percent: float | None = None) -> Gate:
        """Judge whether tasks are slower than the first by more, as `compare --fail-above` does.

        limit_percent: None to judge only the verdicts, as `compare --gate verdict` does

        Return the judged total with the `result`: `passed`, `failed` or `not enough evidence`.
        Raises ClientError if a task has no result, or if there are no times to judge.
        """
        return judged(self.compare(tasks, rows=1), tasks, limit_percent)

    def share(self, task: int, *, days: int | None = None, parts: Sequence[str] = ()) -> ShareLink:
        """Create a link to a result, for readers without an account.

        days: until it expires; None for 30, or the site's limit if it is lower
        parts: `log`, `inputs`, `model`: shown in addition to figures, operators and graph

        Only the returned value has the address of the link. Raises ProblemError without a result.
        """
        body: dict[str, Any] = {"task": task, "parts": list(parts)}
        if days is not None:
            body["days"] = days
        try:
            return cast(ShareLink, self.api.post("shares/", body))
        except ProblemError as error:
            if error.status == 404:
                raise ClientError(
                    f"Task {task} does not exist, is not yours or has no result."
                ) from error
            raise

    def export(self, task: int, format: Format = "csv") -> bytes:
        """Return all operators of a result as a file."""
        return self.api.fetch(f"profiles/{self._result(task)}/export/{format}/")

    def table(self, tasks: Sequence[int]) -> list[Row]:
        """Return a row for each task, as `export --table` does; unknown tasks have none."""
        return [row for piece in self.table_files(tasks, "json") for row in json.loads(piece)]

    def table_files(self, tasks: Sequence[int], format: Literal["csv", "json"]) -> Iterator[bytes]:
        """Yield files with a row for each task, several if there are many tasks."""
        numbers = sorted(set(tasks))
        for at in range(0, len(numbers), TABLE_PIECE):
            query: Query = [("task", number) for number in numbers[at : at + TABLE_PIECE]]
            yield self.api.fetch("profiles/of-tasks/", [("format", format), *query])

    def artifacts(self, task: int) -> list[Artifact]:
        """Return the files that the runs of a task left."""
        return list(self.api.get(f"tasks/{task}/artifacts/"))

    def download(self, task: int, name: str, path: str | Path) -> None:
        """Write an artifact of the last attempt to a file, which is replaced when complete."""
        with whole_file(Path(path)) as stream:
            for piece in self.api.download(f"tasks/{task}/artifacts/{quote(name, safe='')}/"):
                stream.write(piece)

    def cancel(self, tasks: Sequence[int]) -> Mapping[str, list[int]]:
        """End tasks; return the numbers of those `cancelled` and of those that had `ended`."""
        answer: dict[str, list[int]] = {"cancelled": [], "ended": []}
        for at in range(0, len(tasks), PIECE):
            piece = self._cancel({"tasks": list(tasks[at : at + PIECE])})
            for kind, numbers in answer.items():
                numbers += piece[kind]
        return answer

    def cancel_all(self) -> Mapping[str, list[int]]:
        """End all tasks of the user that have not ended; returns the same as `cancel`."""
        return self._cancel({"all_mine": True})

    def _cancel(self, body: Mapping[str, Any]) -> dict[str, list[int]]:
        return cast(dict[str, list[int]], self.api.post("tasks/cancel/", body, repeatable=True))

    def check_result(self, task: int) -> int:
        """Measure the latency of a result again in a few seconds; return the new task's number."""
        return int(self.api.post(f"tasks/{task}/check/", key=str(uuid.uuid4()))["id"])

    def enough(self, task: int) -> Task:
        """End the run of a task after its current pass or pair, and keep what was measured.

        Return the task; one whose run has ended does not change.
        """
        return cast(Task, self.api.post(f"tasks/{task}/enough/", repeatable=True))

    def retry(self, task: int) -> int:
        """Repeat a task that has ended; return the number of the new task."""
        return int(self.api.post(f"tasks/{task}/retry/", key=str(uuid.uuid4()))["id"])

    def delete(self, task: int) -> None:
        """Delete a task that has ended, with its files and results."""
        self.api.get(f"tasks/{task}/")
        try:
            self.api.delete(f"tasks/{task}/")
        except ProblemError as error:
            # an earlier attempt deleted it, but its response was lost
            if error.status != 404:
                raise


def _limit(rows: int) -> int:
    return max(1, min(rows, MOST_ROWS))
