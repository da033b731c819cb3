"""Grants: give and take the permission to use private workers."""

from django.db import transaction

from accounts.audit import record_audit_entry
from accounts.models import User
from webprofile.errors import DomainError
from workers.lookups import Identifiers, find_users, find_workers, join_names
from workers.models import Grant, Worker


@transaction.atomic
def add_grants(*, users: Identifiers, workers: Identifiers, by: User | None) -> int:
    """Grant each of these workers to each of these users; return the number of new grants.

    Existing grants and repeated names are ignored. Raises DomainError users_unknown,
    users_inactive, workers_unknown, workers_retired, and grants nothing then.
    """
    chosen_users, chosen_workers = _users(users), find_workers(workers)
    inactive = [user.email for user in chosen_users if not user.is_active]
    if inactive:
        raise DomainError("users_inactive", field="users", status=409, names=join_names(inactive))
    retired = [worker.name for worker in chosen_workers if worker.retired_at]
    if retired:
        raise DomainError("workers_retired", field="workers", status=409, names=join_names(retired))
    count = 0
    for worker in chosen_workers:
        granted = set(worker.grants.values_list("user_id", flat=True))
        added = [user for user in chosen_users if user.pk not in granted]
        # ignore_conflicts: a concurrent request may create the same grant
        Grant.objects.bulk_create(
            [Grant(worker=worker, user=user) for user in added], ignore_conflicts=True
        )
        _note("grant.add", worker, added, by=by, granted=True)
        count += len(added)
    return count


@transaction.atomic
def remove_grants(*, users: Identifiers, workers: Identifiers, by: User | None) -> int:
    """Revoke these users' grants of these workers; return the number of removed grants.

    Existing tasks stay. Raises DomainError: users_unknown, workers_unknown.
    """
    chosen_users, chosen_workers = _users(users), find_workers(workers)
    count = 0
    for worker in chosen_workers:
        granted = worker.grants.filter(user__in=chosen_users).select_related("user")
        removed = [grant.user for grant in granted]
        granted.delete()
        _note("grant.remove", worker, removed, by=by, granted=False)
        count += len(removed)
    return count


def _note(
    action: str, worker: Worker, users: list[User], *, by: User | None, granted: bool
) -> None:
    """Write one audit entry for a worker, with the users' e-mails as keys."""
    if users:
        before = {user.email: not granted for user in users}
        after = {user.email: granted for user in users}
        record_audit_entry(action, worker, by=by, before=before, after=after)


def _users(identifiers: Identifiers) -> list[User]:
    """Return the users, locked, so that none of them is deactivated meanwhile."""
    return find_users(identifiers, among=User.objects.select_for_update())
