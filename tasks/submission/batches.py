"""Tasks asked for in bulk: each cell of a matrix is judged before one task is made."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rest_framework.exceptions import ValidationError

from accounts.models import User
from tasks.kinds import Kind
from tasks.models import Task, TaskFile
from tasks.submission.contents import head_bytes_of, look_into
from tasks.submission.request import TaskRequest
from tasks.submission.validation import Admitted, admit
from webprofile.batchfile.local_files import LocalFile
from webprofile.batchfile.matrix import Cell, newest_first
from webprofile.errors import DomainError
from workers.models import Worker
from workers.selectors import workers_visible_to

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
        for worker in workers_visible_to(user)
    }


def batch_plan(
    owner: User,
    cells: Iterable[Cell],
    files: Mapping[Path, LocalFile],
    read: Callable[[dict[str, Any]], TaskRequest],
) -> list[Planned]:
    """Judge every cell by the rules of a single task, data files' headers included.

    read: the reader of the API's request for a task; it raises ValidationError or DomainError.
    Raises BatchRefusedError. What changes until a task is made is judged again then.
    """
    workers = {worker.name: worker for worker in workers_visible_to(owner)}
    planned, refusals = [], []
    judged: dict[tuple[object, ...], TaskRequest | Refusal] = {}
    for cell in cells:
        found = judged.get(cell.request_key)
        if found is None:
            try:
                body = cell.body([each.body(files[each.path]) for each in cell.files], cell.worker)
                found = read(body)
                admitted = admit(owner=owner, worker=workers.get(cell.worker), request=found)
                _check_data(admitted, cell, found)
            except (DomainError, ValidationError) as refusal:
                found = refusal
                refusals.append((cell, refusal))
            judged[cell.request_key] = found
        if isinstance(found, TaskRequest):
            request = replace(found, title=cell.title)
            planned.append(Planned(cell, workers.get(cell.worker), request))
    if refusals:
        raise BatchRefusedError(refusals)
    return planned


def _check_data(admitted: Admitted, cell: Cell, request: TaskRequest) -> None:
    """What `task_submit` would refuse after the upload. Raises DomainError as `look_into`."""
    task = Task(
        worker=admitted.worker,
        runtime_version=admitted.runtime_version,
        kind=Kind.MODEL if request.script is None else Kind.SCRIPT,
        script=None if request.script is None else request.script.model_dump(mode="json"),
        inputs=[{"name": each.name} for each in request.inputs],
    )
    rows = [
        TaskFile(
            pk=number,
            task=task,
            kind=file.kind,
            name=file.name,
            input=file.input,
            size_bytes=file.size_bytes,
        )
        for number, file in enumerate(request.files, start=1)
    ]
    paths = [asked.path for asked in cell.files]
    look_into(task, rows, dict(_heads(rows, paths)))


def _heads(rows: Iterable[TaskFile], paths: Iterable[Path]) -> Iterator[tuple[int, bytes]]:
    for row, path in zip(rows, paths, strict=True):
        if wanted := head_bytes_of(row):
            with path.open("rb") as opened:
                yield row.pk, opened.read(wanted)
