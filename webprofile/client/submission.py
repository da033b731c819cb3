"""Create many tasks: read and upload their files, each once, and resume after an interruption."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from webprofile.client.answers import Device
from webprofile.client.api import Api
from webprofile.client.batchfile import BatchError
from webprofile.client.batchfile.local_files import LocalFile, entry_mistake, look_at, size_of
from webprofile.client.batchfile.matrix import Block, Cell, CellFile, cells_of, newest_first
from webprofile.client.errors import ClientError, ProblemError, UsageError
from webprofile.client.parts import has_sum, renewed_target, send_in_parts
from webprofile.terminal.progress import Progress

#: pause between attempts while the user's limit of live tasks is reached
ROOM_PAUSE_S = 5.0
#: a task's Idempotency-Key adds its number, within the site's limit
LONGEST_KEY = 100

KEY_REUSED = (
    "This --key was used for a different task: the files, the arguments or the newest version of "
    "the device have changed since. To submit the current state, use a new --key."
)
#: errors of a request that refers to files of an earlier task, after which they are uploaded
_NOT_BY_NAME = frozenset({"idempotency_key_reused", "file_unknown", "file_gone", "file_changed"})
#: smallest file that is uploaded in parts, which are hashed while others are uploaded
PARTS_FROM_BYTES = 64 << 20

#: kind, name, MD5, size
Content = tuple[str, str, str, int]


def devices_of(api: Api) -> list[Device]:
    return [cast(Device, row) for row in api.pages("workers/")]


def usable(worker: Device) -> list[str]:
    """Return the MegEngine versions of a device that have no problem."""
    return [runtime["version"] for runtime in worker["runtimes"] if not runtime["problem"]]


@dataclass
class BatchRun:
    """State of one submission: site, devices, files, and the files that the site has already.

    known: number of a file at the site by its content
    reused: results that are used instead of new tasks, by `Cell.request_key`; None to use none
    """

    api: Api
    workers: Mapping[str, int]
    files: Mapping[Path, LocalFile]
    key: str
    deadline: float
    known: dict[Content, int] = field(default_factory=dict)
    reused: dict[tuple[object, ...], dict[str, Any]] | None = None
    #: checksums of files that are sent in parts, as far as they are known
    sums: dict[Path, str] = field(default_factory=dict)

    def key_of(self, cell: Cell) -> str:
        """Return the Idempotency-Key of a cell."""
        return f"{self.key}-{cell.number}"

    def content(self, kind: str, path: Path) -> Content:
        file = self.files[path]
        return (kind, file.name, file.md5 or self.sums.get(path, ""), file.size_bytes)


def may_send_parts(run: BatchRun, cells: Sequence[Cell]) -> bool:
    """Return whether the site accepts the large files of these tasks in parts, if there are any."""
    for cell in cells:
        if any(not run.files[file.path].md5 for file in cell.files):
            judged = run.api.post("tasks/judge/", _body(run, cell), repeatable=True)
            return (judged["refusal"] or {}).get("code") != "parts_not_here"
    return True


def read_files(api: Api, cells: Sequence[Cell], *, in_parts: bool = True) -> dict[Path, LocalFile]:
    unread = PARTS_FROM_BYTES if in_parts else None
    paths = {file.path for cell in cells for file in cell.files}
    with Progress(size_of(paths), "Reading", unit="bytes", stream=api.log) as progress:
        return look_at(paths, progress.advance, unread_from_bytes=unread)


def check_cells(run: BatchRun, cells: Sequence[Cell]) -> dict[str, int]:
    """Validate every distinct cell at the site; return the user's number and limit of live tasks.

    Raises BatchError with all mistakes before any task is created.
    """
    quota: dict[str, int] = {}
    mistakes: list[tuple[str, str]] = []
    different = {cell.request_key: cell for cell in reversed(cells)}
    with Progress(len(different), "Checking", unit="tasks", stream=run.api.log) as progress:
        for cell in reversed(different.values()):
            mistakes += _refusals(run, cell, quota)
            progress.advance()
    if mistakes:
        raise BatchError(mistakes)
    return quota


def _refusals(run: BatchRun, cell: Cell, quota: dict[str, int]) -> list[tuple[str, str]]:
    """Return the mistakes of a cell as (place in the file, text); update `quota`."""
    script = cell.block.script
    if script is not None and (mistake := entry_mistake(cell.model, script.get("entry"))):
        return [(cell.place_of("entry"), mistake)]
    # with the key the site offers no earlier result for a task that this run has made before
    judged = run.api.post("tasks/judge/", _body(run, cell), key=run.key_of(cell))
    quota |= judged["quota"]
    refusal = judged["refusal"]
    if run.reused is not None and judged["earlier"]:
        run.reused[cell.request_key] = judged["earlier"]
    if refusal is None:
        return []
    # for fields of the wrong form the refusal has no details, which are in `problems`
    mistakes = judged["problems"] if refusal["code"] == "invalid" else [refusal]
    return [(cell.place_of(mistake["field"]), mistake["detail"]) for mistake in mistakes]


def submit_cells(run: BatchRun, cells: Sequence[Cell], *, may_wait: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    try:
        with Progress(len(cells), "Submitting", unit="tasks", stream=run.api.log) as progress:
            for cell in cells:
                rows.append(_submitted(run, cell, progress, may_wait=may_wait))
    except (KeyboardInterrupt, ClientError):
        made = sum(row["task"] is not None for row in rows)
        print(
            f"{made} of {len(cells)} tasks were submitted and continue. To submit the rest "
            f"without duplicates, repeat the command with --key {run.key}",
            file=run.api.log,
        )
        raise
    return rows


def _submitted(run: BatchRun, cell: Cell, progress: Progress, *, may_wait: bool) -> dict[str, Any]:
    """Create the task of a cell; return its result row, also if the site refuses it.

    Raises errors that concern all cells.
    """
    number, problem = None, ""
    # of repeats, the first one uses the result
    earlier = run.reused.pop(cell.request_key, None) if run.reused else None
    if earlier is not None:
        progress.step(f"#{earlier['task']} {cell.name}: {earlier['text']} {earlier['drift']}")
        return {"task": earlier["task"], **cell.result_row, "problem": "", "is_reused": True}
    try:
        number = _make(run, cell, progress, may_wait=may_wait)
    except ProblemError as error:
        if error.status not in {404, 409, 422}:
            raise
        problem = KEY_REUSED if error.code == "idempotency_key_reused" else str(error)
    name = f"#{number}" if number else "refused"
    progress.step(f"{name} {cell.name} {problem}".rstrip())
    return {"task": number, **cell.result_row, "problem": problem, "is_reused": False}


def _make(run: BatchRun, cell: Cell, progress: Progress, *, may_wait: bool) -> int:
    """Create a task, upload its files and submit it; return its number. Raises ProblemError."""
    task = _created(run, cell, progress, may_wait=may_wait)
    number = int(task["id"])
    if task["status"] == "initiated":
        paths = [file.path for file in cell.files]
        # the files of the response are in the order of the request
        by_file = {row["id"]: path for row, path in zip(task["files"], paths, strict=True)}
        for target in task["uploads"]:
            path = by_file[target["file"]]
            file = run.files[path]
            if target["parts"]:
                noting = _noting(progress, file)
                run.sums[path] = send_in_parts(run.api, number, target, file, noting)
            else:
                renew = partial(renewed_target, run.api, number, target["file"])
                noting = _noting(progress, file)
                run.api.put_file(target["url"], target["headers"], file, noting, renew)
        progress.note("")
        task = run.api.post(f"tasks/{number}/submit/", repeatable=True)
    for row, batch_file in zip(task["files"], cell.files, strict=True):
        _learn_sum(run, row["md5"], batch_file.path)
        content = (row["kind"], row["name"], row["md5"], row["size_bytes"])
        run.known[content] = row["id"]
    return number


def _learn_sum(run: BatchRun, md5: str, path: Path) -> None:
    """Remember the checksum of a file that an interrupted run has uploaded before."""
    file = run.files[path]
    if not file.md5 and path not in run.sums and file.size_bytes and has_sum(file, md5):
        run.sums[path] = md5


def _noting(progress: Progress, file: LocalFile) -> Callable[[int], None]:
    """Return a callback that shows the progress of an upload behind the progress bar."""
    return lambda sent: progress.note(f"{file.name} {100 * sent // max(1, file.size_bytes)} %")


def _created(run: BatchRun, cell: Cell, progress: Progress, *, may_wait: bool) -> dict[str, Any]:
    """Create the task of a cell idempotently; wait while the user's limit is reached."""
    body = _body(run, cell)
    while True:
        try:
            task: dict[str, Any] = run.api.post("tasks/", body, key=run.key_of(cell))
        except ProblemError as error:
            whole = _body(run, cell, may_name=False)
            if error.code in _NOT_BY_NAME and body != whole:
                # before an interruption this task uploaded its files itself, or the task that has
                # them was deleted meanwhile
                body = whole
                continue
            is_full = error.code == "quota_reached" and may_wait
            if not is_full or time.monotonic() >= run.deadline:
                raise
            progress.note("waiting until one of your tasks ends")
            time.sleep(ROOM_PAUSE_S)
        else:
            return task


def _body(run: BatchRun, cell: Cell, *, may_name: bool = True) -> dict[str, Any]:
    """Return the request body of a cell.

    may_name: refer to files that the site has instead of uploading them again
    """
    known = run.known if may_name else {}
    files = [_file(run, file, known) for file in cell.files]
    return cell.body(files, run.workers.get(cell.worker))


def _file(run: BatchRun, file: CellFile, known: Mapping[Content, int]) -> dict[str, Any]:
    """Return the API's description of a new file, or a reference to one of an earlier task."""
    number = known.get(run.content(file.kind, file.path))
    if number is not None:
        return {**file.use, "from_file": number}
    return file.body(run.files[file.path])


def prepared(
    api: Api, blocks: Sequence[Block], key: str, deadline: float
) -> tuple[BatchRun, list[Cell]]:
    """Return the submission of these matrices and its tasks, with the files read.

    key: prefix of the Idempotency-Keys of all tasks
    deadline: monotonic time until which to wait while the user's limit is reached

    Raises BatchError; ClientError.
    """
    if len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"A key must have 1 to {LONGEST_KEY} printable ASCII characters, without spaces."
        )
    workers = devices_of(api)
    devices = {worker["name"]: newest_first(usable(worker)) for worker in workers}
    cells = cells_of(blocks, devices)
    ids = {worker["name"]: worker["id"] for worker in workers}
    run = BatchRun(api, ids, read_files(api, cells), key, deadline)
    if not may_send_parts(run, cells):
        run = replace(run, files=read_files(api, cells, in_parts=False))
    return run, cells
