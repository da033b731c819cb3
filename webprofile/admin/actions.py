"""What administrators do with rows: each act is declared once, for pages and for `manage.py`.

An act is a service of its core, with its name and the sentences about it. Who may do it is the
service's to say, which refuses everybody but an administrator and the command line.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from accounts.models import User
from webprofile.errors import DomainError
from webprofile.messages.actions import listed
from webprofile.messages.errors import word


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

    @property
    def refusal_words(self) -> str:
        """Why the row was left as it is, with its name if the reason does not say it."""
        assert self.refusal is not None
        text = word(self.refusal)
        if self.name in self.refusal.data.values():
            return text
        return _("%(name)s: %(why)s") % {"name": self.name, "why": text}


@dataclass(frozen=True)
class Act:
    """One thing to do with a row.

    apply: the service, called as apply(row, by=user); its answer says whether anything changed,
        and its DomainError is this row's alone
    done, unchanged: sentences of `ngettext_lazy` about `%(names)s`: what is so now, and that it was
        so before; without the second the service refuses what would change nothing
    page: instead of these, a view of (request, rows) that asks for more; the command line has none
    warning: what follows, in the reader's words; if it is empty no page asks
    of_oneself: what else follows for administrators who are among the rows
    is_final: whether no other act takes it back, so that the command line asks
    fits: whether it makes sense for a row, which decides on its button
    more: what else the service is told, by name, of a page's request
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
        """Whether another page comes before anything is done."""
        return bool(self.warning) or self.page is not None

    def on(self, row: Any, *, by: User | None, **more: Any) -> Came:
        """Do it, in the transaction of its service; repeating it changes nothing."""
        assert self.apply is not None
        refusal, changed = None, False
        try:
            changed = bool(self.apply(row, by=by, **more))
        except DomainError as error:
            refusal = error
        return Came(row, str(row), changed, refusal)

    def on_each(self, rows: Iterable[Any], *, by: User, **more: Any) -> list[Came]:
        """Do it, row after row, so that one refusal stops no other.

        Oneself comes last, as that may take the right to go on; answers stand in the order of rows.
        """
        asked = list(rows)
        ordered = sorted(asked, key=lambda row: bool(row == by))
        came = {row.pk: self.on(row, by=by, **more) for row in ordered}
        return [came[row.pk] for row in asked]

    def words(self, names: Sequence[str], *, changed: bool = True) -> str:
        """What is so now of the rows of these names."""
        text = self.done if changed else self.unchanged
        return str(text % {"count": len(names), "names": listed(names)})
