"""The files of tasks on their way from this machine's disk into object storage."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.models import Task, TaskFile
from tasks.states import TaskState
from tasks.submission.contents import head_bytes_of
from tasks.submission.request import FileRequest
from tasks.submission.submit import StoredObject, submit_task
from webprofile.errors import DomainError
from webprofile.storage import storage


class FileStore:
    """Stores the files of many tasks; what one task brought already is copied inside storage."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def store(self, row: TaskFile, path: Path) -> bool:
        """Returns whether the file's bytes were sent.

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


def what_is_stored(file: Any) -> StoredObject | None:
    """What storage holds of a file on its way, None if nothing.

    Of one that came in parts, what was found when they were joined: nobody has an address to write
    to it, and some storage reads all of it to tell its sum. Raises DomainError storage_unreachable.
    """
    if file.part_bytes and file.etag:
        return StoredObject(file.size_bytes, file.etag)
    found = storage.head(file.object_key)
    return None if found is None else StoredObject(*found)


def sources_check(files: Iterable[FileRequest]) -> None:
    """Look whether storage holds, whole, what is to be copied for a new task.

    Asked before the task is made: rows know what the site removed itself, but nothing of a bucket
    whose own rules, or whose keeper, removed something. Raises DomainError file_gone, file_changed,
    storage_unreachable.
    """
    for file in files:
        if not file.source:
            continue
        found = storage.head(file.source)
        is_whole = found is not None and found[0] == file.size_bytes
        if found is None or not is_whole or not storage.may_be_same(found[1], file.stored_md5):
            code = "file_gone" if found is None else "file_changed"
            raise DomainError(code, field=file.option or file.kind, name=file.name)


def confirm_task(task: Task) -> None:
    """Put a task into the queue if storage holds all its files as they were announced.

    Repeating it changes nothing. Raises DomainError as `tasks.submission.submit.submit_task`, and
    storage_unreachable.
    """
    rows = list(task.files.all())
    stored = {row.pk: what_is_stored(row) for row in rows}
    whole = [row for row in rows if stored[row.pk] == StoredObject(row.size_bytes, row.stored_md5)]
    submit_task(task, stored, _heads(whole if task.state == TaskState.INITIATED else ()))


def _heads(rows: Iterable[TaskFile]) -> dict[int, bytes]:
    """The first bytes of those that are looked into."""
    return {
        row.pk: storage.read_start(row.object_key, size_bytes=wanted)
        for row in rows
        if (wanted := head_bytes_of(row))
    }
