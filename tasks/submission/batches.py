"""Tasks asked for in bulk: each cell of a matrix is judged before one task is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rest_framework.exceptions import ValidationError

from accounts.models import User
from tasks.submission.contents import head_bytes_of, look_into
from tasks.submission.creation import task_rows
from tasks.submission.request import TaskRequest
from tasks.submission.schema import TaskBody, request_asked, worker_asked
from tasks.submission.validation import admit
from webprofile.client.batchfile.local_files import LocalFile
from webprofile.client.batchfile.matrix import Cell, newest_first
from webprofile.errors import DomainError
from workers.models import Worker
from workers.selectors import visible_workers

#: why a request cannot be met: it breaks a rule, or is none
Refusal = DomainError | ValidationError


@dataclass(frozen=True)
class Planned:
    """A task that may be made: the cell, and the request in the server's words.

    `worker` None: one that fits the request's target.
    """

    cell: Cell
    worker: Worker | None
    request: TaskRequest


class BatchRefusedError(Exception):
    """`refusals`: every cell that cannot be met, with the first reason."""

    def __init__(self, refusals: Sequence[tuple[Cell, Refusal]]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(f"{len(self.refusals)} tasks refused")


def devices_of(user: User) -> dict[str, list[str]]:
    """The versions that can be used on each device that a user may choose, newest first."""
    return {
        worker.name: newest_first([r.version for r in worker.runtimes.all() if not r.problem])
        for worker in visible_workers(user)
    }


def batch_plan(
    owner: User, cells: Iterable[Cell], files: Mapping[Path, LocalFile]
) -> list[Planned]:
    """Judge every cell by the rules of a single task, data files' headers included.

    Raises BatchRefusedError. What changes until a task is made is judged again then.
    """
    planned, refusals = [], []
    judged: dict[tuple[object, ...], Planned | Refusal] = {}
    for cell in cells:
        found = judged.get(cell.request_key)
        if found is None:
            try:
                found = _judge(owner, cell, files)
            except (DomainError, ValidationError) as refusal:
                found = refusal
                refusals.append((cell, refusal))
            judged[cell.request_key] = found
        if isinstance(found, Planned):
            request = replace(found.request, title=cell.title)
            planned.append(replace(found, cell=cell, request=request))
    if refusals:
        raise BatchRefusedError(refusals)
    return planned


def _judge(owner: User, cell: Cell, files: Mapping[Path, LocalFile]) -> Planned:
    """Raises ValidationError, DomainError; also what `submit_task` would after the upload."""
    announced = [asked.body(files[asked.path]) for asked in cell.files]
    body = TaskBody(data=cell.body(announced, cell.worker))
    body.is_valid(raise_exception=True)
    request = request_asked(body.validated_data, owner)
    worker = worker_asked(body.validated_data["worker"])
    admitted = admit(owner=owner, worker=worker, request=request)
    task, rows = task_rows(owner, request, admitted)
    heads = {}
    for number, (row, asked) in enumerate(zip(rows, cell.files, strict=True)):
        row.pk = number
        if wanted := head_bytes_of(row):
            with asked.path.open("rb") as file:
                heads[number] = file.read(wanted)
    look_into(task, rows, heads)
    return Planned(cell, worker, request)
