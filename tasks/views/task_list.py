"""The list of tasks, and the forms on it. Without JavaScript it does the same."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from accounts.selectors import reader_of
from tasks.lifecycle.cancel import MOST_IDS
from tasks.lifecycle.script_reasons import wording_for
from tasks.models import SavedView
from tasks.pagination import MOST_COUNTED, page_of
from tasks.saved_views import save_task_view
from tasks.selectors import listed_tasks
from tasks.views.bulk_actions import Act, act_on, chosen_tasks, compare_address, tell
from tasks.views.list_filters import TaskFilterForm, place_of
from workers.models import Runtime
from workers.selectors import visible_workers

#: names that a field offers while one types
MOST_OFFERED = 200


@login_required
@require_safe
def task_list(request: HttpRequest) -> HttpResponse:
    return render(request, "tasks/list.html", _page_context(request) | _frame_context(request))


@login_required
@require_safe
@never_cache
def rows(request: HttpRequest) -> HttpResponse:
    """The list's body alone, which the page fetches when a task changed."""
    return render(request, "tasks/_rows.html", _page_context(request))


@login_required
@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """Cancel, repeat, delete or compare the selected tasks, or cancel all of one's own that wait.

    What cannot be undone is asked about first, on a page of its own.
    """
    reader = reader_of(request)
    try:
        chosen = Act(request.POST.get("act", ""))
    except ValueError as error:
        raise Http404 from error
    found = chosen_tasks(reader, chosen, request.POST.getlist("task"))
    back = _list_address(request.POST.get("query", ""), request)
    if chosen is Act.COMPARE:
        address = compare_address(found)
        if not address:
            messages.warning(request, _("Select two to eight tasks that have a result."))
        return redirect(address or back)
    if found.tasks and chosen.is_final and not request.POST.get("sure"):
        context = {
            "act": chosen,
            "tasks": found.tasks,
            "query": request.POST.get("query", ""),
            "is_cut": len(found.tasks) == MOST_IDS,
            "back": back,
            # this page answers a form: the language switch cannot come back to it
            "language_next": back,
        }
        return render(request, "tasks/sure.html", context)
    tell(request, chosen, act_on(chosen, found, by=reader))
    return redirect(back)


@login_required
@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    """Keep the list's filters under a name; says so of one that was there before."""
    form = TaskFilterForm(QueryDict(request.POST.get("query", "")), reader=reader_of(request))
    query = form.query if form.is_valid() else ""
    view, before = save_task_view(
        reader_of(request), name=request.POST.get("name", ""), query=query
    )
    if before == query:
        text = _("The saved view “%(name)s” has these filters already.")
    elif before:
        text = _("The saved view “%(name)s” was replaced: it has these filters now.")
    else:
        text = _("The filters were saved as “%(name)s”.")
    messages.success(request, text % {"name": view.name})
    return redirect(f"{reverse('tasks:list')}?{query}")


@login_required
@require_POST
def delete_view(request: HttpRequest, view_id: int) -> HttpResponse:
    view = SavedView.objects.filter(owner=reader_of(request), pk=view_id).first()
    if view is None:
        raise Http404
    view.delete()
    return redirect("tasks:list")


def _page_context(request: HttpRequest) -> dict[str, Any]:
    reader = reader_of(request)
    form = TaskFilterForm(request.GET, reader=reader)
    if not form.is_valid():
        return {"form": form, "tasks": [], "is_filtered": True}
    page = page_of(listed_tasks(reader), form.wanted(), place_of(request.GET))
    return {
        "form": form,
        "page": page,
        "tasks": page.tasks,
        "rows": [(task, wording_for(task)) for task in page.tasks],
        "query": form.query,
        "is_filtered": bool(form.query),
        "count": _count(page.count),
    }


def _frame_context(request: HttpRequest) -> dict[str, Any]:
    """What stands around the rows, and is not fetched again with them."""
    reader = reader_of(request)
    visible = visible_workers(reader).prefetch_related(None)
    there = Runtime.objects.filter(worker__in=visible.order_by().values("pk"))
    versions = there.order_by("-version").values_list("version", flat=True).distinct()
    return {
        "views": list(SavedView.objects.filter(owner=reader)),
        "devices": list(visible.values_list("name", flat=True)[:MOST_OFFERED]),
        "versions": list(versions[:MOST_OFFERED]),
        "here": request.GET.urlencode(),
    }


def _count(count: int | None) -> str:
    if count is None:
        return ""
    return f"{MOST_COUNTED:,}+" if count > MOST_COUNTED else f"{count:,}"


def _list_address(query: str, request: HttpRequest) -> str:
    """The list as it was; of a query that somebody made up, what is a filter or a place."""
    params = QueryDict(query[:4000])
    form = TaskFilterForm(params, reader=reader_of(request))
    kept = QueryDict(form.query if form.is_valid() else "", mutable=True)
    place = place_of(params)
    if place.number:
        kept["after" if place.newer else "before"] = str(place.number)
    return f"{reverse('tasks:list')}?{kept.urlencode()}" if kept else reverse("tasks:list")
