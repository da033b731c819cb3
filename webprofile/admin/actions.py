"""Admin actions on rows, declared once for the admin pages and for `manage.py`.

An action combines a service with a name and the messages about its results. The service checks the
permission: it refuses everybody but an administrator and the command line.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from webprofile.errors import DomainError
from webprofile.messages.errors import word

MOST_NAMES = 10


@dataclass(frozen=True)
class ActionResult:
    """The result of an action on one row.

    name: current name of the row
    changed: whether the action changed the row; False without a refusal means that the row already
        had the requested state
    """

    row: Any
    name: str
    changed: bool
    refusal: DomainError | None = None

    @property
    def refusal_words(self) -> str:
        """The message of the refusal, with the row's name unless the message contains it."""
        assert self.refusal is not None
        text = word(self.refusal)
        if self.name in self.refusal.data.values():
            return text
        return _("%(name)s: %(why)s") % {"name": self.name, "why": text}


@dataclass(frozen=True)
class AdminAction:
    """An action that administrators can perform on a row.

    apply: the service, called as apply(row, by=user); it returns whether anything changed, and a
        DomainError that it raises concerns this row only
    done, unchanged: messages of `ngettext_lazy` with `%(names)s` for rows that changed and for rows
        that already had the state; without the second the service refuses a call that changes
        nothing
    page: a view (request, rows) that replaces `apply` and asks for more input; not available on the
        command line
    warning: translated consequences of the action; if empty, no confirmation page is shown
    of_oneself: additional consequences if the current user is among the rows
    is_final: whether no other action reverts it, so that the command line asks for confirmation
    fits: whether the action makes sense for a row, which decides whether its button is shown
    more: additional keyword arguments of the service, from the request of a page
    """

    name: str
    label: Any
    apply: Callable[..., object] | None = None
    done: Any = ""
    unchanged: Any = ""
    page: Callable[[HttpRequest, list[Any]], HttpResponse | None] | None = None
    warning: Any = ""
    of_oneself: Any = ""
    is_dangerous: bool = False
    is_final: bool = False
    fits: Callable[[Any], bool] = lambda row: True
    more: Callable[[HttpRequest], dict[str, Any]] = lambda request: {}

    @property
    def asks(self) -> bool:
        """Whether another page is shown before the action is performed."""
        return bool(self.warning) or self.page is not None

    def on(self, row: Any, *, by: User | None, **more: Any) -> ActionResult:
        """Perform the action in the transaction of its service; repeating it changes nothing."""
        assert self.apply is not None
        refusal, changed = None, False
        try:
            changed = bool(self.apply(row, by=by, **more))
        except DomainError as error:
            refusal = error
        return ActionResult(row, str(row), changed, refusal)

    def on_rows(self, rows: Iterable[Any], *, by: User, **more: Any) -> list[ActionResult]:
        """Perform the action row by row; a refusal does not stop the other rows.

        The current user's own row comes last, since the action may end the right to continue. The
        results are in the order of `rows`.
        """
        selected = list(rows)
        ordered = sorted(selected, key=lambda row: bool(row == by))
        results = {row.pk: self.on(row, by=by, **more) for row in ordered}
        return [results[row.pk] for row in selected]

    def words(self, names: Sequence[str], *, changed: bool = True) -> str:
        """Return the message about the rows with these names."""
        text = self.done if changed else self.unchanged
        return str(text % {"count": len(names), "names": listed(names)})


def grant_words(count: int, *, adds: bool) -> str:
    """Return a message with the number of grants that were added or removed.

    A grant gives one device to one user.
    """
    if count == 0:
        return _("Nothing has been changed.")
    if adds:
        text = ngettext("%(count)s permission granted.", "%(count)s permissions granted.", count)
    else:
        text = ngettext("%(count)s permission revoked.", "%(count)s permissions revoked.", count)
    return text % {"count": count}


def listed(names: Sequence[str]) -> str:
    """Return the first ten names and the number of the others."""
    shown, more = names[:MOST_NAMES], len(names) - MOST_NAMES
    text = ", ".join(shown)
    if more > 0:
        text += " " + ngettext("and %(count)d more", "and %(count)d more", more) % {"count": more}
    return text
