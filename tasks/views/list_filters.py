"""Filters of the task list: the form, its query string, and queries saved under a name."""

import datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db import transaction
from django.db.models import Q
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import User, canonical_email
from tasks.models import SavedView, TaskKind
from tasks.pagination import Cursor, TaskQuery, between, has_model, has_status
from tasks.states import Status
from webprofile.errors import DomainError
from webprofile.integers import parse_key
from webprofile.texts import check_text
from workers.models import Worker

MOST_VIEWS = 40
_NEVER = Q(pk__in=[])


class TaskFilterForm(forms.Form):
    """Filters of the task list. The search text `#12` selects the task with this id."""

    # not stripped, like the API's filters, since bulk actions apply to the tasks that match
    q = forms.CharField(label=_("Search"), max_length=200, required=False, strip=False)
    status = forms.MultipleChoiceField(label=_("Status"), choices=Status.choices, required=False)
    kind = forms.ChoiceField(
        label=_("What is profiled"), choices=[("", _("All")), *TaskKind.choices], required=False
    )
    device = forms.CharField(label=_("Device"), max_length=60, required=False)
    version = forms.CharField(label=_("MegEngine version"), max_length=40, required=False)
    since = forms.DateField(label=_("From"), required=False)
    until = forms.DateField(label=_("Until"), required=False)
    owner = forms.CharField(label=_("Owner"), max_length=254, required=False)
    #: the order within a page, no filter
    group = forms.ChoiceField(choices=[("", ""), ("model", _("Group by model"))], required=False)

    def __init__(self, params: QueryDict, *, reader: User) -> None:
        super().__init__(params)
        if not reader.is_staff:
            del self.fields["owner"]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        since, until = data.get("since"), data.get("until")
        if since and until and since > until:
            self.add_error("until", _("This date is before the start date."))
        return data

    @property
    def query(self) -> str:
        """The active filters as a query string, without unknown parameters."""
        used = {name: value for name, value in self.cleaned_data.items() if value}
        return urlencode(used, doseq=True)

    def query_with(self, status: str) -> str:
        """Return the query string with this status, or any if it is empty."""
        query = QueryDict(self.query, mutable=True)
        query.setlist("status", [status] if status else [])
        return query.urlencode()

    @property
    def is_filtered(self) -> bool:
        return any(value for name, value in self.cleaned_data.items() if name != "group")

    @property
    def used(self) -> int:
        """Number of active filters of the menu "More filters"."""
        shown = ("q", "group", "status", "device", "version")
        return sum(bool(value) for name, value in self.cleaned_data.items() if name not in shown)

    def task_query(self, *, any_status: bool = False) -> TaskQuery:
        """Return the filters, without those of the status if `any_status`."""
        data = self.cleaned_data
        within, narrow = between(_start(data["since"]), _start(data["until"], days=1))
        statuses = [Status(value) for value in data["status"] if not any_status]
        keys = self._keys_by_column()
        for column, key in keys.items():
            within &= _NEVER if key is None else Q(**{column: key})
        if "worker_id" in keys and statuses:
            # the index on the worker does not include the state
            narrow, statuses = narrow & has_status(statuses), []
        if data["kind"]:
            narrow &= Q(kind=data["kind"])
        if data["version"]:
            narrow &= Q(runtime_version=data["version"])
        if number := _number(data["q"].strip()):
            within &= Q(pk=number)
        elif data["q"]:
            narrow &= Q(title__icontains=data["q"]) | Q(has_model(data["q"]))
        return TaskQuery(within=within, statuses=statuses, narrow=narrow)

    def _keys_by_column(self) -> dict[str, int | None]:
        """Return the ids of the named device and owner, by column; None for an unknown name."""
        keys = dict[str, int | None]()
        if name := self.cleaned_data["device"]:
            worker = Worker.objects.filter(name=name).values_list("pk", flat=True).first()
            keys["worker_id"] = worker
        if email := self.cleaned_data.get("owner"):
            owners = User.objects.filter(email__iexact=canonical_email(email))
            keys["owner_id"] = owners.values_list("pk", flat=True).first()
        return keys


@transaction.atomic
def save_task_view(owner: User, *, name: str, query: str) -> tuple[SavedView, str]:
    """Store the valid filters of a query under a name; replace the view of this name.

    Returns the view, and its previous query, which is empty if the view is new. Raises DomainError
    character_bad, view_name_bad, view_query_bad, view_limit.
    """
    form = TaskFilterForm(QueryDict(query), reader=owner)
    query = form.query if form.is_valid() else ""
    name = " ".join(name.split())
    check_text(name, "name")
    if not name or len(name) > 60:
        raise DomainError("view_name_bad", field="name", limit=60)
    if not query or len(query) > 1000:
        raise DomainError("view_query_bad", field="name")
    # the lock serializes concurrent requests, so that the limit holds
    User.objects.select_for_update().get(pk=owner.pk)
    previous = SavedView.objects.filter(owner=owner, name=name).first()
    if previous is None and SavedView.objects.filter(owner=owner).count() >= MOST_VIEWS:
        raise DomainError("view_limit", field="name", limit=MOST_VIEWS)
    view, _created = SavedView.objects.update_or_create(
        owner=owner, name=name, defaults={"query": query}
    )
    return view, previous.query if previous else ""


def cursor_of(params: QueryDict) -> Cursor:
    for name in ("before", "after"):
        number = _number("#" + params.get(name, ""))
        if number:
            return Cursor(number, newer=name == "after")
    return Cursor()


def _number(text: str) -> int:
    """Return the number in a text such as `#12`; 0 if it is not one."""
    return parse_key(text[1:]) if text.startswith("#") else 0


def _start(day: datetime.date | None, *, days: int = 0) -> datetime.datetime | None:
    """Return midnight at the start of a day, plus `days`, in the current time zone."""
    if day is None:
        return None
    ordinal = min(day.toordinal() + days, datetime.date.max.toordinal() - 1)
    at = datetime.datetime.combine(datetime.date.fromordinal(max(2, ordinal)), datetime.time())
    return timezone.make_aware(at)
