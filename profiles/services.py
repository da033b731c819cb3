"""Services that build the profiles of attempts and remove uploads that are not needed."""

import time

import structlog
from django.db import transaction
from django.utils import timezone

from profiles.ingest.build import store_derived
from profiles.ingest.results import Results, UnusableError, read_results
from profiles.models import OpenedFile
from tasks.lifecycle.outcomes import (
    begin_reading,
    complete_task,
    fail_task,
    forget_progress,
)
from tasks.models import Attempt, Task, TaskFile, UploadedFile
from tasks.states import Outcome, TaskState
from webprofile.storage import storage

log = structlog.get_logger()

#: how often a running build marks its task as being read; less than
#: `tasks.lifecycle.sweep.RESEND_AFTER`
_RENEWED_S = 5


def build_attempt_profile(attempt: Attempt) -> None:
    """Read an attempt's artifacts, save the profile and measurement, and end its task.

    Idempotent. Storage is read and written outside the transaction. Raises DomainError
    storage_unreachable, after which the caller retries.
    """
    task = attempt.task
    if task.state != TaskState.PROCESSING:
        return
    begin_reading(task)
    try:
        results = read_results(attempt, on_progress=_ReadMarker(task).mark)
    except UnusableError as unusable:
        fail_task(task, reason=unusable.reason.code, detail=unusable.detail)
        return
    if results.profile is not None and results.derived is not None:
        store_derived(results.profile, results.derived)
    _save_results(attempt, results)


class _ReadMarker:
    """Marks a task as being read every few seconds, so that the sweep starts no second build.

    When the actor dies, the mark expires and the sweep enqueues the build again.
    """

    def __init__(self, task: Task) -> None:
        self._task, self._next = task, time.monotonic() + _RENEWED_S

    def mark(self, _step: str, _done: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _RENEWED_S
            begin_reading(self._task)


@transaction.atomic
def _save_results(attempt: Attempt, results: Results) -> None:
    # only the call that changes the task's state writes the rows, so a repeated message is harmless
    if not complete_task(attempt.task):
        return
    forget_progress(attempt)
    if results.profile is not None:
        results.profile.save()
    if results.measurement is not None:
        results.measurement.save()
    if results.paired is not None:
        results.paired.save()
    operators = results.profile.operators if results.profile else 0
    log.info("profile_built", attempt=str(attempt.pk), operators=operators)


def purge_abandoned_uploads(limit: int = 200) -> int:
    """Delete the uploaded files of tasks that ended before they were queued; returns the count."""
    files = TaskFile.objects.filter(
        task__state=TaskState.FINISHED,
        task__outcome__in=(Outcome.CANCELLED, Outcome.FAILED),
        task__submitted_at=None,
        purged_at=None,
    )
    count = 0
    # random order: the first storage error ends the round, and one bad object must not block the
    # others every time
    for file in files.order_by("?")[:limit]:
        storage.delete_copies(file.upload_key)
        TaskFile.objects.filter(pk=file.pk).update(purged_at=timezone.now())
        count += 1
    return count


def remove_uploads(limit: int = 50) -> None:
    """Run one round of the sweep: remove what was uploaded to the keys of confirmed files.

    This includes copies by confirmations that did not complete; the confirmed objects stay. Raises
    DomainError storage_unreachable.
    """
    model: type[UploadedFile]
    for model in (TaskFile, OpenedFile):
        # random order: see `purge_abandoned_uploads`
        due = model._default_manager.filter(upload_removal_at__lt=timezone.now()).order_by("?")
        for file in due[:limit]:
            storage.delete_copies(file.upload_key, keep=file.object_key)
            model._default_manager.filter(pk=file.pk).update(upload_removal_at=None)
