"""Pin one task per owner, model and device as the baseline of the others.

A model is identified by its file name, so that a changed model keeps its baseline.
"""

from django.db import transaction

from accounts.models import User
from tasks.audit import record_change
from tasks.models import Baseline, Task, TaskFile
from tasks.states import Status
from webprofile.errors import DomainError


@transaction.atomic
def pin_baseline(task: Task, *, by: User | None = None) -> None:
    """Make a task the baseline of its model and device, instead of the previous one. Idempotent.

    by: the acting user, as of `record_change`

    The caller must have checked that the user may see the task. Raises DomainError baseline_result.
    """
    # the lock keeps the task from being deleted meanwhile
    row = Task.objects.select_for_update().filter(pk=task.pk).first()
    if row is None or row.status != Status.SUCCEEDED or row.is_paired:
        raise DomainError("baseline_result", status=409)
    if Baseline.objects.filter(task=row).exists():
        return
    Baseline.objects.update_or_create(
        owner_id=row.owner_id,
        worker_id=row.worker_id,
        model_name=row.model_name,
        defaults={"task": row},
    )
    _record(row, by, pinned=True)


@transaction.atomic
def unpin_baseline(task: Task, *, by: User | None = None) -> None:
    """Remove the pin of a task, for `by` as of `pin_baseline`. Idempotent."""
    removed, _ = Baseline.objects.filter(task=task).delete()
    if removed:
        _record(task, by, pinned=False)


def _record(task: Task, by: User | None, *, pinned: bool) -> None:
    was, now = {"baseline": not pinned}, {"baseline": pinned}
    record_change("task.change", task, by=by, before=was, after=now)


def baseline_of(task: Task) -> Task | None:
    """Return the pinned baseline of the task's owner, model and device, which may be the task
    itself; None if none is pinned.
    """
    names = TaskFile.objects.filter(task=task, kind=TaskFile.Kind.MODEL).values("name")
    baseline = (
        Baseline.objects.filter(owner=task.owner_id, worker=task.worker_id, model_name__in=names)
        .select_related("task")
        .first()
    )
    return baseline.task if baseline else None
