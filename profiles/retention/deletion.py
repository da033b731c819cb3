"""What leaves storage: rows say so at once, the sweep removes the objects.

What leaves it after some time, `profiles.retention.policy` says.

A storage that is away keeps nobody from deleting: the rows of `RemovedObjects` are the outbox.
"""

import datetime
from collections.abc import Iterable

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from profiles.models import RemovedObjects
from tasks.lifecycle.wakeups import task_changed_on_commit
from tasks.models import Artifact, Task, TaskFile, artifact_key
from tasks.states import TaskState
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: in one round of the sweep, since other rows wait meanwhile
REMOVAL_LIMIT = 50


@transaction.atomic
def delete_task(task: Task, *, by: User | None) -> None:
    """Remove a task that has ended, with its files, history and results. Repeating it is fine.

    by: who asks for it; deleting another one's task is noted in the audit log
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
    """Remove a task that no device holds, in the caller's transaction, without further checks."""
    prefixes = [f"tasks/{row.pk}/"]
    prefixes += [artifact_key(str(pk), "") for pk in row.attempts.values_list("pk", flat=True)]
    schedule_removal(prefixes)
    task_changed_on_commit(row)
    log.info("task_deleted", task=row.pk)
    row.delete()


@transaction.atomic
def discard_draft(task: Task) -> None:
    """Remove a task that never entered the queue, with its files. Repeating it changes nothing.

    For a request that is refused after its files were uploaded: the reader corrects the form and
    sends it again, and no failed task stays in the list.
    """
    row = Task.objects.select_for_update().filter(pk=task.pk, submitted_at=None).first()
    if row is not None:
        erase_task(row)


def refuse_removed(row: Artifact | TaskFile | None) -> None:
    """Raises DomainError removed_by_rule for a file that went so; who asks may see its task."""
    if row is None or row.kept_days is None:
        return
    at = row.removed_at if isinstance(row, Artifact) else row.purged_at
    date = "" if at is None else timezone.localtime(at).date().isoformat()
    raise DomainError("removed_by_rule", status=410, name=row.name, date=date, days=row.kept_days)


@transaction.atomic
def keep_task_files(task: Task, *, keep: bool) -> None:
    """Have retention leave a task's files alone, or not any more. Repeating it changes nothing."""
    moved = Task.objects.filter(pk=task.pk).exclude(keeps_files=keep)
    if moved.update(keeps_files=keep, updated_at=F("updated_at")):
        log.info("task_keeps_files", task=task.pk, keep=keep)
    task.refresh_from_db()


def schedule_removal(
    prefixes: Iterable[str], *, after: datetime.timedelta = datetime.timedelta()
) -> None:
    """Have the sweep empty these prefixes (or remove the objects of these keys, without a slash).

    One that is to be emptied already stays as it is. after: nothing goes before that
    """
    due_at = timezone.now() + after
    rows = [RemovedObjects(prefix=prefix, due_at=due_at) for prefix in prefixes]
    RemovedObjects.objects.bulk_create(rows, ignore_conflicts=True)


def removed_sweep() -> None:
    """One round: what is due leaves storage, until storage is away.

    What could not be removed goes to the end of the line, so that it keeps no other waiting.
    """
    due = RemovedObjects.objects.filter(due_at__lt=timezone.now()).order_by("due_at")
    for row in due[:REMOVAL_LIMIT]:
        try:
            _remove(row)
        except DomainError:  # storage is away
            log.warning("removal_failed", prefix=row.prefix)
            RemovedObjects.objects.filter(pk=row.pk).update(due_at=timezone.now())
            return  # each further one may take 15 s as well


def _remove(row: RemovedObjects) -> None:
    """Empty a prefix twice: until presigned addresses have expired, something may come back.

    Raises DomainError storage_unreachable.
    """
    if row.prefix.endswith("/"):
        storage.delete_below(row.prefix)
    else:
        storage.delete(row.prefix)
    if row.is_last:
        row.delete()
        return
    # the last PUT may begin at the end of its address's life, and take long
    pause_s = 2 * max(settings.PRESIGN_EXPIRY_S, settings.AGENT_PRESIGN_EXPIRY_S)
    row.is_last = True
    row.due_at = timezone.now() + datetime.timedelta(seconds=pause_s)
    row.save(update_fields=["is_last", "due_at"])
