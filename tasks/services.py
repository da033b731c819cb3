"""Everything that changes a task. Each function is one transaction and talks to no network.

Rows are the outbox: what is announced or queued after a commit only shortens the wait, `manage.py
sweep` finds the same rows.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import User
from agent.protocol.options import Value
from tasks import announce
from tasks.admission import FileRequest, admit
from tasks.hints import assign_on_commit
from tasks.models import Task, TaskFile
from tasks.states import Outcome, TaskState
from tasks.transitions import transition_if
from webprofile.errors import DomainError
from workers.models import Worker

log = structlog.get_logger()


@dataclass(frozen=True)
class StoredObject:
    """What object storage says of an object."""

    size_bytes: int
    md5: str


@transaction.atomic
def task_create(
    *,
    owner: User,
    worker: Worker,
    runtime_version: str,
    options: Mapping[str, Value],
    files: list[FileRequest],
) -> Task:
    """Register a task in state initiated, with one row for each file that is to be uploaded.

    Raises DomainError if the request cannot be met (`tasks.admission`).
    """
    chosen = admit(
        owner=owner, worker=worker, runtime_version=runtime_version, options=options, files=files
    )
    task = Task.objects.create(
        owner=owner,
        worker=worker,
        runtime_version=runtime_version,
        options=chosen,
        timeout_s=settings.RUN_TIMEOUT_S,
        upload_deadline_at=_from_now(settings.UPLOAD_DEADLINE_S),
    )
    data = [file for file in files if file.kind == TaskFile.Kind.DATA]
    for file in files:
        TaskFile.objects.create(
            task=task,
            kind=file.kind,
            position=data.index(file) if file in data else 0,
            input=file.input,
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
        )
    announce.task_changed_on_commit(task)
    return task


@transaction.atomic
def task_submit(task: Task, stored: Mapping[int, StoredObject | None]) -> None:
    """Put a task into the queue, its files being what was announced. Repeating it changes nothing.

    `stored` maps file ids to what storage holds (None: nothing). Raises DomainError
    upload_missing or upload_damaged, naming the files; not_initiated if the task ended.
    """
    if task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)
    files = list(task.files.all())
    missing = [file.name for file in files if stored.get(file.pk) is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    expected = {file.pk: StoredObject(file.size_bytes, file.md5) for file in files}
    damaged = [file.name for file in files if stored[file.pk] != expected[file.pk]]
    if damaged:
        raise DomainError("upload_damaged", status=409, files=", ".join(damaged))
    # first in line on commit: the device should not wait for what browsers are told
    assign_on_commit(task.worker_id)
    now = timezone.now()
    moved = transition_if(
        task,
        TaskState.WAITING,
        {TaskState.INITIATED},
        submitted_at=now,
        queue_deadline_at=_from_now(settings.QUEUE_DEADLINE_S),
    )
    if moved:
        task.files.update(stored_at=now)
    elif task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)


@transaction.atomic
def task_cancel(task: Task) -> None:
    """Ask for an end. A task that no device holds ends at once; an ended one stays as it is."""
    idle = {TaskState.INITIATED, TaskState.WAITING}
    if transition_if(
        task, TaskState.FINISHED, idle, outcome=Outcome.CANCELLED, reason="cancelled_by_user"
    ):
        return
    held = {TaskState.ASSIGNED, TaskState.RUNNING}
    if transition_if(task, TaskState.CANCELLING, held):
        announce.poke_worker_on_commit(task.worker_id)


@transaction.atomic
def task_complete(task: Task) -> bool:
    """End a task whose profile is stored. Returns whether it was this call that ended it."""
    return transition_if(
        task, TaskState.FINISHED, {TaskState.PROCESSING}, outcome=Outcome.SUCCEEDED
    )


@transaction.atomic
def task_fail(task: Task, *, reason: str, detail: str = "") -> bool:
    """End a task that no device holds as failed."""
    sources = {TaskState.INITIATED, TaskState.WAITING, TaskState.PROCESSING}
    return transition_if(
        task,
        TaskState.FINISHED,
        sources,
        outcome=Outcome.FAILED,
        reason=reason,
        detail=detail[:1000],
    )


@transaction.atomic
def task_abandon(task: Task) -> bool:
    """End a task whose upload was never completed."""
    return transition_if(
        task,
        TaskState.FINISHED,
        {TaskState.INITIATED},
        outcome=Outcome.CANCELLED,
        reason="upload_abandoned",
    )


def _from_now(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)
