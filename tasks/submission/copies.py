"""Files of a request: announce them for an upload, or copy those of an earlier task."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import translation

from accounts.models import User
from agent.protocol.artifacts import artifact_of
from agent.protocol.options import OPTIONS
from tasks.lifecycle.outcomes import fail_task
from tasks.lifecycle.reasons import Reason
from tasks.models import Artifact, Task, TaskFile
from tasks.selectors import visible_tasks
from tasks.states import TaskState
from tasks.submission.creation import fail_copy, mark_file_stored, rerun_task
from tasks.submission.request import FileRequest, check_stored, file_request_of, request_of
from tasks.submission.uploads import confirm_task, sources_check
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.storage import storage

#: the artifact of an earlier task that may be the content of an option
CACHES = {
    "fast_run_algo_policy": artifact_of("fast_run_algo_policy"),
    "tensorrt_cache": artifact_of("tensorrt_cache"),
    "pack_cache": artifact_of("fast_run_algo_policy"),
}
MOST_CHOICES = 50
#: how a task ends whose file is refused, by how the refusal's code begins
_UNUSABLE = {
    "input": Reason.INPUT_UNREADABLE,
    "script": Reason.SCRIPT_UNREADABLE,
    "model": Reason.MODEL_INVALID,
}
_OWN_FIELDS = ("kind", "name", "size_bytes", "md5", "input", "option")


def copy_sources(task: Task, files: tuple[FileRequest, ...]) -> None:
    """Copy what lies in storage already, for files with a source. Raises DomainError.

    `files` are those that the task was created with; whatever fails, the task ends.
    """
    rows = {(row.kind, row.position): row for row in task.files.all()}
    positions: Counter[str] = Counter()
    try:
        for file in files:
            row = rows[file.kind, positions[file.kind]]
            positions[file.kind] += 1
            if file.source:
                _, etag = storage.copy(file.source, row.object_key)
                # a copy may be in one piece where its source came in parts
                mark_file_stored(row, etag=etag if file.part_bytes else "")
    except Exception as error:
        end_copy(task, error)
        raise


def repeat_task(
    task: Task, *, owner: User, keep: Callable[[Task], object] = lambda copy: None
) -> tuple[Task, bool]:
    """Ask for the same once more, with copies of its files, and put it into the queue.

    Returns the new task, and whether this call made it: a double click makes one only. `keep` gets
    it in the transaction that makes it. Raises DomainError as `sources_check`, before anything is
    made, as `tasks.submission.creation.rerun_task` and `confirm_task`; whatever fails once it is
    made, the new task ends.
    """
    if task.state == TaskState.FINISHED:  # of others `rerun_task` says what is wrong
        for file in task.files.all():
            check_stored(file)
        sources_check(request_of(task).files)
    with transaction.atomic():
        copy, asked = rerun_task(task, owner=owner)
        keep(copy)
    if asked is not None:
        copy_sources(copy, asked.files)
        confirm_copy(copy)
    return copy, asked is not None


def confirm_copy(task: Task) -> None:
    """Put a task whose files were copied into the queue; whatever fails, it ends."""
    try:
        confirm_task(task)
    except Exception as error:
        end_copy(task, error)
        raise


def end_refused(task: Task, error: DomainError) -> None:
    """End a task one of whose files cannot be what it was sent as, in the words of what is wrong.

    The file will not get better: what is wanted is another task. Other errors change nothing.
    """
    reason = _UNUSABLE.get(error.code.partition("_")[0])
    if reason is not None:
        with translation.override("en"):  # as all details
            fail_task(task, reason=reason.value, detail=str(word(error)))


def end_copy(task: Task, error: Exception) -> None:
    """End a task whose files could not be copied; its detail is the text of the error."""
    with translation.override("en"):  # as all details
        detail = word(error) if isinstance(error, DomainError) else ""
    fail_copy(task, detail=detail)


def cache_choices(reader: User) -> dict[str, list[Artifact]]:
    """The reader's own caches that each option may take, newest first."""
    names = set(CACHES.values())
    found = list(
        _caches(reader).filter(name__in=names).order_by("-attempt__task_id")[:MOST_CHOICES]
    )
    return {
        option: [each for each in found if each.name == name] for option, name in CACHES.items()
    }


def _caches(reader: User) -> QuerySet[Artifact]:
    own = Artifact.objects.filter(
        is_stored=True, attempt__task__owner=reader, attempt__task__state=TaskState.FINISHED
    )
    return own.select_related("attempt__task").prefetch_related("attempt__task__files")


def completed(file: Mapping[str, Any], reader: User) -> FileRequest:
    """The file of a request as it is to be stored; one of an earlier task is looked up.

    file: validated data of `tasks.submission.schema.FileAsked`. Raises DomainError.
    """
    if file["from_file"] is not None:
        return _taken_over(file, reader)
    option, from_task = file["option"], file["from_task"]
    if from_task is None:
        return announced(file)
    if file["kind"] != "option" or option not in CACHES:
        raise DomainError("option_file_unwanted", field=option, option=option)
    if not Task.objects.filter(pk=from_task, owner=reader).exists():
        # a stranger's is as unknown as one that never was
        raise DomainError("source_unknown", field=option, task=from_task)
    artifact = (
        _caches(reader)
        .filter(attempt__task_id=from_task, name=CACHES[option])
        .order_by("-attempt__number")
        .first()
    )
    if artifact is None:
        raise DomainError("source_missing", field=option, task=from_task, name=CACHES[option])
    return FileRequest(
        "option",
        OPTIONS[option].file,
        artifact.size_bytes,
        artifact.md5,
        option=option,
        source=artifact.object_key,
    )


def announced(file: Mapping[str, Any]) -> FileRequest:
    """A file that will be uploaded, from what the request says of it; `file` as in `completed`."""
    return FileRequest(**{name: file[name] for name in _OWN_FIELDS})


def _taken_over(file: Mapping[str, Any], reader: User) -> FileRequest:
    """A file of an earlier task, for the same purpose or another variable."""
    row = TaskFile.objects.filter(
        pk=file["from_file"], kind=file["kind"], task__in=visible_tasks(reader)
    ).first()
    if row is None:
        raise DomainError("file_unknown", field=file["option"] or file["kind"])
    check_stored(row)
    return replace(file_request_of(row), input=file["input"] or row.input)
