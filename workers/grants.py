"""Grants: give and take the permission to use private workers."""

from django.db import transaction

from accounts.audit import record_audit_entry
from accounts.models import User
from webprofile.errors import DomainError
from workers.models import Grant, Worker
from workers.named import Named, find_users, find_workers, listed


@transaction.atomic
def add_grants(*, users: Named, workers: Named, by: User | None) -> int:
    """Grant each of these workers to each of these users; return the number of new grants.

    Existing grants and repeated names are ignored. Raises DomainError users_unknown,
    users_inactive, workers_unknown, workers_retired, and grants nothing then.
    """
    chosen, devices = _users(users), find_workers(workers)
    inactive = [user.email for user in chosen if not user.is_active]
    if inactive:
        raise DomainError("users_inactive", field="users", status=409, names=listed(inactive))
    retired = [worker.name for worker in devices if worker.retired_at]
    if retired:
        raise DomainError("workers_retired", field="workers", status=409, names=listed(retired))
    new = 0
    for worker in devices:
        granted = set(worker.grants.values_list("user_id", flat=True))
        added = [user for user in chosen if user.pk not in granted]
        # ignore_conflicts: a concurrent request may create the same grant
        Grant.objects.bulk_create(
            [Grant(worker=worker, user=user) for user in added], ignore_conflicts=True
        )
        _note("grant.add", worker, added, by=by, granted=True)
        new += len(added)
    return new


@transaction.atomic
def remove_grants(*, users: Named, workers: Named, by: User | None) -> int:
    """Revoke these users' grants of these workers; return the number of removed grants.

    Existing tasks stay. Raises DomainError: users_unknown, workers_unknown.
    """
    chosen, devices = _users(users), find_workers(workers)
    number = 0
    for worker in devices:
        granted = worker.grants.filter(user__in=chosen).select_related("user")
        removed = [grant.user for grant in granted]
        granted.delete()
        _note("grant.remove", worker, removed, by=by, granted=False)
        number += len(removed)
    return number


def _note(
    action: str, worker: Worker, users: list[User], *, by: User | None, granted: bool
) -> None:
    """Write one audit entry for a worker, with the users' e-mails as keys."""
    if users:
        before = {user.email: not granted for user in users}
        after = {user.email: granted for user in users}
        record_audit_entry(action, worker, by=by, before=before, after=after)


def _users(named: Named) -> list[User]:
    """Return the users, locked, so that none of them is deactivated meanwhile."""
    return find_users(named, among=User.objects.select_for_update())
