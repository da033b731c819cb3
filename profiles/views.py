"""The result of a task: totals, the operator table, and the raw files."""

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from accounts.selectors import reader_of
from profiles import storage
from profiles.analysis.table import table
from profiles.analysis.text import profile_text
from profiles.models import ARTIFACT_NAMES, Profile
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.npz import from_npz
from profiles.selectors import profile_of
from tasks.models import Task
from tasks.selectors import last_attempt, tasks_visible_to
from webprofile.errors import DomainError

#: what the page offers; the address takes any number up to the last
ROW_CHOICES = (10, 25, 50, 100, 1000)
DEFAULT_ROWS = 10


@login_required
@require_GET
def result(request: HttpRequest, task_id: int) -> HttpResponse:
    task = _task(request, task_id)
    profile = profile_of(task)
    if profile is None:
        return redirect("tasks:detail", task.pk)
    columns = _columns(profile)
    rows = _rows(request)
    context: dict[str, Any] = {
        "task": task,
        "profile": profile,
        "attempt": profile.attempt,
        "artifacts": list(profile.attempt.artifacts.all()),
        "rows": rows,
        "row_choices": ROW_CHOICES,
        "tables": [
            {"side": side, "table": table(columns, side=side, top=rows)}
            for side in ("device", "host")
        ],
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
def artifact(request: HttpRequest, task_id: int, name: str) -> HttpResponse:
    """Send the reader to storage for a raw file of the last attempt."""
    task = _task(request, task_id)
    attempt = last_attempt(task)
    found = attempt.artifacts.filter(name=name).first() if attempt else None
    if found is None or name not in ARTIFACT_NAMES:
        raise Http404
    return redirect(storage.presign_get(found.object_key, filename=f"task-{task.pk}-{name}"))


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
