"""Command `submit`: create many tasks from a file or from arguments."""

import argparse
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from webprofile.client.api import Api
from webprofile.client.batchfile import BatchError
from webprofile.client.batchfile.arguments import (
    FORMAT_HELP,
    add_batch_arguments,
    blocks_from_arguments,
)
from webprofile.client.batchfile.local_files import LocalFile, entry_mistake, look_at, size_of
from webprofile.client.batchfile.matrix import (
    MATRIX_HEADERS,
    Cell,
    CellFile,
    cells_of,
    newest_first,
    room_words,
)
from webprofile.client.commands import Parsers, added, open_api
from webprofile.client.commands.listing import usable
from webprofile.client.commands.waiting import (
    MOST_NAMED,
    code_of,
    deadline_of,
    summary_of,
    wait_until_ended,
)
from webprofile.client.errors import ClientError, ProblemError, UsageError
from webprofile.client.parts import has_sum, send_in_parts
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import FAILED, HELP, SUCCEEDED
from webprofile.terminal.output import print_json, print_table
from webprofile.terminal.progress import Progress

LONGEST_KEY = 100
#: pause between attempts while the user's limit of live tasks is reached
ROOM_PAUSE_S = 5.0

KEY_REUSED = (
    "With this --key another task was submitted: its files, its arguments or the newest version of "
    "its device have changed since. To submit it as it is now, use a new --key."
)
#: smallest file that is uploaded in parts, which are hashed while others are uploaded
PARTS_FROM_BYTES = 64 << 20

#: kind, name, MD5, size
Content = tuple[str, str, str, int]


@dataclass
class BatchRun:
    """State of one submission: site, devices, files, and the files that the site has already.

    known: number of a file at the site by its content
    """

    api: Api
    workers: Mapping[str, int]
    files: Mapping[Path, LocalFile]
    key: str
    deadline: float
    known: dict[Content, int] = field(default_factory=dict)
    #: checksums of files that are sent in parts, as far as they are known
    sums: dict[Path, str] = field(default_factory=dict)

    def content(self, kind: str, path: Path) -> Content:
        file = self.files[path]
        return (kind, file.name, file.md5 or self.sums.get(path, ""), file.size_bytes)


def add_parsers(commands: Parsers) -> None:
    submit = added(
        commands,
        "submit",
        "submit tasks, models x devices x versions x option sets x repeats, and wait for them",
        "-m resnet18.mge -w x86-1 -d data=cat.npy -p standard -r 3",
        '-s train.py --arguments "--epochs 1" --format timeline -w x86-1',
        "nightly.toml --dry-run",
        "nightly.toml --no-wait --key nightly-$(date +%F)",
        notes=f"{FORMAT_HELP}\n\n{HELP}",
    )
    add_batch_arguments(submit)
    add = submit.add_argument
    add("--dry-run", action="store_true", help="check everything, print the matrix, stop")
    add("--wait", action=argparse.BooleanOptionalAction, default=True, help="for the results")
    add("--timeout", type=seconds, metavar="S", help="wait so long at most")
    add("--key", metavar="NAME", help="a name for this run: said again within a day, nothing is "
        "made twice and a run that broke goes on")  # fmt: skip
    add("--json", action="store_true", help="the tasks as JSON")
    submit.set_defaults(command=submit_batch)


def submit_batch(args: argparse.Namespace) -> int:
    key = args.key or uuid.uuid4().hex
    if len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"--key takes 1 to {LONGEST_KEY} printable ASCII characters.")
    blocks = blocks_from_arguments(args)
    with open_api() as api:
        workers = list(api.pages("workers/"))
        devices = {worker["name"]: newest_first(usable(worker)) for worker in workers}
        cells = cells_of(blocks, devices)
        ids = {worker["name"]: worker["id"] for worker in workers}
        run = BatchRun(api, ids, _read(cells), key, deadline_of(args.timeout))
        if not _may_send_parts(run, cells):
            run = replace(run, files=_read(cells, in_parts=False))
        quota = _check(run, cells)
        if args.dry_run:
            _print_matrix(cells, as_json=args.json)
            return _print_quota(len(cells), quota, waits=args.wait)
        # with a limit of 0 no task of the user ever ends
        rows = _submit(run, cells, may_wait=args.wait and quota.get("limit") != 0)
        names = {
            row["task"]: cell.name for row, cell in zip(rows, cells, strict=True) if row["task"]
        }
        ended_tasks = wait_until_ended(api, list(names), run.deadline, names) if args.wait else {}
    for row in rows:
        if task := ended_tasks.get(row["task"]):
            row.update(status=task["status"], reason=task.get("reason"))
    if args.json:
        print_json(rows)
    elif not args.wait:
        print(" ".join(map(str, names)))
    refused = len(rows) - len(names)
    _print_summary(list(names), ended_tasks, refused=refused, waited=args.wait)
    return FAILED if refused else code_of(ended_tasks.values())


def _print_summary(
    tasks: Sequence[int], ended_tasks: Mapping[int, dict[str, Any]], *, refused: int, waited: bool
) -> None:
    """Print the summary to stderr, since programs read stdout."""
    if waited:
        print(summary_of(ended_tasks.values(), refused=refused), file=sys.stderr)
    else:
        text = f"{len(tasks)} submitted" + (f", {refused} refused" if refused else "")
        print(text, file=sys.stderr)
    if waited and 1 < len(tasks) <= MOST_NAMED:
        numbers = " ".join(map(str, tasks))
        print(f"As one table: webprofile export --table {numbers}", file=sys.stderr)


def _print_quota(tasks: int, quota: Mapping[str, int], *, waits: bool) -> int:
    """Print whether the user's limit of live tasks allows `tasks` more; return the exit code."""
    if not quota:  # no task was checked
        return SUCCEEDED
    text, fits = room_words(tasks, live=quota["live"], limit=quota["limit"], waits=waits)
    print(text, file=sys.stderr)
    return SUCCEEDED if fits else FAILED


def _may_send_parts(run: BatchRun, cells: Sequence[Cell]) -> bool:
    """Return whether the site accepts the large files of these tasks in parts, if there are any."""
    for cell in cells:
        if any(not run.files[file.path].md5 for file in cell.files):
            judged = run.api.post("tasks/judge/", _body(run, cell), repeatable=True)
            return (judged["refusal"] or {}).get("code") != "parts_not_here"
    return True


def _read(cells: Sequence[Cell], *, in_parts: bool = True) -> dict[Path, LocalFile]:
    unread = PARTS_FROM_BYTES if in_parts else None
    paths = {file.path for cell in cells for file in cell.files}
    with Progress(size_of(paths), "Reading", unit="bytes") as progress:
        return look_at(paths, progress.advance, unread_from_bytes=unread)


def _check(run: BatchRun, cells: Sequence[Cell]) -> dict[str, int]:
    """Validate every distinct cell at the site; return the user's number and limit of live tasks.

    Raises BatchError with all mistakes before any task is created.
    """
    quota: dict[str, int] = {}
    mistakes: list[tuple[str, str]] = []
    different = {cell.request_key: cell for cell in reversed(cells)}
    with Progress(len(different), "Checking", unit="tasks") as progress:
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
    try:
        judged = run.api.post("tasks/judge/", _body(run, cell), repeatable=True)
    except ProblemError as error:  # how a site of the last release reports fields of the wrong form
        if error.status != 422:
            raise
        problems = error.errors or [{"field": error.field, "detail": error.detail}]
        return [(cell.place_of(problem["field"]), problem["detail"]) for problem in problems]
    quota |= judged["quota"]
    refusal = judged["refusal"]
    if refusal is None:
        return []
    # for fields of the wrong form the refusal has no details, which are in `problems`
    mistakes = judged["problems"] if refusal["code"] == "invalid" else [refusal]
    return [(cell.place_of(mistake["field"]), mistake["detail"]) for mistake in mistakes]


def _submit(run: BatchRun, cells: Sequence[Cell], *, may_wait: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    try:
        with Progress(len(cells), "Submitting", unit="tasks") as progress:
            for cell in cells:
                rows.append(_submitted(run, cell, progress, may_wait=may_wait))
    except (KeyboardInterrupt, ClientError):
        made = sum(row["task"] is not None for row in rows)
        print(
            f"{made} of {len(cells)} tasks are submitted and go on. To submit the rest, and none "
            f"twice, say the same with --key {run.key}",
            file=sys.stderr,
        )
        raise
    return rows


def _submitted(run: BatchRun, cell: Cell, progress: Progress, *, may_wait: bool) -> dict[str, Any]:
    """Create the task of a cell; return its result row, also if the site refuses it.

    Raises errors that concern all cells.
    """
    number, problem = None, ""
    try:
        number = _make(run, cell, progress, may_wait=may_wait)
    except ProblemError as error:
        if error.status not in {404, 409, 422}:
            raise
        problem = KEY_REUSED if error.code == "idempotency_key_reused" else str(error)
    name = f"#{number}" if number else "refused"
    progress.step(f"{name} {cell.name} {problem}".rstrip())
    return {"task": number, **cell.result_row, "problem": problem}


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
                run.api.put_file(target["url"], target["headers"], file, _noting(progress, file))
        progress.note("")
        task = run.api.post(f"tasks/{number}/submit/", repeatable=True)
    for row, batch_file in zip(task["files"], cell.files, strict=True):
        _learn_sum(run, row["md5"], batch_file.path)
        content = (row["kind"], row["name"], row["md5"], row["size_bytes"])
        run.known.setdefault(content, row["id"])
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
    key = f"{run.key}-{cell.number}"
    body = _body(run, cell)
    while True:
        try:
            task: dict[str, Any] = run.api.post("tasks/", body, key=key)
        except ProblemError as error:
            whole = _body(run, cell, may_name=False)
            if error.code == "idempotency_key_reused" and body != whole:
                # before the interruption this task uploaded its files itself
                body = whole
                continue
            is_full = error.code == "quota_reached" and may_wait
            if not is_full or time.monotonic() >= run.deadline:
                raise
            progress.note("waiting until one of your tasks ended")
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


def _print_matrix(cells: Sequence[Cell], *, as_json: bool) -> None:
    rows = [cell.matrix_row for cell in cells]
    if as_json:
        names = ("number", "model", "worker", "version", "option_set", "repeat", "plan")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(rows, MATRIX_HEADERS)
    print(f"{len(rows)} tasks; nothing was created.", file=sys.stderr)
