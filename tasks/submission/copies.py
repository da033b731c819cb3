"""Files of a request: register them for an upload, or copy those of an earlier task."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import translation

from accounts.models import User
from agent.protocol.options import OPTIONS, artifact_of
from agent.protocol.plan import Plan
from tasks.lifecycle.outcomes import fail_task
from tasks.lifecycle.reasons import Reason
from tasks.models import Artifact, Task, TaskFile
from tasks.selectors import visible_tasks
from tasks.states import Status, TaskState
from tasks.submission.creation import create_task, fail_copy, mark_file_stored, rerun_task
from tasks.submission.pairing import paired_request
from tasks.submission.plans import CHECK
from tasks.submission.request import (
    FileRequest,
    TaskRequest,
    check_all_stored,
    check_stored,
    file_request_of,
    request_of,
)
from tasks.submission.uploads import check_sources, confirm_task, copy_object
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Worker

#: option -> the artifact of an earlier task that may be its file
CACHES = {
    "fast_run_algo_policy": artifact_of("fast_run_algo_policy"),
    "tensorrt_cache": artifact_of("tensorrt_cache"),
    "pack_cache": artifact_of("fast_run_algo_policy"),
}
MOST_CHOICES = 50
#: reason of a task whose file is invalid, by the first word of the error code
_UNUSABLE = {
    "input": Reason.INPUT_WRONG,
    "script": Reason.SCRIPT_UNREADABLE,
    "model": Reason.MODEL_REFUSED,
}
_OWN_FIELDS = ("kind", "name", "size_bytes", "md5", "input", "option", "arm")


def copy_sources(task: Task, files: tuple[FileRequest, ...]) -> None:
    """Copy the objects of files that have a source, except those that were copied before.

    files: the files with which the task was created

    Raises DomainError; on any error the task ends.
    """
    with _ends_on_error(task):
        for row, file in zip(rows_of(task, files), files, strict=True):
            if file.source and row.stored_at is None:
                _, etag = copy_object(file.source, row)
                # the ETag of a copy may differ from that of a source that was uploaded in parts
                mark_file_stored(row, etag=etag if file.part_bytes else "")


def rows_of(task: Task, files: Iterable[FileRequest]) -> Iterator[TaskFile]:
    """Yield the row of each of the files with which a task was created, in their order."""
    rows = {(row.arm, row.kind, row.position): row for row in task.files.all()}
    positions = Counter[tuple[int, str]]()
    for file in files:
        place = (file.arm, file.kind)
        yield rows[*place, positions[place]]
        positions[place] += 1


def repeat_task(
    task: Task, *, owner: User, keep: Callable[[Task], object] = lambda copy: None
) -> tuple[Task, bool]:
    """Submit a task again with copies of its files.

    Returns the new task, and whether this call created it: a double click creates only one. Raises
    DomainError as `check_sources` before anything is created, and as `rerun_task` and
    `confirm_task`. If an error occurs after its creation, the new task ends.

    keep: called with the new task in the transaction that creates it
    """
    if task.state == TaskState.FINISHED:  # otherwise `rerun_task` raises
        check_all_stored(task)
        check_sources(request_of(task).files)
    with transaction.atomic():
        copy, request = rerun_task(task, owner=owner)
        keep(copy)
    if request is not None:
        copy_sources(copy, request.files)
        confirm_copy(copy)
    return copy, request is not None


def compare_tasks_in_pairs(
    tasks: Sequence[Task], *, owner: User, keep: Callable[[Task], object] = lambda task: None
) -> Task:
    """Submit a paired comparison of what earlier tasks ran, with copies of their files.

    Returns the new task. Raises DomainError as `paired_request`, `check_sources`, `create_task` and
    `confirm_task`; if an error occurs after the creation, the new task ends.

    keep: called with the new task in the transaction that creates it
    """
    request = replace(paired_request(tasks), priority=0)
    return _submit_copy(owner, tasks[0].worker, request, keep)


def check_task(
    task: Task, *, owner: User, keep: Callable[[Task], object] = lambda task: None
) -> Task:
    """Measure the latency of what a task ran once more, in a few seconds, on the same device.

    Returns the new task, which has copies of the files. Raises DomainError check_latency for a task
    without a latency, and as `check_sources`, `create_task` and `confirm_task`; if an error occurs
    after the creation, the new task ends.

    keep: called with the new task in the transaction that creates it
    """
    is_timed = not task.is_script and Plan.model_validate(task.plan).clean
    if task.status != Status.SUCCEEDED or task.is_paired or not is_timed:
        raise DomainError("check_latency", status=409)
    check_all_stored(task)
    request = replace(
        request_of(task),
        plan=CHECK,
        priority=0,
        target=None,
        runtime_version=task.runtime_version,
        time_limit_s=0,
    )
    return _submit_copy(owner, task.worker, request, keep)


def _submit_copy(
    owner: User, worker: Worker, request: TaskRequest, keep: Callable[[Task], object]
) -> Task:
    check_sources(request.files)
    with transaction.atomic():
        task = create_task(owner=owner, worker=worker, request=request)
        keep(task)
    copy_sources(task, request.files)
    confirm_copy(task)
    return task


def confirm_copy(task: Task) -> None:
    """Put a task whose files were copied into the queue; on any error the task ends."""
    with _ends_on_error(task):
        confirm_task(task)


def end_refused(task: Task, error: DomainError) -> None:
    """End a task if the error says that one of its files is invalid; ignore other errors.

    Uploading the same file again cannot help, so the user needs to create another task.
    """
    reason = _UNUSABLE.get(error.code.partition("_")[0])
    if reason is not None:
        with translation.override("en"):  # details are stored in English
            fail_task(task, reason=reason.code, detail=str(word(error)))


@contextmanager
def _ends_on_error(task: Task) -> Iterator[None]:
    """End a task whose files could not be copied; its detail is the text of the error."""
    try:
        yield
    except Exception as error:
        with translation.override("en"):  # details are stored in English
            detail = word(error) if isinstance(error, DomainError) else ""
        fail_copy(task, detail=detail)
        raise


def cache_choices(user: User) -> dict[str, list[Artifact]]:
    """Return the user's own artifacts that may be the file of each option, newest first."""
    names = set(CACHES.values())
    artifacts = list(
        _caches(user).filter(name__in=names).order_by("-attempt__task_id")[:MOST_CHOICES]
    )
    return {
        option: [artifact for artifact in artifacts if artifact.name == name]
        for option, name in CACHES.items()
    }


def _caches(user: User) -> QuerySet[Artifact]:
    own = Artifact.objects.filter(
        is_stored=True, attempt__task__owner=user, attempt__task__state=TaskState.FINISHED
    )
    return own.select_related("attempt__task").prefetch_related("attempt__task__files")


def resolve_file(file: Mapping[str, Any], user: User) -> FileRequest:
    """Return the request for a file; look up its source if it is taken over from an earlier task.

    file: validated data of `tasks.submission.schema.FileBody`

    Raises DomainError.
    """
    if file["from_file"] is not None:
        return _earlier_file(file, user)
    option, from_task = file["option"], file["from_task"]
    if from_task is None:
        return upload_request(file)
    if file["kind"] != "option" or option not in CACHES:
        raise DomainError("option_file_unwanted", field=option, option=option)
    if not Task.objects.filter(pk=from_task, owner=user).exists():
        # the same error for tasks of others as for missing ones
        raise DomainError("source_unknown", field=option, task=from_task)
    artifact = (
        _caches(user)
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
        arm=file["arm"],
        source=artifact.object_key,
    )


def upload_request(file: Mapping[str, Any]) -> FileRequest:
    """Return the request for a file that will be uploaded; `file` as in `resolve_file`."""
    return FileRequest(**{name: file[name] for name in _OWN_FIELDS})


def _earlier_file(file: Mapping[str, Any], user: User) -> FileRequest:
    """Return the request for a copy of an earlier task's file, possibly for another variable."""
    row = TaskFile.objects.filter(
        pk=file["from_file"], kind=file["kind"], task__in=visible_tasks(user)
    ).first()
    if row is None:
        raise DomainError("file_unknown", field=file["option"] or file["kind"])
    check_stored(row)
    return replace(file_request_of(row), input=file["input"] or row.input, arm=file["arm"])
