"""Pages of devices: the list, and one device with its health checks."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST, require_safe

from accounts.models import User
from accounts.selectors import current_user
from profiles.device_history import speed_history
from profiles.health import request_health_checks
from profiles.presenters.device_speed import speed_view
from tasks.lifecycle.reasons import held_words, wording_of
from tasks.scheduling.eligibility import starts_checks
from tasks.scheduling.queue_depth import loads_of, usage_of
from tasks.selectors import recent_tasks
from webprofile.admin.worker_actions import HEALTH_CHECK
from workers import releases
from workers.models import Worker
from workers.selectors import labels_of, search_workers, visible_workers
from workers.status import ONLINE, DeviceStatus, status_of
from workers.trust import total_of, trust_of

PAGE_SIZE = 50
#: health checks on the page of a device
CHECKS = 15
#: CSS modifier of the badge of each status
_BADGES = {
    DeviceStatus.RETIRED: "cancelled",
    DeviceStatus.DRAINED: "cancelled",
    DeviceStatus.NEVER_CONNECTED: "offline",
    DeviceStatus.OFFLINE: "offline",
    DeviceStatus.HELD: "failed",
    DeviceStatus.SHUT_OUT: "offline",
    DeviceStatus.BUSY: "running",
    DeviceStatus.FREE: "online",
}


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
    return render(request, "workers/list.html", _list_context(request))


@login_required
@require_safe
def rows(request: HttpRequest) -> HttpResponse:
    """Render only the rows of the list, for the page's automatic refresh."""
    return render(request, "workers/_rows.html", _list_context(request))


def _list_context(request: HttpRequest) -> dict[str, Any]:
    form = DeviceFilterForm(request.GET)
    visible = visible_workers(current_user(request))
    workers = form.filter(visible) if form.is_valid() else Worker.objects.none()
    page = Paginator(workers, PAGE_SIZE).get_page(request.GET.get("page"))
    behind = {worker.pk for worker in page if releases.is_behind(worker.agent_version)}
    return {
        "form": form,
        "page": page,
        "workers": page.object_list,
        "behind": behind,
        "query": urlencode({name: value for name, value in form.cleaned_data.items() if value}),
    }


@login_required
@require_safe
def worker_page(request: HttpRequest, name: str) -> HttpResponse:
    user = current_user(request)
    worker = _worker(user, name)
    load = loads_of([worker])[worker.pk]
    status = status_of(worker, is_busy=load.live > 0)
    checks = list(worker.health_checks.all()[:CHECKS])
    context = {
        "worker": worker,
        "load": load,
        "state": _state(status),
        "held": held_words(worker) if status == DeviceStatus.HELD else "",
        "is_behind": releases.is_behind(worker.agent_version),
        "served": releases.served_version(),
        "labels": labels_of(worker),
        "usage": usage_of(worker),
        "checks": [(check, wording_of(check.reason)) for check in checks],
        "may_check": user.is_staff and starts_checks(worker),
        "tasks": recent_tasks(worker, user),
        "speed": speed_view(speed_history(worker)),
        "trust": trust_of([worker])[worker.pk],
    }
    return render(request, "workers/detail.html", context)


@login_required
@require_safe
def trust(request: HttpRequest) -> HttpResponse:
    """Show how often verdicts are wrong, over all devices that the user may see."""
    workers = list(visible_workers(current_user(request)).prefetch_related(None))
    trusts = trust_of(workers)
    context = {
        "rows": [(worker, trusts[worker.pk]) for worker in workers],
        "total": total_of(trusts.values()),
    }
    return render(request, "workers/trust.html", context)


@login_required
@require_POST
def worker_check(request: HttpRequest, name: str) -> HttpResponse:
    """Request a health check, as an administrator; 404 for other users."""
    user = current_user(request)
    if not user.is_staff:
        raise Http404
    worker = _worker(user, name)
    request_health_checks(worker, by=user)
    messages.success(request, HEALTH_CHECK.words([worker.name]))
    return redirect("workers:detail", name=worker.name)


def _worker(user: User, name: str) -> Worker:
    """Return a worker by name. Raises Http404 if the user may not see it."""
    return get_object_or_404(visible_workers(user), name=name)


def _state(status: DeviceStatus) -> dict[str, Any]:
    """Return the kind and the text of a device's badge, and whether the device takes tasks."""
    takes_tasks = status in (DeviceStatus.BUSY, DeviceStatus.FREE)
    return {"kind": _BADGES[status], "words": status.label, "takes_tasks": takes_tasks}
