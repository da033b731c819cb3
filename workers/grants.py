"""Who may choose which private worker."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Lower

from accounts.audit import audit_record
from accounts.emails import email_canonical
from accounts.models import User
from webprofile.errors import DomainError
from workers.models import Grant, Worker
from workers.naming import listed

#: a row's number, or the e-mail of a user and the name of a worker
Named = Iterable[int | str]


@transaction.atomic
def grants_add(*, users: Named, workers: Named, by: User | None) -> int:
    """Let each of these users choose each of these workers; returns how many grants are new.

    What is granted already stays as it is, and so does one that is named twice.
    Raises DomainError: users_unknown, users_inactive, workers_unknown, workers_retired; then
    nothing is granted.
    """
    chosen, devices = _users(users), _workers(workers)
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
def grants_remove(*, users: Named, workers: Named, by: User | None) -> int:
    """Take these workers from these users; returns how many grants there were.

    Tasks that were sent before stay. Raises DomainError: users_unknown, workers_unknown.
    """
    chosen, devices = _users(users), _workers(workers)
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
        audit_record(action, worker, by=by, before=before, after=after)


def _users(named: Named) -> list[User]:
    rows = User.objects.order_by("email").select_for_update().annotate(name_key=Lower("email"))
    return _found(rows, named, key=lambda text: email_canonical(text).lower(), code="users")


def _workers(named: Named) -> list[Worker]:
    rows = Worker.objects.order_by("name").annotate(name_key=F("name"))
    return _found(rows, named, key=str, code="workers")


def _found(rows: QuerySet[Any], named: Named, *, key: Callable[[str], str], code: str) -> list[Any]:
    """The rows of numbers and names, in two queries; all that are missing are told at once.

    rows: with `name_key`, which equals `key` of a name that means the row
    """
    wanted = {each.strip() if isinstance(each, str) else each for each in named}
    numbers = {each for each in wanted if isinstance(each, int)}
    names = {each: key(each) for each in wanted if isinstance(each, str)}
    by_number = {row.pk: row for row in rows.filter(pk__in=numbers)}
    by_key = {row.name_key: row for row in rows.filter(name_key__in=set(names.values()))}
    missing: list[str] = [str(number) for number in sorted(numbers - set(by_number))]
    missing += sorted(name for name, own in names.items() if own not in by_key)
    if missing:
        raise DomainError(f"{code}_unknown", field=code, status=404, names=listed(missing))
    found = by_number | {row.pk: row for row in by_key.values()}
    return list(found.values())
