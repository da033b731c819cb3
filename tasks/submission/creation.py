"""Create tasks from a request, or again from an earlier task.

Each service is one transaction and uses no network.
"""

import datetime
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import User
from agent.protocol.multipart import part_bytes_of
from tasks.lifecycle import wakeups
from tasks.lifecycle.reasons import Reason
from tasks.lifecycle.transitions import transition_if
from tasks.models import Purpose, Task, TaskFile, TaskKind
from tasks.states import Outcome, TaskState
from tasks.submission.pairing import PLAN
from tasks.submission.request import (
    FileRequest,
    PairingRequest,
    TaskRequest,
    check_all_stored,
    request_of,
)
from tasks.submission.validation import (
    Admitted,
    admit,
    allowed_priority,
    check_quota,
    check_storage,
    longest_s_of,
)
from webprofile.errors import DomainError
from webprofile.observability import trace_context
from workers.models import Worker

#: two copies of a task within this time count as one double click
DOUBLE_CLICK_S = 5


def check_initiated(task: Task) -> None:
    """Raise DomainError not_initiated if the task no longer accepts uploads."""
    if task.state != TaskState.INITIATED:
        raise DomainError("not_initiated", status=409)


@transaction.atomic
def create_task(*, owner: User, worker: Worker | None = None, request: TaskRequest) -> Task:
    """Create a task in state initiated, with one row for each of its files.

    Raises DomainError if the request is refused (`tasks.submission.validation`), quota_reached if
    the owner has too many live tasks, storage_full if their files would become too large.

    worker: None if the request's target chooses it
    """
    if request.purpose == Purpose.USER:
        check_quota(owner)
    admitted = admit(owner=owner, worker=worker, request=request)
    if request.purpose == Purpose.USER:
        check_storage(owner, sum(file.size_bytes for file in request.files))
    task, files = task_rows(owner, request, admitted)
    task.save(force_insert=True)
    TaskFile.objects.bulk_create(files)
    wakeups.task_changed_on_commit(task)
    return task


def task_rows(owner: User, request: TaskRequest, admitted: Admitted) -> tuple[Task, list[TaskFile]]:
    """Return unsaved rows for a task and its files."""
    script, pairing, longest_s = request.script, request.pairing, longest_s_of(request)
    limit_s = request.time_limit_s if script is None else script.time_limit_s
    plan = request.plan if pairing is None else PLAN
    task = Task(
        owner=owner,
        worker=admitted.runtime.worker,
        runtime_version=admitted.runtime.version,
        kind=TaskKind.MODEL if script is None else TaskKind.SCRIPT,
        script=None if script is None else script.model_dump(mode="json"),
        pairing=None if pairing is None else pairing_json(pairing, admitted),
        options=admitted.options,
        plan=plan.model_dump(mode="json"),
        seed=request.seed,
        inputs=[asdict(variable) for variable in admitted.inputs],
        copied_from=request.copied_from,
        target=None if request.target is None else request.target.as_json(),
        priority=request.priority,
        title=request.title.strip(),
        purpose=request.purpose,
        traceparent=trace_context.current(),
        time_limit_s=request.time_limit_s,
        timeout_s=min(limit_s or longest_s, longest_s),
        upload_deadline_at=_from_now(settings.UPLOAD_DEADLINE_S),
    )
    files, positions = [], Counter[tuple[int, str]]()
    for file in request.files:
        is_data = file.kind == TaskFile.Kind.DATA and script is None
        row = TaskFile(
            task=task,
            kind=file.kind,
            arm=file.arm,
            position=positions[file.arm, file.kind],
            # drop values that do not apply to this kind of file: they were not validated
            input=file.input if is_data and not file.names_its_inputs else "",
            option=file.option if file.kind == TaskFile.Kind.OPTION else "",
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
            part_bytes=_part_bytes(file),
        )
        files.append(row)
        positions[file.arm, file.kind] += 1
    return task, files


def pairing_json(pairing: PairingRequest, admitted: Admitted) -> dict[str, Any]:
    """Return `Task.pairing`, with the options and inputs of each arm as they were admitted."""
    arms = [
        {
            "runtime_version": own.runtime.version,
            "options": own.options if arm.options is not None else None,
            "inputs": None if arm.inputs is None else [asdict(row) for row in own.inputs],
        }
        for arm, own in zip(pairing.arms, admitted.arms, strict=True)
    ]
    return {**pairing.pairing.model_dump(mode="json"), "arms": arms}


def _part_bytes(file: FileRequest) -> int:
    if file.part_bytes or not file.is_parted:
        return file.part_bytes
    return part_bytes_of(file.size_bytes)


def mark_file_stored(file: TaskFile, *, md5: str = "", etag: str = "") -> None:
    """Record that storage holds a file, so that no upload is requested for it.

    md5, etag: those of a file that was uploaded in parts
    """
    file.stored_at = timezone.now()
    file.md5, file.etag = md5 or file.md5, etag
    file.purged_at = None  # a file that arrived after its task ended is to be removed again
    file.save(update_fields=["stored_at", "purged_at", "md5", "etag", "copy"])


@transaction.atomic
def rerun_task(task: Task, *, owner: User) -> tuple[Task, TaskRequest | None]:
    """Create a task with the request of one that has ended.

    Returns the new task, in state initiated, and its request, whose files name the objects to copy.
    A second call within `DOUBLE_CLICK_S` returns the same task without a request, since the first
    caller copies its files. Raises DomainError as `create_task`, file_gone or file_not_uploaded if
    a row says that storage does not hold a file, not_ended while the task is live, task_gone if it
    was deleted meanwhile.
    """
    # the lock serializes concurrent calls
    row = Task.objects.select_for_update().filter(pk=task.pk).first()
    if row is None:
        raise DomainError("task_gone", status=404)
    if row.state != TaskState.FINISHED:
        raise DomainError("not_ended", status=409)
    same = Task.objects.filter(
        copied_from=task,
        owner=owner,
        created_at__gt=_from_now(-DOUBLE_CLICK_S),
    ).exclude(state=TaskState.FINISHED)
    for copy in same.order_by("-pk"):
        # the user may have created another one with changes
        if _comparable(copy, owner) == _comparable(task, owner):
            return copy, None
    check_all_stored(task)
    request = request_of(task)
    request = replace(request, priority=allowed_priority(owner, request.priority))
    worker = task.worker if request.target is None else None
    return create_task(owner=owner, worker=worker, request=request), request


def _comparable(task: Task, owner: User) -> tuple[Any, ...]:
    """Return the parts of a task's request by which copies are compared."""
    request = request_of(task)
    files = tuple(replace(file, source="", etag="") for file in request.files)
    priority = allowed_priority(owner, request.priority)
    device = task.worker_id if request.target is None else None
    return device, replace(request, files=files, priority=priority, copied_from=None)


@transaction.atomic
def fail_copy(task: Task, *, reason: Reason = Reason.COPY_FAILED, detail: str = "") -> None:
    """End a task whose files could not be copied, by default from an earlier task."""
    transition_if(
        task,
        TaskState.FINISHED,
        {TaskState.INITIATED},
        outcome=Outcome.FAILED,
        reason=reason.code,
        detail=detail[:1000],
    )


def _from_now(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)
