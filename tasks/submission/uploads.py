"""Store the files of tasks in object storage, verify uploads, and put tasks into the queue."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tasks.lifecycle.transitions import transition_if
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Task, TaskFile
from tasks.scheduling.targets import candidates, target_of
from tasks.states import TaskState
from tasks.submission.contents import head_bytes_of, inspect_files
from tasks.submission.request import FileRequest, request_of
from tasks.submission.validation import first_that_fits
from webprofile.errors import DomainError
from webprofile.storage import storage

#: size in bytes and checksum of an object, as storage reports them
StoredObject = tuple[int, str]


class FileStore:
    """Uploads local files of many tasks; equal content is sent once and then copied in storage."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def store(self, row: TaskFile, path: Path) -> None:
        """Store a file. Raises OSError; DomainError storage_unreachable, object_missing."""
        content = (row.md5, row.size_bytes)
        if content in self._known:
            storage.copy(self._known[content], row.object_key)
            return
        with path.open("rb") as file:
            storage.write_from(row.object_key, file)
        self._known[content] = row.object_key


class UploadedFile(Protocol):
    """A row of a file that is uploaded to object storage."""

    name: str
    size_bytes: int
    part_bytes: int
    etag: str

    @property
    def object_key(self) -> str: ...

    @property
    def stored_md5(self) -> str: ...


def find_stored_object(file: UploadedFile) -> StoredObject | None:
    """Return size and checksum of a file's object in storage; None if it is missing.

    For a file that was uploaded in parts this is what storage reported when they were joined: no
    presigned URL for the whole object exists, and some storage reads all of it to compute the
    checksum. Raises DomainError storage_unreachable.
    """
    if file.part_bytes and file.etag:
        return file.size_bytes, file.etag
    return storage.head(file.object_key)


def check_uploads(files: Sequence[tuple[UploadedFile, StoredObject | None]]) -> None:
    """Check each file against its stored object; None if storage has none.

    Raises DomainError upload_missing or upload_damaged, naming the files.
    """
    missing = [file.name for file, stored in files if stored is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    damaged = [f.name for f, stored in files if stored != (f.size_bytes, f.stored_md5)]
    if damaged:
        raise DomainError("upload_damaged", status=409, files=", ".join(damaged))


def check_sources(files: Iterable[FileRequest]) -> None:
    """Check that storage holds the intact sources of all files that a new task copies.

    This precedes the creation of the task: rows record what the site itself removed, but not what
    life-cycle rules or an operator removed from the bucket. Raises DomainError file_gone,
    file_changed, storage_unreachable.
    """
    for file in files:
        if not file.source:
            continue
        head = storage.head(file.source)
        is_whole = head is not None and head[0] == file.size_bytes
        if head is None or not is_whole or not storage.may_be_same(head[1], file.stored_md5):
            code = "file_gone" if head is None else "file_changed"
            raise DomainError(code, field=file.option or file.kind, name=file.name)


def confirm_task(task: Task) -> None:
    """Ask storage for the task's files, and put the task into the queue if they match. Idempotent.

    Raises DomainError as `submit_task`, and storage_unreachable.
    """
    rows = list(task.files.all())
    stored = {row.pk: find_stored_object(row) for row in rows}
    heads = {
        row.pk: storage.read_start(row.object_key, size_bytes=size)
        for row in rows
        if task.state == TaskState.INITIATED
        and stored[row.pk] == (row.size_bytes, row.stored_md5)
        and (size := head_bytes_of(row))
    }
    submit_task(task, stored, heads)


@transaction.atomic
def submit_task(
    task: Task,
    stored: Mapping[int, StoredObject | None],
    heads: Mapping[int, bytes] | None = None,
) -> None:
    """Put a task into the queue if storage holds its files as the request describes. Idempotent.

    stored: the stored object of each file by its id; None if it is missing
    heads: the first bytes of the files to inspect (`tasks.submission.contents`)

    Raises DomainError upload_missing or upload_damaged, naming the files; input_* for data that no
    runtime accepts; script_* and model_* for an invalid program or model; not_initiated if the task
    ended.
    """
    if task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)
    files = list(task.files.all())
    check_uploads([(file, stored.get(file.pk)) for file in files])
    inspect_files(task, files, heads or {})
    placement = _choose_worker(task, files)
    # registered first, so that on commit the device is woken before the browsers
    dispatch_on_commit({placement.get("worker_id", task.worker_id)})
    now = timezone.now()
    is_moved = transition_if(
        task,
        TaskState.WAITING,
        {TaskState.INITIATED},
        submitted_at=now,
        queue_deadline_at=now + datetime.timedelta(seconds=settings.QUEUE_DEADLINE_S),
        **placement,
    )
    if is_moved:
        for file in files:
            file.stored_at = now
        TaskFile.objects.bulk_update(files, ["stored_at", "arrays"])
    elif task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)


def _choose_worker(task: Task, files: list[TaskFile]) -> dict[str, Any]:
    """Return the columns that assign a task with a target to the worker that is best now.

    The choice at the creation of the task may be outdated, since an upload can take hours. Returns
    no columns if no worker matches any more: the task keeps its worker. Raises DomainError if none
    of the matching workers can use its data.
    """
    if task.target is None or task.state != TaskState.INITIATED:
        return {}
    request = request_of(task)
    arrays = [array for file in files for array in file.arrays]
    options = candidates(target_of(task.target), user=task.owner)
    if not options:
        return {}
    chosen = first_that_fits(options, request, arrays)
    return {"worker_id": chosen.worker_id, "runtime_version": chosen.version}
