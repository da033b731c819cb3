"""Delete tasks and schedule the removal of their objects from storage.

Rows change at once, and the sweep removes the objects later: the rows of `RemovedObjects` are the
outbox, so that deletion works while storage is unreachable. Deletion by age is in
`profiles.retention.policy`.
"""

import datetime
from collections.abc import Iterable, Sequence

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from profiles.models import RemovedObjects
from tasks.audit import record_change
from tasks.lifecycle.wakeups import task_changed_on_commit
from tasks.models import Artifact, Task, TaskFile, artifact_key
from tasks.states import TaskState
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: removals per round of the sweep, so that its other work is not delayed
REMOVAL_LIMIT = 50


@transaction.atomic
def delete_task(task: Task, *, by: User | None) -> None:
    """Delete a finished task with its files, history and results. Idempotent.

    by: the acting user, None for the site; deletion by anyone but the owner is recorded in the
        audit log
    Raises DomainError task_live.
    """
    row = Task.objects.select_for_update().filter(pk=task.pk).first()
    if row is None:
        return
    if row.state != TaskState.FINISHED:
        raise DomainError("task_live", status=409)
    if by is None or by.pk != row.owner_id:
        before = {"owner": row.owner.email, "title": row.title, "outcome": row.outcome}
        record_audit_entry("task.delete", row, by=by, before=before)
    erase_task(row)


def erase_task(row: Task) -> None:
    """Delete a task that no worker executes, in the caller's transaction, without any checks."""
    prefixes = [f"tasks/{row.pk}/"]
    prefixes += [artifact_key(str(pk), "") for pk in row.attempts.values_list("pk", flat=True)]
    schedule_removal(prefixes)
    task_changed_on_commit(row)
    log.info("task_deleted", task=row.pk)
    row.delete()


@transaction.atomic
def discard_draft(task: Task) -> None:
    """Delete a task that was never queued, with its files. Idempotent.

    Used when a request is rejected after its files were uploaded: the user corrects the form and
    submits it again, and no failed task stays in the list.
    """
    row = Task.objects.select_for_update().filter(pk=task.pk, submitted_at=None).first()
    if row is not None:
        erase_task(row)


def refuse_removed(row: Artifact | TaskFile | None) -> None:
    """Raise DomainError removed_by_rule if retention removed the file.

    The caller must have checked that the user may see the task.
    """
    if row is None or row.kept_days is None:
        return
    at = row.removed_at if isinstance(row, Artifact) else row.purged_at
    date = "" if at is None else timezone.localtime(at).date().isoformat()
    raise DomainError("removed_by_rule", status=410, name=row.name, date=date, days=row.kept_days)


@transaction.atomic
def keep_task_files(task: Task, *, keep: bool, by: User | None = None) -> None:
    """Exempt a task's files from retention, or end the exemption. Idempotent.

    by: the acting user, as of `record_change`
    """
    changed = Task.objects.filter(pk=task.pk).exclude(keeps_files=keep)
    if changed.update(keeps_files=keep, updated_at=F("updated_at")):
        log.info("task_keeps_files", task=task.pk, keep=keep)
        was, now = {"keeps_files": not keep}, {"keeps_files": keep}
        record_change("task.change", task, by=by, before=was, after=now)
    task.refresh_from_db()


def schedule_removal(
    prefixes: Iterable[str], *, after: datetime.timedelta = datetime.timedelta()
) -> None:
    """Schedule the removal of all objects below these prefixes, or of single keys (no final slash).

    Prefixes that are scheduled already are left unchanged.
    after: delay before the removal
    """
    due_at = timezone.now() + after
    rows = [RemovedObjects(prefix=prefix, due_at=due_at) for prefix in prefixes]
    RemovedObjects.objects.bulk_create(rows, ignore_conflicts=True)


def sweep_removed_files() -> None:
    """Run one round: remove due objects until storage is unreachable.

    What could not be removed moves to the end of the queue, so that it does not block others.
    """
    due = RemovedObjects.objects.filter(due_at__lt=timezone.now()).order_by("due_at")
    single: list[RemovedObjects] = []
    folders: list[RemovedObjects] = []
    for row in due[:REMOVAL_LIMIT]:
        (folders if row.prefix.endswith("/") else single).append(row)
    for rows in (single, *([row] for row in folders)):
        try:
            refused = _delete_objects(rows)
        except DomainError:  # storage is unreachable
            _postpone(rows)
            return  # each further removal may take 15 s to fail
        _postpone([row for row in rows if row.prefix in refused])
        for row in rows:
            if row.prefix not in refused:
                _removed(row)


def _delete_objects(rows: Sequence[RemovedObjects]) -> set[str]:
    """Delete the objects of several keys or of one prefix; return the keys that storage refused.

    Raises DomainError storage_unreachable.
    """
    prefixes = [row.prefix for row in rows]
    if prefixes and prefixes[0].endswith("/"):
        storage.delete_below(prefixes[0])
        return set()
    return storage.delete_all(prefixes)


def _postpone(rows: Sequence[RemovedObjects]) -> None:
    for row in rows:
        log.warning("removal_failed", prefix=row.prefix)
    keys = [row.pk for row in rows]
    RemovedObjects.objects.filter(pk__in=keys).update(due_at=timezone.now())


def _removed(row: RemovedObjects) -> None:
    """Schedule a second removal of the objects of a row, or delete the row after that.

    The second removal runs after all presigned URLs have expired, since they allow uploads until
    then.
    """
    if row.is_last:
        row.delete()
        return
    # a PUT may start just before its URL expires and take long
    pause_s = 2 * max(settings.PRESIGN_EXPIRY_S, settings.AGENT_PRESIGN_EXPIRY_S)
    row.is_last = True
    row.due_at = timezone.now() + datetime.timedelta(seconds=pause_s)
    row.save(update_fields=["is_last", "due_at"])
