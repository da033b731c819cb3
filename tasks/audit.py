"""Audit entries of changes that administrators make to tasks of others."""

from collections.abc import Mapping
from typing import Any

from accounts.audit import record_audit_entry
from accounts.models import User
from tasks.models import Task


def record_change(
    action: str,
    task: Task,
    *,
    by: User | None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Record a change of a task, unless its owner or the site itself (None) made it.

    before, after: changed values, as of `record_audit_entry`
    """
    if by is not None and by.pk != task.owner_id:
        subject = {"owner": task.owner.email, "title": task.title}
        record_audit_entry(action, task, by=by, before=before, after=subject | dict(after or {}))
