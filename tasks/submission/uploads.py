"""Store the files of tasks in object storage, verify uploads, and put tasks into the queue."""

import datetime
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tasks.lifecycle.transitions import transition_if
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Purpose, Task, TaskFile, UploadedFile
from tasks.scheduling.targets import candidates, target_of
from tasks.states import TaskState
from tasks.submission.contents import head_bytes_of, inspect_files
from tasks.submission.creation import mark_file_stored
from tasks.submission.request import FileRequest, request_of
from tasks.submission.validation import check_storage, first_that_fits
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: size in bytes and checksum of an object, as storage reports them
StoredObject = tuple[int, str]


class FileStore:
    """Uploads local files of many tasks; equal content is sent once and then copied in storage."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def store(self, row: TaskFile, path: Path) -> None:
        """Store a file. Raises OSError; DomainError storage_unreachable."""
        content = (row.md5, row.size_bytes)
        if not self._is_copied(content, row):
            row.copy = secrets.token_hex(8)
            with path.open("rb") as file:
                storage.write_from(row.object_key, file)
            self._known[content] = row.object_key
        mark_file_stored(row)

    def _is_copied(self, content: tuple[str, int], row: TaskFile) -> bool:
        """Copy a file that was sent before; return False if there is none, or it was removed."""
        if content not in self._known:
            return False
        try:
            copy_object(self._known[content], row)
        except DomainError as error:
            if error.code != "object_missing":
                raise
            return False
        return True


def confirm_object(file: UploadedFile) -> StoredObject | None:
    """Copy an uploaded file to a key that no presigned URL names; return the copy's size, checksum.

    Sets `file.copy`, which the caller saves. The copy is checked, not the upload, so that what was
    checked cannot change any more. Returns None if nothing was uploaded.

    A file that was confirmed before is not copied again. Nor is one in parts: joining them ended
    the multipart upload, so that its URLs are invalid, and storage reported the checksum. Some
    storage reads all of such an object to compute it.

    Raises DomainError storage_unreachable.
    """
    if file.part_bytes and file.etag:
        return file.size_bytes, file.etag
    if file.copy:
        return storage.head(file.object_key)
    try:
        return copy_object(file.upload_key, file)
    except DomainError as error:
        if error.code != "object_missing":
            raise
        file.copy = ""
        return None


def copy_object(source: str, file: UploadedFile) -> StoredObject:
    """Copy the object with the key `source` to a new key of `file`, and set `file.copy`.

    The key is random: of two concurrent confirmations each has its own copy, and only the one that
    moves the task saves its key. Returns size and checksum. Raises DomainError object_missing,
    storage_unreachable.
    """
    file.copy = secrets.token_hex(8)
    return storage.copy(source, file.object_key)


def save_confirmed(files: Sequence[UploadedFile], *fields: str) -> None:
    """Save the keys of confirmed files, and schedule the removal of later uploads.

    fields: further columns to save
    """
    # a PUT may start just before its URL expires and take long
    until = timezone.now() + datetime.timedelta(seconds=2 * settings.PRESIGN_EXPIRY_S)
    for file in files:
        file.upload_removal_at = until if file.copy else None
    type(files[0])._default_manager.bulk_update(files, ["copy", "upload_removal_at", *fields])


@contextmanager
def discarding(files: Sequence[UploadedFile]) -> Iterator[list[bool]]:
    """Remove the uploads of files that the block confirms, or the copies if it does not.

    The block sets the first element of the list to whether it saved the copies. An error of storage
    is only logged, since the sweep removes the same objects (`profiles.services.remove_uploads`).
    """
    before, is_saved = {file.pk for file in files if file.copy}, [False]
    try:
        yield is_saved
    finally:
        copied = [file for file in files if file.copy and file.pk not in before]
        keys = [file.upload_key if is_saved[0] else file.object_key for file in copied]
        try:
            refused = storage.delete_all(keys)
        except DomainError:
            refused = set(keys)
        for key in refused:
            log.warning("upload_not_removed", key=key)


def check_uploads(files: Sequence[tuple[UploadedFile, StoredObject | None]]) -> None:
    """Check each file against its stored object; None if storage has none.

    Raises DomainError upload_missing or upload_damaged, naming the files.
    """
    missing = [str(file) for file, stored in files if stored is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    damaged = [str(f) for f, stored in files if stored != (f.size_bytes, f.stored_md5)]
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
    """Confirm the task's files, and put the task into the queue if they match. Idempotent.

    Raises DomainError as `submit_task`, and storage_unreachable.
    """
    if task.state != TaskState.INITIATED:
        return
    rows = list(task.files.all())
    with discarding(rows) as is_saved:
        stored = {row.pk: confirm_object(row) for row in rows}
        heads = {
            row.pk: storage.read_start(row.object_key, size_bytes=size)
            for row in rows
            if stored[row.pk] == (row.size_bytes, row.stored_md5) and (size := head_bytes_of(row))
        }
        is_saved[0] = submit_task(task, stored, heads, rows)


@transaction.atomic
def submit_task(
    task: Task,
    stored: Mapping[int, StoredObject | None],
    heads: Mapping[int, bytes] | None = None,
    files: list[TaskFile] | None = None,
) -> bool:
    """Put a task into the queue if storage holds its files as the request describes.

    Idempotent: a task that was submitted before, or has ended, does not change. Returns whether
    this call moved the task.

    stored: the stored object of each file by its id; None if it is missing
    heads: the first bytes of the files to inspect (`tasks.submission.contents`)
    files: the task's files with the keys of their confirmed objects, as `confirm_object` sets them

    Raises DomainError upload_missing or upload_damaged, naming the files; input_* for data that no
    runtime accepts; script_* and model_* for an invalid program or model; storage_full.
    """
    if task.state != TaskState.INITIATED:
        return False
    files = list(task.files.all()) if files is None else files
    try:
        check_uploads([(file, stored.get(file.pk)) for file in files])
    except DomainError:
        # a concurrent confirmation removes what was uploaded after it has moved the task
        with suppress(Task.DoesNotExist):  # deleted meanwhile
            task.refresh_from_db()
            if task.state != TaskState.INITIATED:
                return False
        raise
    inspect_files(task, files, heads or {})
    if task.purpose == Purpose.USER:
        check_storage(task.owner)  # results that arrived since the creation count, too
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
        save_confirmed(files, "stored_at", "arrays")
    return is_moved


def _choose_worker(task: Task, files: list[TaskFile]) -> dict[str, Any]:
    """Return the columns that assign a task with a target to the worker that is best now.

    The choice at the creation of the task may be outdated, since an upload can take hours. Returns
    no columns if no worker matches any more: the task keeps its worker. Raises DomainError if none
    of the matching workers can use its data.
    """
    if task.target is None:
        return {}
    request = request_of(task)
    arrays = [array for file in files for array in file.arrays]
    options = candidates(target_of(task.target), user=task.owner)
    if not options:
        return {}
    chosen = first_that_fits(options, request, arrays)
    return {"worker_id": chosen.worker_id, "runtime_version": chosen.version}
