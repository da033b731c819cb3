"""submit: many tasks from a file or from arguments."""

import argparse
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from webprofile.client.api import Api
from webprofile.client.batchfile.arguments import FORMAT_HELP, add_batch_arguments, blocks_asked
from webprofile.client.batchfile.local_files import LocalFile, entry_mistake, look_at, size_of
from webprofile.client.batchfile.matrix import (
    MATRIX_HEADERS,
    AskedFile,
    Cell,
    cells_of,
    newest_first,
    room_words,
)
from webprofile.client.batchfile.mistakes import BatchError
from webprofile.client.commands import Parsers, added, opened
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
#: while the owner's limit is reached
ROOM_PAUSE_S = 5.0

#: a file of this size is sent in parts, whose sums are formed while others are on their way
PARTS_FROM_BYTES = 64 << 20

#: kind, name, MD5, size
Content = tuple[str, str, str, int]


@dataclass
class Run:
    """One run: what it asks, and the files that the site has already."""

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


def submit_batch(given: argparse.Namespace) -> int:
    key = given.key or uuid.uuid4().hex
    if len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(f"--key takes 1 to {LONGEST_KEY} printable ASCII characters.")
    blocks = blocks_asked(given)
    with opened() as api:
        workers = list(api.pages("workers/"))
        devices = {each["name"]: newest_first(usable(each)) for each in workers}
        cells = cells_of(blocks, devices)
        ids = {each["name"]: each["id"] for each in workers}
        run = Run(api, ids, _read(cells), key, deadline_of(given.timeout))
        if not _may_send_parts(run, cells):
            run = replace(run, files=_read(cells, in_parts=False))
        quota = _check(run, cells)
        if given.dry_run:
            _print_matrix(cells, as_json=given.json)
            return _tell_room(len(cells), quota, waits=given.wait)
        rows = _submit(run, cells, may_wait=given.wait)
        names = {
            row["task"]: cell.name for row, cell in zip(rows, cells, strict=True) if row["task"]
        }
        found = wait_until_ended(api, list(names), run.deadline, names) if given.wait else {}
    rows = [row | _result(found.get(row["task"])) for row in rows]
    if given.json:
        print_json(rows)
    elif not given.wait:
        print(" ".join(map(str, names)))
    refused = len(rows) - len(names)
    _tell_end(list(names), found, refused=refused, waited=given.wait)
    return FAILED if refused else code_of(found.values())


def _tell_end(
    tasks: Sequence[int], found: Mapping[int, dict[str, Any]], *, refused: int, waited: bool
) -> None:
    """The last lines, beside standard output: programs read that."""
    if waited:
        print(summary_of(found.values(), refused=refused), file=sys.stderr)
    else:
        text = f"{len(tasks)} submitted" + (f", {refused} refused" if refused else "")
        print(text, file=sys.stderr)
    if waited and 1 < len(tasks) <= MOST_NAMED:
        numbers = " ".join(map(str, tasks))
        print(f"As one table: webprofile export --table {numbers}", file=sys.stderr)


def _tell_room(tasks: int, quota: Mapping[str, int], *, waits: bool) -> int:
    """Whether the owner's limit leaves room for them; the exit code of it."""
    if not quota:  # without tasks nothing was asked
        return SUCCEEDED
    text, fits = room_words(tasks, live=quota["live"], limit=quota["limit"], waits=waits)
    print(text, file=sys.stderr)
    return SUCCEEDED if fits else FAILED


def _may_send_parts(run: Run, cells: Sequence[Cell]) -> bool:
    """Whether the site's storage takes large files of these tasks in parts, if they have any."""
    for cell in cells:
        if any(not run.files[asked.path].md5 for asked in cell.files):
            judged = run.api.post("tasks/judge/", _body(run, cell), repeatable=True)
            return (judged["refusal"] or {}).get("code") != "parts_not_here"
    return True


def _read(cells: Sequence[Cell], *, in_parts: bool = True) -> dict[Path, LocalFile]:
    unread = PARTS_FROM_BYTES if in_parts else None
    paths = {asked.path for cell in cells for asked in cell.files}
    with Progress(size_of(paths), "Reading", unit="bytes") as progress:
        return look_at(paths, progress.advance, unread_from_bytes=unread)


def _check(run: Run, cells: Sequence[Cell]) -> dict[str, int]:
    """Have the site judge every different cell; how many tasks the owner has and may have.

    Raises BatchError before anything is made.
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


def _refusals(run: Run, cell: Cell, quota: dict[str, int]) -> list[tuple[str, str]]:
    """quota: gets what the site says of it"""
    script = cell.block.script
    if script is not None and (mistake := entry_mistake(cell.model, script.get("entry"))):
        return [(cell.place_of("entry"), mistake)]
    judged = run.api.post("tasks/judge/", _body(run, cell), repeatable=True)
    quota |= judged["quota"]
    refusal = judged["refusal"]
    if refusal is None:
        return []
    # of a request with fields of the wrong form the refusal says only that there are some
    mistakes = judged["problems"] if refusal["code"] == "invalid" else [refusal]
    return [(cell.place_of(mistake["field"]), mistake["detail"]) for mistake in mistakes]


def _submit(run: Run, cells: Sequence[Cell], *, may_wait: bool) -> list[dict[str, Any]]:
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


def _submitted(run: Run, cell: Cell, progress: Progress, *, may_wait: bool) -> dict[str, Any]:
    """The row of one cell, also of one that is refused. Raises what concerns the others too."""
    number, problem = None, ""
    try:
        number = _make(run, cell, progress, may_wait=may_wait)
    except ProblemError as error:
        if error.status not in {404, 409, 422}:
            raise
        problem = str(error)
    name = f"#{number}" if number else "refused"
    progress.step(f"{name} {cell.name} {problem}".rstrip())
    return {"task": number, **cell.result_row, "problem": problem}


def _make(run: Run, cell: Cell, progress: Progress, *, may_wait: bool) -> int:
    """A task in the queue; its number. Raises ProblemError."""
    task = _created(run, cell, progress, may_wait=may_wait)
    number = int(task["id"])
    if task["status"] == "initiated":
        paths = [asked.path for asked in cell.files]
        # in the order in which they were announced
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
    for row, asked in zip(task["files"], cell.files, strict=True):
        _learn_sum(run, row["md5"], asked.path)
        content = (row["kind"], row["name"], row["md5"], row["size_bytes"])
        run.known.setdefault(content, row["id"])
    return number


def _learn_sum(run: Run, md5: str, path: Path) -> None:
    """A run that goes on finds files that it sent before it broke."""
    file = run.files[path]
    if not file.md5 and path not in run.sums and file.size_bytes and has_sum(file, md5):
        run.sums[path] = md5


def _noting(progress: Progress, file: LocalFile) -> Callable[[int], None]:
    """Behind the bar: how far an upload is."""
    return lambda sent: progress.note(f"{file.name} {100 * sent // max(1, file.size_bytes)} %")


def _created(run: Run, cell: Cell, progress: Progress, *, may_wait: bool) -> dict[str, Any]:
    """Made once, however often it is asked for; waits while the owner's limit is reached."""
    key = f"{run.key}-{cell.number}"
    body = _body(run, cell)
    while True:
        try:
            made: dict[str, Any] = run.api.post("tasks/", body, key=key)
        except ProblemError as error:
            whole = _body(run, cell, may_name=False)
            if error.code == "idempotency_key_reused" and body != whole:
                # before the run broke, this task brought its files itself
                body = whole
                continue
            is_full = error.code == "quota_reached" and may_wait
            if not is_full or time.monotonic() >= run.deadline:
                raise
            progress.note("waiting until one of your tasks ended")
            time.sleep(ROOM_PAUSE_S)
        else:
            return made


def _body(run: Run, cell: Cell, *, may_name: bool = True) -> dict[str, Any]:
    """may_name: files that the site has are named instead of sent"""
    known = run.known if may_name else {}
    files = [_file(run, asked, known) for asked in cell.files]
    return cell.body(files, run.workers.get(cell.worker))


def _file(run: Run, asked: AskedFile, known: Mapping[Content, int]) -> dict[str, Any]:
    """A file to be sent, or one that an earlier task of this run brought."""
    number = known.get(run.content(asked.kind, asked.path))
    if number is not None:
        return {**asked.use, "from_file": number}
    return asked.body(run.files[asked.path])


def _result(task: dict[str, Any] | None) -> dict[str, Any]:
    return {} if task is None else {"status": task["status"], "reason": task.get("reason")}


def _print_matrix(cells: Sequence[Cell], *, as_json: bool) -> None:
    rows = [each.matrix_row for each in cells]
    if as_json:
        names = ("number", "model", "worker", "version", "option_set", "repeat", "plan")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(rows, MATRIX_HEADERS)
    print(f"{len(rows)} tasks; nothing was created.", file=sys.stderr)
