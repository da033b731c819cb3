"""Downloads: a profile in a format of `profiles.exports.formats`, and the files of attempts."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from profiles.exports.fields import FIELDS, GROUP_FIELDS, SOURCE_FIELDS
from profiles.exports.formats import export_response, original_response
from profiles.retention.deletion import refuse_removed
from profiles.views.common import profile_or_404, task_or_404
from tasks.models import Artifact
from tasks.selectors import last_attempt
from webprofile.storage import storage


@login_required
@require_safe
def export(request: HttpRequest, profile_id: int, name: str) -> HttpResponseBase:
    """Return the profile in one format; CSV and JSON hold the rows of the query string."""
    return export_response(request, profile_or_404(request, profile_id), name)


@login_required
@require_safe
def original(request: HttpRequest, profile_id: int, number: int) -> HttpResponse:
    """Redirect to storage for a file as MegEngine wrote it."""
    return original_response(profile_or_404(request, profile_id), number)


@login_required
@require_safe
def artifact(
    request: HttpRequest, task_id: int, name: str, number: int | None = None
) -> HttpResponse:
    """Redirect to storage for a file of an attempt, by default of the last one."""
    task = task_or_404(request, task_id)
    named = Artifact.objects.filter(attempt__task=task, name=name)
    if number is None:
        attempt = last_attempt(task)
        number = attempt.number if attempt else 0
    artifact = named.filter(attempt__number=number).first()
    refuse_removed(artifact)
    if artifact is None or not artifact.is_stored:
        raise Http404
    return redirect(storage.presign_get(artifact.object_key, filename=f"task-{task.pk}-{name}"))


@require_safe
def guide(request: HttpRequest) -> HttpResponse:
    """Show the guide: which profiler of MegEngine answers which question, and how to run it."""
    return render(request, "profiles/guide.html")


@require_safe
def about(request: HttpRequest) -> HttpResponse:
    """Describe the fields of the exported files."""
    context: dict[str, Any] = {
        "fields": FIELDS,
        "source_fields": SOURCE_FIELDS,
        "group_fields": [field.key for field in GROUP_FIELDS],
    }
    return render(request, "profiles/exports.html", context)
