"""Put a task into the queue after its files were uploaded and verified."""

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
from tasks.submission.contents import inspect_files
from tasks.submission.request import request_of
from tasks.submission.validation import first_that_fits
from webprofile.errors import DomainError


@dataclass(frozen=True)
class StoredObject:
    """Size and checksum of an object, as storage reports them."""

    size_bytes: int
    md5: str


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
    _check_stored(files, stored)
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


def _check_stored(files: list[TaskFile], stored: Mapping[int, StoredObject | None]) -> None:
    missing = [file.name for file in files if stored.get(file.pk) is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    expected = {file.pk: StoredObject(file.size_bytes, file.stored_md5) for file in files}
    damaged = [file.name for file in files if stored[file.pk] != expected[file.pk]]
    if damaged:
        raise DomainError("upload_damaged", status=409, files=", ".join(damaged))


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
    return {"worker_id": chosen.worker.pk, "runtime_version": chosen.runtime.version}
