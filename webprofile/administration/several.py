"""One act on several rows: each by its own service, so that one refusal stops no other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from accounts.models import User
from webprofile.errors import DomainError


@dataclass(frozen=True)
class Came:
    """What came of an act on one row.

    name: of the row, as it is called now
    changed: whether anything changed; if not, and nothing refused it, it was so before
    """

    row: Any
    name: str
    changed: bool
    refusal: DomainError | None = None


def act_on_each(
    rows: Iterable[Any],
    apply: Callable[..., object],
    *,
    by: User,
    more: dict[str, Any] | None = None,
) -> list[Came]:
    """Do it, row after row, each in the transaction of its service; repeating it changes nothing.

    Oneself comes last, as that may take the right to go on; answers stand in the order of `rows`.
    apply: the service, called as apply(row, by=user, **more); its answer says whether anything
    changed, and its DomainError is this row's alone
    """
    asked, came = list(rows), {}
    for row in sorted(asked, key=lambda row: bool(row == by)):
        refusal, changed = None, False
        try:
            changed = bool(apply(row, by=by, **(more or {})))
        except DomainError as error:
            refusal = error
        came[row.pk] = Came(row, str(row), changed, refusal)
    return [came[row.pk] for row in asked]
