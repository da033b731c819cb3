"""The page with the list of devices."""

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
    """Search and status filter of the list; the values are part of the URL."""

    q = forms.CharField(label=_("Search"), max_length=100, required=False)
    state = forms.ChoiceField(
        label=_("State"),
        choices=[("", _("All")), ("online", _("online")), ("offline", _("offline"))],
        required=False,
    )

    def filter(self, workers: "QuerySet[Worker]") -> "QuerySet[Worker]":
        """Return the workers that match a valid form. Network addresses are not searched."""
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
    """Render only the rows of the list, for the page's automatic refresh."""
    return render(request, "workers/_rows.html", _context(request))


def _visible(request: HttpRequest) -> Any:
    return visible_workers(current_user(request))


def _context(request: HttpRequest) -> dict[str, Any]:
    form = DeviceFilterForm(request.GET)
    workers = form.filter(_visible(request)) if form.is_valid() else Worker.objects.none()
    page = Paginator(workers, PAGE_SIZE).get_page(request.GET.get("page"))
    behind = {worker.pk for worker in page if is_behind(worker.agent_version)}
    return {
        "form": form,
        "page": page,
        "workers": page.object_list,
        "behind": behind,
        "query": urlencode({name: value for name, value in form.cleaned_data.items() if value}),
    }
