"""Everything that changes the profiles of attempts."""

import time

import structlog
from django.db import transaction
from django.utils import timezone

from profiles.ingest.build import store_derived
from profiles.ingest.results import Results, UnusableError, read_results
from tasks.lifecycle.outcomes import complete_task, fail_task, mark_being_read
from tasks.models import Attempt, Task, TaskFile
from tasks.states import Outcome, TaskState
from webprofile.storage import storage

log = structlog.get_logger()

#: less than `tasks.lifecycle.sweep.HINT_PATIENCE`
_RENEWED_S = 5


def build_attempt_profile(attempt: Attempt) -> None:
    """Read an attempt's artifacts, keep what they say, end its task. May be repeated.

    Storage is read and written outside of the transaction; DomainError storage_unreachable passes
    through, so that the caller tries again.
    """
    task = attempt.task
    if task.state != TaskState.PROCESSING:
        return
    try:
        results = read_results(attempt, told=_Renewing(task).told)
    except UnusableError as unusable:
        fail_task(task, reason=unusable.reason.value, detail=unusable.detail)
        return
    if results.profile is not None and results.derived is not None:
        store_derived(results.profile, results.derived)
    _results_keep(attempt, results)


class _Renewing:
    """Keeps the sweep from having a large result read by others at the same time.

    An actor that died renews nothing, so another one is asked soon.
    """

    def __init__(self, task: Task) -> None:
        self._task, self._next = task, time.monotonic() + _RENEWED_S

    def told(self, _step: str, _done: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _RENEWED_S
            mark_being_read(self._task)


@transaction.atomic
def _results_keep(attempt: Attempt, results: Results) -> None:
    # only the call that moves the task writes the rows: a repeated hint changes nothing
    if not complete_task(attempt.task):
        return
    if results.profile is not None:
        results.profile.save()
    if results.measurement is not None:
        results.measurement.save()
    operators = results.profile.operators if results.profile else 0
    log.info("profile_built", attempt=str(attempt.pk), operators=operators)


def abandoned_uploads_purge(limit: int = 200) -> int:
    """Delete what was uploaded for tasks that never waited; returns how many files."""
    files = TaskFile.objects.filter(
        task__state=TaskState.FINISHED,
        task__outcome__in=(Outcome.CANCELLED, Outcome.FAILED),
        task__submitted_at=None,
        purged_at=None,
    )
    count = 0
    # in any order: the first that storage refuses ends the round, and is not always the same
    for file in files.order_by("?")[:limit]:
        storage.delete(file.object_key)
        TaskFile.objects.filter(pk=file.pk).update(purged_at=timezone.now())
        count += 1
    return count
