"""Audit log of changes by administrators, and of users' changes to how they log in."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from django.db.models import Model

from accounts.models import AuditEntry, User

#: client address of the current request; set by a middleware
address: ContextVar[str | None] = ContextVar("address", default=None)


def record_audit_entry(
    action: str,
    target: Model,
    *,
    by: User | None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Create an audit entry, in the transaction that makes the change.

    action: `<noun>.<verb>`; before, after: JSON values of what changed, never a secret
    by: an administrator, or the user of the account; None for manage.py and the site itself
    """
    return AuditEntry.objects.create(
        actor=by,
        actor_email=by.email if by else "",
        action=action,
        target_type=target._meta.model_name or "",
        target_id=str(target.pk),
        target_name=str(target)[:254],
        before=dict(before or {}),
        after=dict(after or {}),
        address=address.get(),
    )
