"""Create tasks: from a request, or again from an earlier one.

Each function is one transaction and uses no network.
"""

import datetime
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import User
from agent.protocol.parts import part_bytes_of
from tasks.kinds import Kind
from tasks.lifecycle import wakeups
from tasks.lifecycle.reasons import Reason
from tasks.lifecycle.transitions import transition_if
from tasks.models import Purpose, Task, TaskFile
from tasks.states import Outcome, TaskState
from tasks.submission.plans import longest_run_s
from tasks.submission.request import FileRequest, TaskRequest, check_stored, request_of
from tasks.submission.validation import Admitted, admit, allowed_priority, check_quota
from webprofile.errors import DomainError
from webprofile.observability import trace_context
from workers.models import Worker

log = structlog.get_logger()

#: a copy of the same task that is younger was asked for by the same click
DOUBLE_CLICK_S = 5


def initiated_check(task: Task) -> None:
    """Raises DomainError not_initiated for a task whose files are on their way no more."""
    if task.state != TaskState.INITIATED:
        raise DomainError("not_initiated", status=409)


@transaction.atomic
def create_task(*, owner: User, worker: Worker | None = None, request: TaskRequest) -> Task:
    """Register a task in state initiated, with one row for each of its files.

    Without `worker` the request's target chooses the device. Raises DomainError if the request
    cannot be met (`tasks.submission.validation`), quota_reached if the owner has too many live
    tasks.
    """
    if request.purpose == Purpose.USER:
        check_quota(owner)
    task, files = task_rows(owner, request, admit(owner=owner, worker=worker, request=request))
    task.save(force_insert=True)
    TaskFile.objects.bulk_create(files)
    wakeups.task_changed_on_commit(task)
    return task


def task_rows(owner: User, request: TaskRequest, admitted: Admitted) -> tuple[Task, list[TaskFile]]:
    """A task and its files as they would be stored, but not saved."""
    script, plan = request.script, request.plan
    if script is None:
        longest_s, limit_s = longest_run_s(plan.passes), request.time_limit_s
    else:
        longest_s, limit_s = longest_run_s(len(script.formats)), script.time_limit_s
    task = Task(
        owner=owner,
        worker=admitted.worker,
        runtime_version=admitted.runtime_version,
        kind=Kind.MODEL if script is None else Kind.SCRIPT,
        script=None if script is None else script.model_dump(mode="json"),
        options=admitted.options,
        plan=plan.model_dump(mode="json"),
        seed=request.seed,
        inputs=[asdict(each) for each in admitted.inputs],
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
    files, positions = [], Counter[str]()
    for file in request.files:
        row = TaskFile(
            task=task,
            kind=file.kind,
            position=positions[file.kind],
            # what has no meaning is not kept: it was not checked either
            input=file.input if file.feeds_an_input and script is None else "",
            option=file.option if file.kind == TaskFile.Kind.OPTION else "",
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
            part_bytes=_part_bytes(file),
        )
        files.append(row)
        positions[file.kind] += 1
    return task, files


def _part_bytes(file: FileRequest) -> int:
    if file.part_bytes or not file.is_parted:
        return file.part_bytes
    return part_bytes_of(file.size_bytes)


def mark_file_stored(file: TaskFile, *, md5: str = "", etag: str = "") -> None:
    """Note that storage holds a file already, so that nobody is asked to upload it.

    md5, etag: of one that came in parts
    """
    file.stored_at = timezone.now()
    file.md5, file.etag = md5 or file.md5, etag
    file.purged_at = None  # what arrived after its task ended is removed once more
    file.save(update_fields=["stored_at", "purged_at", "md5", "etag"])


@transaction.atomic
def rerun_task(task: Task, *, owner: User) -> tuple[Task, TaskRequest | None]:
    """Register a task with the request of one that has ended.

    Returns the new task, in state initiated, and its request, whose files name the objects to copy.
    Asked twice in a moment (a double click) it is one task; the second time it comes without a
    request: who made it copies its files. Raises DomainError as `create_task`, file_gone or
    file_not_uploaded if a row says that storage does not hold a file, not_ended while the task
    lives, task_gone if it was deleted meanwhile.
    """
    # two that ask at the same time do so one after the other
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
        # another one may have been made with changes
        if _asked(copy) == _asked(task):
            return copy, None
    for file in task.files.all():
        check_stored(file)
    request = request_of(task)
    request = replace(request, priority=allowed_priority(owner, request.priority))
    worker = task.worker if request.target is None else None
    return create_task(owner=owner, worker=worker, request=request), request


def _asked(task: Task) -> tuple[Any, ...]:
    where = (task.worker_id, task.runtime_version) if task.target is None else task.target
    return where, task.options, task.plan, task.inputs, task.seed, task.title, task.script


@transaction.atomic
def fail_copy(task: Task, *, detail: str = "") -> bool:
    """End a task whose files could not be taken over from an earlier one."""
    return transition_if(
        task,
        TaskState.FINISHED,
        {TaskState.INITIATED},
        outcome=Outcome.FAILED,
        reason=Reason.COPY_FAILED.value,
        detail=detail[:1000],
    )


def _from_now(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)
