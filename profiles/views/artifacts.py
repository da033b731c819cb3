"""The files that attempts left."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET

from profiles import storage
from profiles.models import Artifact
from profiles.rules import refuse_removed
from profiles.views.access import task_or_404
from tasks.selectors import last_attempt


@login_required
@require_GET
def artifact(
    request: HttpRequest, task_id: int, name: str, number: int | None = None
) -> HttpResponse:
    """Send the reader to storage for a file of an attempt, of the last one without a number."""
    task = task_or_404(request, task_id)
    named = Artifact.objects.filter(attempt__task=task, name=name)
    if number is None:
        attempt = last_attempt(task)
        number = attempt.number if attempt else 0
    found = named.filter(attempt__number=number).first()
    refuse_removed(found)
    if found is None or not found.is_stored:
        raise Http404
    return redirect(storage.presign_get(found.object_key, filename=f"task-{task.pk}-{name}"))
