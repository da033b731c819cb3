"""Files of tasks in object storage: store local files, verify uploads, confirm a task."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from tasks.models import Task, TaskFile
from tasks.states import TaskState
from tasks.submission.contents import head_bytes_of
from tasks.submission.request import FileRequest
from tasks.submission.submit import StoredObject, submit_task
from webprofile.errors import DomainError
from webprofile.storage import storage


class FileStore:
    """Uploads local files of many tasks; equal content is sent once and then copied in storage."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def store(self, row: TaskFile, path: Path) -> bool:
        """Store a file; return whether its bytes were sent rather than copied.

        Raises OSError; DomainError storage_unreachable, object_missing.
        """
        content = (row.md5, row.size_bytes)
        if content in self._known:
            storage.copy(self._known[content], row.object_key)
            return False
        with path.open("rb") as file:
            storage.write_from(row.object_key, file)
        self._known[content] = row.object_key
        return True


class UploadedFile(Protocol):
    """A row of a file that is uploaded to object storage."""

    size_bytes: int
    part_bytes: int
    etag: str

    @property
    def object_key(self) -> str: ...


def find_stored_object(file: UploadedFile) -> StoredObject | None:
    """Return size and checksum of a file's object in storage; None if it is missing.

    For a file that was uploaded in parts this is what storage reported when they were joined: no
    presigned URL for the whole object exists, and some storage reads all of it to compute the
    checksum. Raises DomainError storage_unreachable.
    """
    if file.part_bytes and file.etag:
        return StoredObject(file.size_bytes, file.etag)
    head = storage.head(file.object_key)
    return None if head is None else StoredObject(*head)


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

    Raises DomainError as `tasks.submission.submit.submit_task`, and storage_unreachable.
    """
    rows = list(task.files.all())
    stored = {row.pk: find_stored_object(row) for row in rows}
    whole = [row for row in rows if stored[row.pk] == StoredObject(row.size_bytes, row.stored_md5)]
    submit_task(task, stored, _heads(whole if task.state == TaskState.INITIATED else ()))


def _heads(rows: Iterable[TaskFile]) -> dict[int, bytes]:
    """Return the first bytes of the files that are inspected, by file id."""
    return {
        row.pk: storage.read_start(row.object_key, size_bytes=size)
        for row in rows
        if (size := head_bytes_of(row))
    }
