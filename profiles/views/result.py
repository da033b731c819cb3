"""The result of a task, or of a profile that was opened: totals, operators, pictures, graph."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from agent.protocol.artifacts import LOG_NAME, MANIFEST_NAME, MEASUREMENT_NAME, PROFILE_NAME
from profiles.analysis.table import table
from profiles.analysis.text import profile_text
from profiles.loading import profile_data
from profiles.parsers.columns import Side
from profiles.selectors import measurement_of, measurement_view, plan_title, profile_of
from profiles.views.access import profile_or_404, task_or_404
from webprofile.errors import DomainError

#: what the page offers; the address takes any number up to the last
ROW_CHOICES = (10, 25, 50, 100, 1000)
DEFAULT_ROWS = 10
#: the files that the result page itself links to; the task's page has all of them
FIRST_FILES = (PROFILE_NAME, LOG_NAME, MEASUREMENT_NAME, MANIFEST_NAME)
SIDES: tuple[Side, ...] = ("device", "host")


@login_required
@require_GET
def result(request: HttpRequest, task_id: int) -> HttpResponse:
    task = task_or_404(request, task_id)
    profile, measurement = profile_of(task), measurement_of(task)
    found = profile or measurement
    if found is None:
        return redirect("tasks:detail", task.pk)
    columns = profile_data(profile).columns if profile else None
    rows = _rows(request)
    context: dict[str, Any] = {
        "task": task,
        "profile": profile,
        "measured": measurement_view(measurement),
        "plan": plan_title(task),
        "attempt": found.attempt,
        "artifacts": list(
            found.attempt.artifacts.filter(is_stored=True, name__in=FIRST_FILES).order_by("pk")
        ),
        "rows": rows,
        "row_choices": ROW_CHOICES,
        "tables": [{"side": side, "table": table(columns, side=side, top=rows)} for side in SIDES]
        if columns
        else [],
    }
    return render(request, "profiles/result.html", context)


@login_required
@require_GET
def detail(request: HttpRequest, profile_id: int) -> HttpResponse:
    """The page of a profile that was opened; one of a task stands on its task's page."""
    profile = profile_or_404(request, profile_id)
    if profile.attempt is not None:
        return redirect("tasks:result", profile.attempt.task_id)
    raise DomainError("not_finished", status=404)


@login_required
@require_GET
def result_text(request: HttpRequest, task_id: int) -> HttpResponse:
    """The same tables as text, letter for letter what profile_analyze prints."""
    profile = profile_of(task_or_404(request, task_id))
    if profile is None:
        raise DomainError("not_finished", status=404)
    text = profile_text(profile_data(profile).columns, top=_rows(request), show_host=True)
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


def _rows(request: HttpRequest) -> int:
    """The number of rows asked for, within reason."""
    try:
        wanted = int(request.GET.get("rows", DEFAULT_ROWS))
    except ValueError:
        return DEFAULT_ROWS
    return min(max(wanted, 1), ROW_CHOICES[-1])
