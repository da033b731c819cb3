"""Batches of `manage.py submit`: validate every cell before the first task is created.

The client does this over the API (`tasks/judge/`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rest_framework.exceptions import ValidationError

from accounts.models import User
from tasks.submission.contents import head_bytes_of, inspect_files
from tasks.submission.creation import task_rows
from tasks.submission.request import TaskRequest
from tasks.submission.schema import TaskBody, find_worker, task_request_of
from tasks.submission.validation import admit
from webprofile.client.batchfile.local_files import LocalFile
from webprofile.client.batchfile.matrix import Cell, newest_first
from webprofile.errors import DomainError
from workers.models import Worker
from workers.selectors import visible_workers

#: errors of a request: it breaks a rule, or does not match the schema
Refusal = DomainError | ValidationError


@dataclass(frozen=True)
class PlannedTask:
    """A task that can be created: the cell of the matrix, and the validated request.

    worker: None if the request's target chooses it
    """

    cell: Cell
    worker: Worker | None
    request: TaskRequest


class BatchRefusedError(Exception):
    """Some cells of a batch are invalid.

    refusals: each invalid cell with its first error
    """

    def __init__(self, refusals: Sequence[tuple[Cell, Refusal]]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(f"{len(self.refusals)} tasks refused")


def devices_of(user: User) -> dict[str, list[str]]:
    """Return the usable versions of each device that a user may use, newest first."""
    return {
        worker.name: newest_first([r.version for r in worker.runtimes.all() if not r.problem])
        for worker in visible_workers(user)
    }


def batch_plan(
    owner: User, cells: Iterable[Cell], files: Mapping[Path, LocalFile]
) -> list[PlannedTask]:
    """Validate every cell by the rules for a single task, including the headers of data files.

    Raises BatchRefusedError. Each request is validated again when its task is created, since
    devices and limits may change until then.
    """
    planned, refusals = [], []
    results: dict[tuple[object, ...], PlannedTask | Refusal] = {}
    for cell in cells:
        result = results.get(cell.request_key)
        if result is None:
            try:
                result = _validate(owner, cell, files)
            except (DomainError, ValidationError) as refusal:
                result = refusal
                refusals.append((cell, refusal))
            results[cell.request_key] = result
        if isinstance(result, PlannedTask):
            request = replace(result.request, title=cell.title)
            planned.append(replace(result, cell=cell, request=request))
    if refusals:
        raise BatchRefusedError(refusals)
    return planned


def _validate(owner: User, cell: Cell, files: Mapping[Path, LocalFile]) -> PlannedTask:
    """Validate one cell.

    Raises ValidationError, and DomainError, also those that `submit_task` would raise after the
    upload.
    """
    uploads = [file.body(files[file.path]) for file in cell.files]
    body = TaskBody(data=cell.body(uploads, cell.worker))
    body.is_valid(raise_exception=True)
    request = task_request_of(body.validated_data, owner)
    worker = find_worker(body.validated_data["worker"])
    admitted = admit(owner=owner, worker=worker, request=request)
    task, rows = task_rows(owner, request, admitted)
    heads = {}
    for number, (row, local) in enumerate(zip(rows, cell.files, strict=True)):
        row.pk = number
        if size := head_bytes_of(row):
            with local.path.open("rb") as file:
                heads[number] = file.read(size)
    inspect_files(task, rows, heads)
    return PlannedTask(cell, worker, request)
