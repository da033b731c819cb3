"""By what the page narrows the list; the address holds it, so a page can be kept and sent."""

import datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.db.models import Exists, OuterRef, Q
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from tasks.kinds import Kind
from tasks.models import TaskFile
from tasks.pagination import STRANDS, Place, Wanted, between
from tasks.states import Status
from webprofile.integers import LARGEST_KEY, parse_int
from workers.models import Worker

_NEVER = Q(pk__in=[])


class TaskFilterForm(forms.Form):
    """What the list shows. `#12` as text is the task of this number."""

    # as written, like the API's filters: tasks are cancelled and deleted by what it finds
    q = forms.CharField(label=_("Search"), max_length=200, required=False, strip=False)
    status = forms.MultipleChoiceField(label=_("Status"), choices=Status.choices, required=False)
    kind = forms.ChoiceField(
        label=_("What is profiled"), choices=[("", _("All")), *Kind.choices], required=False
    )
    device = forms.CharField(label=_("Device"), max_length=60, required=False)
    version = forms.CharField(label=_("MegEngine version"), max_length=40, required=False)
    since = forms.DateField(label=_("From"), required=False)
    until = forms.DateField(label=_("Until"), required=False)
    owner = forms.CharField(label=_("Owner"), max_length=254, required=False)

    def __init__(self, params: QueryDict, *, reader: User) -> None:
        super().__init__(params)
        if not reader.is_staff:
            del self.fields["owner"]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        since, until = data.get("since"), data.get("until")
        if since and until and since > until:
            self.add_error("until", _("This day is before the first one."))
        return data

    @property
    def query(self) -> str:
        """The filters in use as they stand in an address; what cannot be used is left out."""
        used = {name: value for name, value in self.cleaned_data.items() if value}
        return urlencode(used, doseq=True)

    @property
    def used(self) -> int:
        """How many filters are in use, the search aside."""
        return sum(bool(value) for name, value in self.cleaned_data.items() if name != "q")

    def wanted(self) -> Wanted:
        """What to look for; of a valid form."""
        data = self.cleaned_data
        within, narrow = between(_start(data["since"]), _start(data["until"], days=1))
        statuses = [Status(value) for value in data["status"]]
        named = self._named()
        for column, found in named.items():
            within &= _NEVER if found is None else Q(**{column: found})
        if "worker_id" in named and statuses:
            # the index of a device knows no states
            any_of = Q()
            for strand in (each for status in statuses for each in STRANDS[status]):
                any_of |= strand
            narrow, statuses = narrow & any_of, []
        if data["kind"]:
            narrow &= Q(kind=data["kind"])
        if data["version"]:
            narrow &= Q(runtime_version=data["version"])
        if number := _number(data["q"].strip()):
            within &= Q(pk=number)
        elif data["q"]:
            narrow &= _has_text(data["q"])
        return Wanted(within=within, statuses=statuses, narrow=narrow)

    def _named(self) -> dict[str, int | None]:
        """The rows that a device's and an owner's name stand for; None for a name that is none."""
        named = dict[str, int | None]()
        if name := self.cleaned_data["device"]:
            found = Worker.objects.filter(name=name).values_list("pk", flat=True).first()
            named["worker_id"] = found
        if email := self.cleaned_data.get("owner"):
            owner = User.objects.filter(email__iexact=email).values_list("pk", flat=True).first()
            named["owner_id"] = owner
        return named


def place_of(params: QueryDict) -> Place:
    """Where a page begins; what is no number begins at the newest task."""
    for name in ("before", "after"):
        number = _number("#" + params.get(name, ""))
        if number:
            return Place(number, newer=name == "after")
    return Place()


def _number(text: str) -> int:
    """The number in `#12`, 0 if it is none."""
    number = parse_int(text[1:], maximum=LARGEST_KEY) if text.startswith("#") else None
    return number or 0


def _start(day: datetime.date | None, *, days: int = 0) -> datetime.datetime | None:
    """Midnight before a day, or so many days later, where the reader is."""
    if day is None:
        return None
    ordinal = min(day.toordinal() + days, datetime.date.max.toordinal() - 1)
    at = datetime.datetime.combine(datetime.date.fromordinal(max(2, ordinal)), datetime.time())
    return timezone.make_aware(at)


def _has_text(text: str) -> Q:
    models = TaskFile.objects.filter(
        task=OuterRef("pk"), kind=TaskFile.Kind.MODEL, name__icontains=text
    )
    return Q(title__icontains=text) | Q(Exists(models))
