"""Users and devices by number or by name, all or none; and how messages name several."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Lower

from accounts.emails import canonical_email
from accounts.models import User
from webprofile.errors import DomainError
from workers.models import Worker

#: a row's number, or the e-mail of a user and the name of a worker
Named = Iterable[int | str]
MOST_NAMES = 10


def listed(names: Iterable[str]) -> str:
    """The first ten in order, since a message is to be read."""
    ordered = sorted(names)
    return ", ".join(ordered[:MOST_NAMES]) + (" …" if len(ordered) > MOST_NAMES else "")


def find_users(named: Named, *, among: QuerySet[User]) -> list[User]:
    """Each user once, in the order of `named`. Raises DomainError users_unknown."""
    rows = among.order_by("email").annotate(name_key=Lower("email"))
    return _found(rows, named, key=lambda text: canonical_email(text).lower(), code="users")


def find_workers(named: Named) -> list[Worker]:
    """Each device once, also a retired one, in the order of `named`.

    Raises DomainError workers_unknown.
    """
    rows = Worker.objects.order_by("name").annotate(name_key=F("name"))
    return _found(rows, named, key=str, code="workers")


def _found(rows: QuerySet[Any], named: Named, *, key: Callable[[str], str], code: str) -> list[Any]:
    """The rows of numbers and names, in two queries; all that are missing are told at once.

    rows: with `name_key`, which equals `key` of a name that means the row
    """
    wanted = [each.strip() if isinstance(each, str) else each for each in named]
    numbers = {each for each in wanted if isinstance(each, int)}
    names = {each: key(each) for each in wanted if isinstance(each, str)}
    by_number = {row.pk: row for row in rows.filter(pk__in=numbers)}
    by_key = {row.name_key: row for row in rows.filter(name_key__in=set(names.values()))}
    missing: list[str] = [str(number) for number in sorted(numbers - set(by_number))]
    missing += sorted(name for name, own in names.items() if own not in by_key)
    if missing:
        raise DomainError(f"{code}_unknown", field=code, status=404, names=listed(missing))
    asked = [by_number[e] if isinstance(e, int) else by_key[names[e]] for e in wanted]
    return list({row.pk: row for row in asked}.values())
