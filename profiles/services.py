"""Everything that changes profiles and artifacts."""

import time
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

import structlog
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agent.protocol import FileOffer
from agent.protocol.artifacts import TOTAL_LIMIT_BYTES, limit_of
from profiles.derived.deriving import derived_store
from profiles.derived.results import Results, UnusableError, results_read
from tasks.models import Artifact, Attempt, Task, TaskFile
from tasks.services import task_complete, task_fail, task_is_read
from tasks.states import Outcome, TaskState
from webprofile.storage import storage

log = structlog.get_logger()

#: less than `tasks.sweeping.HINT_PATIENCE`
_RENEWED_S = 5


def artifacts_judge(attempt: Attempt, files: Iterable[FileOffer]) -> list[tuple[FileOffer, str]]:
    """Each offered file with why it may not be stored, in one line; empty if it may.

    Each must have a known name and its size; with what is recorded already all must fit together.
    """
    known = {each.name: each.size_bytes for each in attempt.artifacts.all()}
    total, judged = sum(known.values()), []
    for file in files:
        added = file.size_bytes - known.get(file.name, 0)
        refused = _why_refused(file, total + added)
        if refused:
            about = {"task": attempt.task_id, "attempt": str(attempt.pk), "name": file.name}
            log.warning("artifact_refused", **about, why=refused)
        else:
            total += added
            known[file.name] = file.size_bytes
        judged.append((file, refused))
    return judged


def _why_refused(file: FileOffer, total_bytes: int) -> str:
    limit = limit_of(file.name)
    if limit is None:
        return "no file of this name is kept"
    if file.size_bytes > limit:
        return f"it has {file.size_bytes} bytes, the most is {limit}"
    if total_bytes > TOTAL_LIMIT_BYTES:
        return f"all files together would have {total_bytes} bytes, the most is {TOTAL_LIMIT_BYTES}"
    return ""


@transaction.atomic
def artifacts_offer(attempt: Attempt, files: Iterable[FileOffer]) -> None:
    """Note the files that an agent was given places for. Repeating it changes nothing."""
    _note(attempt, files, is_stored=False)


@transaction.atomic(savepoint=False)
def artifacts_record(attempt: Attempt, files: Sequence[FileOffer]) -> None:
    """Note the files that an agent says it stored; they are checked when they are read.

    Those that the attempt may not store are left out.
    """
    if not files:
        return
    # most often all of them are what it was given places for, which was judged then
    same = (Q(name=file.name, size_bytes=file.size_bytes, md5=file.md5) for file in files)
    offered = Artifact.objects.filter(reduce(or_, same), attempt=attempt)
    if offered.update(is_stored=True) == len(files):
        return
    judged = artifacts_judge(attempt, files)
    _note(attempt, [file for file, refused in judged if not refused], is_stored=True)


def _note(attempt: Attempt, files: Iterable[FileOffer], *, is_stored: bool) -> None:
    # by name, since one statement may not write a row twice
    rows = {
        file.name: Artifact(
            attempt=attempt,
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
            is_stored=is_stored,
        )
        for file in files
    }
    Artifact.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["attempt", "name"],
        update_fields=["size_bytes", "md5", "is_stored"],
    )


def profile_build(attempt: Attempt) -> None:
    """Read an attempt's artifacts, keep what they say, end its task. May be repeated.

    Storage is read and written outside of the transaction; DomainError storage_unreachable passes
    through, so that the caller tries again.
    """
    task = attempt.task
    if task.state != TaskState.PROCESSING:
        return
    try:
        results = results_read(attempt, told=_Renewing(task).told)
    except UnusableError as unusable:
        task_fail(task, reason=unusable.reason.value, detail=unusable.detail)
        return
    if results.profile is not None and results.derived is not None:
        derived_store(results.profile, results.derived)
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
            task_is_read(self._task)


@transaction.atomic
def _results_keep(attempt: Attempt, results: Results) -> None:
    # only the call that moves the task writes the rows: a repeated hint changes nothing
    if not task_complete(attempt.task):
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
