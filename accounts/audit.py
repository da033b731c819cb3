"""Audit log: changes by administrators, and changes that users make to how they log in."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from django.db.models import Model, Q

from accounts.models import AuditEntry, User

#: client IP address of the current request; set by `webprofile.middleware`
client_address: ContextVar[str | None] = ContextVar("client_address", default=None)
#: entries on the page of a row
ENTRIES_SHOWN = 20


def record_audit_entry(
    action: str,
    target: Model,
    *,
    by: User | None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Create an audit entry, in the transaction that makes the change.

    action: `<noun>.<verb>`
    before, after: JSON values of the changed fields, never a secret
    by: an administrator, or the owner of the account; None for manage.py and the site itself
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
        address=client_address.get(),
    )


def entries_about(target: Model) -> list[AuditEntry]:
    """Return the newest audit entries about a row; for a user also those about their grants.

    Entries about grants name the user by the address at that time.
    """
    log = AuditEntry.objects.select_related("actor")
    own = log.filter(target_type=target._meta.model_name, target_id=str(target.pk))
    entries = list(own[:ENTRIES_SHOWN])
    if isinstance(target, User):
        # others may have had an address before the user, and after its change
        grants = log.filter(action__in=["grant.add", "grant.remove"], at__gte=target.date_joined)
        changes = own.filter(action="user.change_email", before__has_key="email")
        of_user, since = Q(), 0
        for change in reversed(changes[:ENTRIES_SHOWN]):
            of_user |= Q(after__has_key=change.before["email"], pk__gt=since, pk__lt=change.pk)
            since = change.pk
        of_user |= Q(after__has_key=target.email, pk__gt=since)
        entries += grants.filter(of_user)[:ENTRIES_SHOWN]
    return sorted(entries, key=lambda entry: entry.pk, reverse=True)[:ENTRIES_SHOWN]
