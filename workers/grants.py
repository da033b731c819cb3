"""Grants: give and take the permission to use private workers."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Lower

from accounts.audit import record_audit_entry
from accounts.models import User, canonical_email
from webprofile.errors import DomainError
from workers.models import Grant, Worker

#: ids, or e-mail addresses of users and names of workers
Identifiers = Iterable[int | str]
NAMES_LIMIT = 10


@transaction.atomic
def add_grants(*, users: Identifiers, workers: Identifiers, by: User | None) -> int:
    """Grant each of these workers to each of these users; return the number of new grants.

    Existing grants and repeated names are ignored. Raises DomainError users_unknown,
    users_inactive, workers_unknown, workers_retired, and grants nothing then.
    """
    chosen_users, chosen_workers = _users(users), _workers(workers)
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
    chosen_users, chosen_workers = _users(users), _workers(workers)
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
    """Return each user once, locked, so that none of them is deactivated meanwhile."""
    rows = User.objects.select_for_update().order_by("email").annotate(name_key=Lower("email"))
    return _look_up(rows, identifiers, key=lambda text: canonical_email(text).lower(), code="users")


def _workers(identifiers: Identifiers) -> list[Worker]:
    """Return each worker once, including retired ones."""
    rows = Worker.objects.order_by("name").annotate(name_key=F("name"))
    return _look_up(rows, identifiers, key=str, code="workers")


def _look_up(
    rows: QuerySet[Any], identifiers: Identifiers, *, key: Callable[[str], str], code: str
) -> list[Any]:
    """Return the rows with these ids and names, in their order and in two queries.

    Raises DomainError `<code>_unknown` with all missing ones.

    rows: annotated with `name_key`
    key: converts a name into the value of `name_key`
    """
    stripped = [item.strip() if isinstance(item, str) else item for item in identifiers]
    numbers = {item for item in stripped if isinstance(item, int)}
    names = {item: key(item) for item in stripped if isinstance(item, str)}
    by_number = {row.pk: row for row in rows.filter(pk__in=numbers)}
    by_key = {row.name_key: row for row in rows.filter(name_key__in=set(names.values()))}
    missing: list[str] = [str(number) for number in sorted(numbers - set(by_number))]
    missing += sorted(name for name, name_key in names.items() if name_key not in by_key)
    if missing:
        raise DomainError(f"{code}_unknown", field=code, status=404, names=join_names(missing))
    ordered = [by_number[i] if isinstance(i, int) else by_key[names[i]] for i in stripped]
    return list({row.pk: row for row in ordered}.values())


def join_names(names: Iterable[str]) -> str:
    """Join names in alphabetical order for a message, at most the first `NAMES_LIMIT`."""
    ordered = sorted(names)
    return ", ".join(ordered[:NAMES_LIMIT]) + (" …" if len(ordered) > NAMES_LIMIT else "")
