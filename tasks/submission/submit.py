"""From uploaded files into the queue: whether they arrived whole, and can be what they are."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from tasks.lifecycle.transitions import transition_if
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Task, TaskFile
from tasks.scheduling.targets import candidates, target_of
from tasks.states import TaskState
from tasks.submission.contents import look_into
from tasks.submission.request import request_of
from tasks.submission.validation import first_that_fits
from webprofile.errors import DomainError


@dataclass(frozen=True)
class StoredObject:
    """What object storage says of an object."""

    size_bytes: int
    md5: str


@transaction.atomic
def submit_task(
    task: Task,
    stored: Mapping[int, StoredObject | None],
    heads: Mapping[int, bytes] | None = None,
) -> None:
    """Put a task into the queue, its files being what was announced. Repeating it changes nothing.

    stored: what storage holds of each file, by its id (None: nothing)
    heads: the first bytes of files that are looked into (`tasks.submission.contents`)
    Raises DomainError upload_missing or upload_damaged, naming the files; input_* for data that no
    device could use, script_* and model_* for a program or model that is none; not_initiated if the
    task ended.
    """
    if task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)
    files = list(task.files.all())
    _check_stored(files, stored)
    look_into(task, files, heads or {})
    where = _chosen_now(task, files)
    # first in line on commit: the device should not wait for what browsers are told
    dispatch_on_commit({where.get("worker_id", task.worker_id)})
    now = timezone.now()
    is_moved = transition_if(
        task,
        TaskState.WAITING,
        {TaskState.INITIATED},
        submitted_at=now,
        queue_deadline_at=now + datetime.timedelta(seconds=settings.QUEUE_DEADLINE_S),
        **where,
    )
    if is_moved:
        for file in files:
            file.stored_at = now
        TaskFile.objects.bulk_update(files, ["stored_at", "arrays"])
    elif task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)


def _check_stored(files: list[TaskFile], stored: Mapping[int, StoredObject | None]) -> None:
    missing = [file.name for file in files if stored.get(file.pk) is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    expected = {file.pk: StoredObject(file.size_bytes, file.stored_md5) for file in files}
    damaged = [file.name for file in files if stored[file.pk] != expected[file.pk]]
    if damaged:
        raise DomainError("upload_damaged", status=409, files=", ".join(damaged))


def _chosen_now(task: Task, files: list[TaskFile]) -> dict[str, Any]:
    """The columns that send a task with a target to the device that is best at this moment.

    Meanwhile the files were uploaded, which may have taken hours. If no device is there any more,
    it waits where it was; raises DomainError if none of those there can take its data.
    """
    if task.target is None or task.state != TaskState.INITIATED:
        return {}
    request = request_of(task)
    arrays = [array for file in files for array in file.arrays]
    found = candidates(target_of(task.target), user=task.owner)
    if not found:
        return {}
    chosen = first_that_fits(found, request, arrays)
    return {"worker_id": chosen.worker.pk, "runtime_version": chosen.runtime.version}
