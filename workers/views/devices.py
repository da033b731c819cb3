"""The list of devices."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from accounts.selectors import current_user
from workers.models import Worker
from workers.releases import is_behind
from workers.selectors import search_workers, visible_workers
from workers.status import ONLINE

PAGE_SIZE = 50


class DeviceFilterForm(forms.Form):
    """What the list shows; the address holds it."""

    q = forms.CharField(label=_("Search"), max_length=100, required=False)
    state = forms.ChoiceField(
        label=_("State"),
        choices=[("", _("All")), ("online", _("online")), ("offline", _("offline"))],
        required=False,
    )

    def narrowed(self, workers: "QuerySet[Worker]") -> "QuerySet[Worker]":
        """Of a valid form. Where a device stands in the network is no part of the search."""
        if text := self.cleaned_data["q"]:
            workers = search_workers(workers, text)
        online = ONLINE.rows("")
        if state := self.cleaned_data["state"]:
            workers = workers.filter(online if state == "online" else ~online)
        return workers


@login_required
@require_safe
def worker_list(request: HttpRequest) -> HttpResponse:
    return render(request, "workers/list.html", _context(request))


@login_required
@require_safe
def rows(request: HttpRequest) -> HttpResponse:
    """The list's body alone, for a page that refreshes itself."""
    return render(request, "workers/_rows.html", _context(request))


def _visible(request: HttpRequest) -> Any:
    return visible_workers(current_user(request))


def _context(request: HttpRequest) -> dict[str, Any]:
    form = DeviceFilterForm(request.GET)
    found = form.narrowed(_visible(request)) if form.is_valid() else Worker.objects.none()
    page = Paginator(found, PAGE_SIZE).get_page(request.GET.get("page"))
    behind = {worker.pk for worker in page if is_behind(worker.agent_version)}
    return {
        "form": form,
        "page": page,
        "workers": page.object_list,
        "behind": behind,
        "query": urlencode({name: value for name, value in form.cleaned_data.items() if value}),
    }
