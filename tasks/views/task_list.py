"""The page of the task list with its bulk actions and saved views; works without JavaScript."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.selectors import current_user
from profiles.presenters.paired import VerdictView, verdict_views
from profiles.task_figures import TaskFigures, figures_of
from tasks.baselines import pin_baseline, unpin_baseline
from tasks.lifecycle.reasons import wording_for
from tasks.models import SavedView, Task
from tasks.pagination import MOST_COUNTED, page_of, status_counts
from tasks.selectors import listed_tasks, visible_tasks
from tasks.states import Status
from tasks.views.bulk_actions import (
    MOST_IDS,
    BulkAction,
    comparison_url,
    run_bulk_action,
    selected_tasks,
)
from tasks.views.list_filters import TaskFilterForm, cursor_of, save_task_view
from workers.models import Runtime
from workers.selectors import visible_workers

#: how many names a field's datalist offers
MOST_OFFERED = 200


@login_required
@require_safe
def task_list(request: HttpRequest) -> HttpResponse:
    return render(request, "tasks/list.html", _page_context(request) | _frame_context(request))


@login_required
@require_safe
def rows(request: HttpRequest) -> HttpResponse:
    """Render the parts of the list that the page fetches when a task or a filter has changed."""
    return render(request, "tasks/_list_parts.html", _page_context(request))


@login_required
@require_POST
def bulk_action(request: HttpRequest) -> HttpResponse:
    """Cancel, repeat, delete or compare the selected tasks, or cancel all own waiting tasks.

    Irreversible actions are confirmed on a separate page first.
    """
    try:
        action = BulkAction(request.POST.get("act", ""))
    except ValueError as error:
        raise Http404 from error
    tasks, unknown = selected_tasks(current_user(request), action, request.POST.getlist("task"))
    back = _list_url(request.POST.get("query", ""), request)
    if action is BulkAction.COMPARE:
        url = comparison_url(tasks)
        if not url:
            messages.warning(request, _("Select two to eight tasks that have a result."))
        return redirect(url or back)
    if tasks and action.is_final and not request.POST.get("sure"):
        context = {
            "action": action,
            "tasks": tasks,
            "query": request.POST.get("query", ""),
            "is_cut": len(tasks) == MOST_IDS,
            "back": back,
            # the language switch cannot return to this page, which is the response to a POST
            "language_next": back,
        }
        return render(request, "tasks/confirm.html", context)
    run_bulk_action(request, action, tasks, unknown)
    return redirect(back)


@login_required
@require_POST
def pin(request: HttpRequest, task_id: int) -> HttpResponse:
    """Pin a task as the baseline of its model and device (`pin`: yes), or unpin it.

    `query` holds the filters of the list if the request comes from there.
    """
    task = get_object_or_404(visible_tasks(current_user(request)), pk=task_id)
    change = pin_baseline if request.POST.get("pin") == "yes" else unpin_baseline
    change(task, by=current_user(request))
    if "query" not in request.POST:
        return redirect("tasks:detail", task.pk)
    return redirect(f"{_list_url(request.POST['query'], request)}#task-{task.pk}")


@login_required
@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    """Save the list's filters under a name, replacing an existing view of this name."""
    view, before = save_task_view(
        current_user(request),
        name=request.POST.get("name", ""),
        query=request.POST.get("query", ""),
    )
    if before == view.query:
        text = _("The saved view “%(name)s” already has these filters.")
    elif before:
        text = _("The saved view “%(name)s” has been replaced with these filters.")
    else:
        text = _("The filters were saved as “%(name)s”.")
    messages.success(request, text % {"name": view.name})
    return redirect(f"{reverse('tasks:list')}?{view.query}")


@login_required
@require_POST
def delete_view(request: HttpRequest, view_id: int) -> HttpResponse:
    get_object_or_404(SavedView, owner=current_user(request), pk=view_id).delete()
    return redirect("tasks:list")


def _page_context(request: HttpRequest) -> dict[str, Any]:
    user = current_user(request)
    form = TaskFilterForm(request.GET, reader=user)
    views = list(SavedView.objects.filter(owner=user))
    if not form.is_valid():
        return {"form": form, "views": views, "tabs": _tabs(None, {}), "is_filtered": True}
    tasks, query = listed_tasks(user), form.task_query()
    page = page_of(tasks, query, cursor_of(request.GET))
    is_all = not form.cleaned_data["status"]
    counts = status_counts(tasks, form.task_query(any_status=True), page.count if is_all else None)
    return {
        "form": form,
        "views": views,
        "tabs": _tabs(form, counts, is_saved=form.query in {view.query for view in views}),
        "page": page,
        "tasks": page.tasks,
        "groups": _groups(page.tasks, form.cleaned_data["group"]),
        "query": form.query,
        "is_filtered": form.is_filtered,
        "count": _count(page.count),
    }


def _tabs(
    form: TaskFilterForm | None, counts: Mapping[str, int], *, is_saved: bool = False
) -> list[dict[str, Any]]:
    """Return the tabs, which keep the other filters.

    form: None if the filters are invalid
    is_saved: whether a saved view has these filters, which is then the current one
    """
    titles = {
        "": _("All"),
        Status.WAITING: _("Waiting"),
        Status.RUNNING: _("Running"),
        Status.FAILED: _("Failed"),
    }
    chosen = "&".join(form.cleaned_data["status"]) if form and not is_saved else None
    return [
        {
            "title": title,
            "query": form.query_with(status) if form else status and f"status={status}",
            "count": _count(counts.get(status)),
            "is_current": status == chosen,
        }
        for status, title in titles.items()
    ]


def _groups(tasks: Sequence[Task], group: str) -> list[dict[str, Any]]:
    """Return the rows of a page, in one group or grouped by model, the newest group first."""
    figures = figures_of(tasks)
    groups: dict[str, list[tuple[Task, Any, TaskFigures, list[VerdictView]]]] = {}
    for task in tasks:
        rows = groups.setdefault(task.model_name if group else "", [])
        known = figures[task.pk]
        rows.append((task, wording_for(task), known, verdict_views(known.verdicts, task)))
    return [{"model": model, "rows": rows} for model, rows in groups.items()]


def _frame_context(request: HttpRequest) -> dict[str, Any]:
    """Return the context of the page around the rows."""
    user = current_user(request)
    visible = visible_workers(user).prefetch_related(None)
    runtimes = Runtime.objects.filter(worker__in=visible.order_by().values("pk"))
    versions = runtimes.order_by("-version").values_list("version", flat=True).distinct()
    return {
        "devices": list(visible.values_list("name", flat=True)[:MOST_OFFERED]),
        "versions": list(versions[:MOST_OFFERED]),
        "here": request.GET.urlencode(),
    }


def _count(count: int | None) -> str:
    if count is None:
        return ""
    return f"{MOST_COUNTED:,}+" if count > MOST_COUNTED else f"{count:,}"


def _list_url(query: str, request: HttpRequest) -> str:
    """Return the URL of the list with the valid filters and the page start of a query string."""
    params = QueryDict(query[:4000])
    form = TaskFilterForm(params, reader=current_user(request))
    valid = QueryDict(form.query if form.is_valid() else "", mutable=True)
    start = cursor_of(params)
    if start.number:
        valid["after" if start.newer else "before"] = str(start.number)
    return f"{reverse('tasks:list')}?{valid.urlencode()}" if valid else reverse("tasks:list")
