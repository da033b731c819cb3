"""Tasks asked for in bulk: each cell of a matrix is judged before one task is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accounts.models import User
from tasks.asking.admission import Admitted, admit
from tasks.asking.inputs import read_shape
from tasks.asking.inspection import bytes_wanted, inspect
from tasks.asking.measuring import read_plan
from tasks.asking.programs import bytes_wanted_of, check_model, check_program
from tasks.asking.request import FileRequest, InputRequest, TaskRequest
from tasks.asking.scripts import read_script
from tasks.kinds import Kind
from tasks.models import Task, TaskFile
from tasks.queue.targets import read_target
from tasks.submitting import check_feeds
from webprofile.batchfile.local_files import LocalFile
from webprofile.batchfile.matrix import AskedFile, Cell, newest_first
from webprofile.errors import DomainError
from workers.models import Worker
from workers.selectors import workers_visible_to


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

    def __init__(self, refusals: Sequence[tuple[Cell, DomainError]]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(f"{len(self.refusals)} tasks refused")


def devices_of(user: User) -> dict[str, list[str]]:
    """The versions that can be used on each device that a user may choose, newest first."""
    workers = workers_visible_to(user).filter(retired_at=None)
    return {
        worker.name: newest_first([r.version for r in worker.runtimes.all() if not r.problem])
        for worker in workers
    }


def batch_plan(
    owner: User, cells: Iterable[Cell], files: Mapping[Path, LocalFile]
) -> list[Planned]:
    """Judge every cell by the rules of a single task, data files' headers included.

    Raises BatchRefusedError. What changes until a task is made is judged again then.
    """
    workers = {worker.name: worker for worker in workers_visible_to(owner).filter(retired_at=None)}
    planned, refusals = [], []
    judged: dict[tuple[object, ...], TaskRequest | DomainError] = {}
    for cell in cells:
        # repeats differ in their titles alone
        key = (id(cell.block), cell.model, cell.worker, cell.version, cell.option_set)
        if key not in judged:
            judged[key] = _judged(owner, workers.get(cell.worker), cell, files)
            if isinstance(found := judged[key], DomainError):
                refusals.append((cell, found))
        if isinstance(found := judged[key], TaskRequest):
            request = replace(found, title=cell.title)
            planned.append(Planned(cell, workers.get(cell.worker), request))
    if refusals:
        raise BatchRefusedError(refusals)
    return planned


def _judged(
    owner: User, worker: Worker | None, cell: Cell, files: Mapping[Path, LocalFile]
) -> TaskRequest | DomainError:
    try:
        request = _request(cell, files)
        admitted = admit(owner=owner, worker=worker, request=request)
        _check_data(admitted, cell, request)
    except DomainError as error:
        return error
    return request


def _request(cell: Cell, files: Mapping[Path, LocalFile]) -> TaskRequest:
    """Raises DomainError plan_* and shape_bad."""
    return TaskRequest(
        runtime_version="" if cell.target is not None else cell.version,
        options=cell.options,
        files=tuple(_file(asked, files[asked.path]) for asked in cell.files),
        inputs=tuple(_inputs(cell)),
        plan=read_plan(cell.block.plan),
        seed=cell.block.seed,
        target=(
            None
            if cell.target is None
            else read_target(cell.target, scripts=cell.block.script is not None)
        ),
        priority=cell.block.priority,
        title=cell.title,
        script=read_script(cell.block.script),
        time_limit_s=cell.block.time_limit_s,
    )


def _file(asked: AskedFile, file: LocalFile) -> FileRequest:
    return FileRequest(asked.kind, file.name, file.size_bytes, file.md5, asked.input, asked.option)


def _inputs(cell: Cell) -> Iterable[InputRequest]:
    for number, given in enumerate(cell.block.inputs):
        field = f"inputs.{number}"
        shape, dtype = given.get("shape"), given.get("dtype", "")
        if isinstance(shape, list):
            shape = ",".join(map(str, shape))
        if not isinstance(shape, str | None) or not isinstance(dtype, str):
            raise DomainError("shape_bad", field=field, limit=7)
        found = read_shape(shape, field) if shape is not None else None
        yield InputRequest(given["name"], given.get("literal", "").strip(), found, dtype)


def _check_data(admitted: Admitted, cell: Cell, request: TaskRequest) -> None:
    """What `task_submit` would refuse after the upload.

    Raises DomainError input_*, script_*, model_is_script.
    """
    runtime = admitted.worker.runtimes.get(version=admitted.runtime_version)
    kind = Kind.MODEL if request.script is None else Kind.SCRIPT
    task = Task(kind=kind, inputs=[{"name": each.name} for each in request.inputs])
    rows = []
    for asked, file in zip(cell.files, request.files, strict=True):
        row = TaskFile(
            task=task,
            kind=file.kind,
            name=file.name,
            input=file.input,
            size_bytes=file.size_bytes,
        )
        if file.kind == TaskFile.Kind.MODEL:
            _check_start(row, asked.path, request)
        elif file.kind == TaskFile.Kind.DATA and request.script is None:
            head = _head(asked.path, bytes_wanted(file.name, file.size_bytes))
            found = inspect(file.name, head, file.size_bytes, kind=runtime.kind)
            row.arrays = [array.as_row() for array in found]
        rows.append(row)
    check_feeds(task, rows)


def _check_start(row: TaskFile, path: Path, request: TaskRequest) -> None:
    head = _head(path, bytes_wanted_of(row))
    if request.script is not None:
        check_program(row.name, head, row.size_bytes, entry=request.script.entry)
    elif head:
        check_model(row.name, head)


def _head(path: Path, wanted: int) -> bytes:
    if not wanted:
        return b""
    with path.open("rb") as opened:
        return opened.read(wanted)
