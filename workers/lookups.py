"""Look up several users or workers by id or name, and format lists of names for messages."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import F, QuerySet
from django.db.models.functions import Lower

from accounts.models import User, canonical_email
from webprofile.errors import DomainError
from workers.models import Worker

#: ids, or e-mail addresses of users and names of workers
Identifiers = Iterable[int | str]
NAMES_LIMIT = 10


def join_names(names: Iterable[str]) -> str:
    """Join names in alphabetical order for a message, at most the first `NAMES_LIMIT`."""
    ordered = sorted(names)
    return ", ".join(ordered[:NAMES_LIMIT]) + (" …" if len(ordered) > NAMES_LIMIT else "")


def find_users(identifiers: Identifiers, *, among: QuerySet[User]) -> list[User]:
    """Return each user once, in the order of `identifiers`. Raises DomainError users_unknown."""
    rows = among.order_by("email").annotate(name_key=Lower("email"))
    return _look_up(rows, identifiers, key=lambda text: canonical_email(text).lower(), code="users")


def find_workers(identifiers: Identifiers) -> list[Worker]:
    """Return each worker once, including retired ones, in the order of `identifiers`.

    Raises DomainError workers_unknown.
    """
    rows = Worker.objects.order_by("name").annotate(name_key=F("name"))
    return _look_up(rows, identifiers, key=str, code="workers")


def _look_up(
    rows: QuerySet[Any], identifiers: Identifiers, *, key: Callable[[str], str], code: str
) -> list[Any]:
    """Return the rows with these ids and names, in two queries; the error lists all missing ones.

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
