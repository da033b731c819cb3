"""Who may choose which private worker."""

from django.db import transaction

from accounts.audit import record_audit_entry
from accounts.models import User
from webprofile.errors import DomainError
from workers.models import Grant, Worker
from workers.named import Named, find_users, find_workers, listed


@transaction.atomic
def add_grants(*, users: Named, workers: Named, by: User | None) -> int:
    """Let each of these users choose each of these workers; returns how many grants are new.

    What is granted already stays as it is, and so does one that is named twice.
    Raises DomainError: users_unknown, users_inactive, workers_unknown, workers_retired; then
    nothing is granted.
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
        # of two that grant the same at once, both are right
        Grant.objects.bulk_create(
            [Grant(worker=worker, user=user) for user in added], ignore_conflicts=True
        )
        _note("grant.add", worker, added, by=by, granted=True)
        new += len(added)
    return new


@transaction.atomic
def remove_grants(*, users: Named, workers: Named, by: User | None) -> int:
    """Take these workers from these users; returns how many grants there were.

    Tasks that were sent before stay. Raises DomainError: users_unknown, workers_unknown.
    """
    chosen, devices = _users(users), find_workers(workers)
    gone = 0
    for worker in devices:
        granted = worker.grants.filter(user__in=chosen).select_related("user")
        removed = [grant.user for grant in granted]
        granted.delete()
        _note("grant.remove", worker, removed, by=by, granted=False)
        gone += len(removed)
    return gone


def _note(
    action: str, worker: Worker, users: list[User], *, by: User | None, granted: bool
) -> None:
    """One entry for each worker, with the users' e-mails as keys: so either is found."""
    if users:
        before = {user.email: not granted for user in users}
        after = {user.email: granted for user in users}
        record_audit_entry(action, worker, by=by, before=before, after=after)


def _users(named: Named) -> list[User]:
    """Locked, so that nobody is shut out meanwhile."""
    return find_users(named, among=User.objects.select_for_update())
