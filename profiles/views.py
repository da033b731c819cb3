"""The result of a task: totals, the operator table, and the raw files."""

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from accounts.selectors import reader_of
from agent.protocol.artifacts import LOG_NAME, MANIFEST_NAME, MEASUREMENT_NAME, PROFILE_NAME
from profiles import storage
from profiles.analysis.table import table
from profiles.analysis.text import profile_text
from profiles.comparing import dumps_compare
from profiles.models import Artifact, Profile
from profiles.parsers.columns import ProfileColumns, Side
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.npz import from_npz
from profiles.selectors import (
    dump_of,
    dumps_beside,
    measurement_of,
    measurement_view,
    plan_title,
    profile_of,
)
from tasks.models import Task
from tasks.selectors import last_attempt, tasks_visible_to
from webprofile.errors import DomainError

#: what the page offers; the address takes any number up to the last
ROW_CHOICES = (10, 25, 50, 100, 1000)
DEFAULT_ROWS = 10
#: the files that the result page itself links to; the task's page has all of them
FIRST_FILES = (PROFILE_NAME, LOG_NAME, MEASUREMENT_NAME, MANIFEST_NAME)
COMPARE_ROWS = 200
SIDES: tuple[Side, ...] = ("device", "host")


@login_required
@require_GET
def result(request: HttpRequest, task_id: int) -> HttpResponse:
    task = _task(request, task_id)
    profile, measurement = profile_of(task), measurement_of(task)
    found = profile or measurement
    if found is None:
        return redirect("tasks:detail", task.pk)
    columns = _columns(profile) if profile else None
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
def result_text(request: HttpRequest, task_id: int) -> HttpResponse:
    """The same tables as text, letter for letter what profile_analyze prints."""
    profile = profile_of(_task(request, task_id))
    if profile is None:
        raise DomainError("not_finished", status=404)
    text = profile_text(_columns(profile), top=_rows(request), show_host=True)
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@login_required
@require_GET
def artifact(
    request: HttpRequest, task_id: int, name: str, number: int | None = None
) -> HttpResponse:
    """Send the reader to storage for a file of an attempt, of the last one without a number."""
    task = _task(request, task_id)
    stored = Artifact.objects.filter(attempt__task=task, name=name, is_stored=True)
    if number is None:
        attempt = last_attempt(task)
        number = attempt.number if attempt else 0
    found = stored.filter(attempt__number=number).first()
    if found is None:
        raise Http404
    return redirect(storage.presign_get(found.object_key, filename=f"task-{task.pk}-{name}"))


@login_required
@require_GET
def compare_choose(request: HttpRequest, task_id: int) -> HttpResponse:
    """`?other=N` leads to the comparison; the form of a task's page comes here."""
    task = _task(request, task_id)
    try:
        other = _task(request, int(request.GET.get("other", "")))
    except ValueError:
        raise Http404 from None
    return redirect("tasks:compare-io", task.pk, other.pk)


@login_required
@require_GET
def compare_io(request: HttpRequest, task_id: int, other_id: int) -> HttpResponse:
    """The values of all variables of two tasks, side by side, in order of execution."""
    task, other = _task(request, task_id), _task(request, other_id)
    dumps = [dump_of(each) for each in (task, other)]
    if dumps[0] is None or dumps[1] is None:
        number = task.pk if dumps[0] is None else other.pk
        raise DomainError("dump_missing", status=404, task=number)
    comparison = dumps_compare(dumps[0], dumps[1])
    only = "differing" in request.GET
    rows = [row for row in comparison.rows if row["status"] != "equal" or not only]
    first = next((n for n, row in enumerate(rows) if row["is_first"]), None)
    context = {
        "task": task,
        "other": other,
        # it may be beyond the rows that are kept
        "first_page": None if first is None else first // COMPARE_ROWS + 1,
        "others": dumps_beside(task, reader_of(request)),
        "comparison": comparison,
        "only_differing": only,
        "page": Paginator(rows, COMPARE_ROWS).get_page(request.GET.get("page")),
    }
    return render(request, "profiles/compare_io.html", context)


def _task(request: HttpRequest, task_id: int) -> Task:
    task = tasks_visible_to(reader_of(request)).filter(pk=task_id).first()
    if task is None:
        raise Http404
    return task


def _columns(profile: Profile) -> ProfileColumns:
    data = storage.read(profile.columns_key, limit_bytes=settings.PROFILE_SIZE_LIMIT_BYTES)
    try:
        return from_npz(data)
    except ProfileFormatError as error:
        raise DomainError("profile_damaged", status=500) from error


def _rows(request: HttpRequest) -> int:
    """The number of rows asked for, within reason."""
    try:
        wanted = int(request.GET.get("rows", DEFAULT_ROWS))
    except ValueError:
        return DEFAULT_ROWS
    return min(max(wanted, 1), ROW_CHOICES[-1])
