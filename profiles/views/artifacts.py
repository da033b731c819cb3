"""Download the files that attempts produced."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_GET, require_POST

from accounts.selectors import current_user
from profiles.imports.local_files import import_attempt
from profiles.retention.deletion import refuse_removed
from profiles.views.access import task_or_404
from tasks.models import Artifact
from tasks.selectors import last_attempt
from webprofile.storage import storage


@login_required
@require_GET
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


@login_required
@require_POST
def attempt_open_profile(request: HttpRequest, task_id: int, number: int) -> HttpResponse:
    """Import the recordings of an attempt without a result as a profile of the user."""
    attempt = get_object_or_404(task_or_404(request, task_id).attempts, number=number)
    return redirect(
        "profiles:opened", import_attempt(attempt, owner=current_user(request)).upload.pk
    )
