"""The executed graph of a profile for the viewer, and the model that was uploaded with the task."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from profiles.shown.graph_view import task_model_view
from profiles.views.access import profile_or_404, task_or_404


@login_required
@require_GET
def page(request: HttpRequest, profile_id: int) -> HttpResponse:
    """The graph on a page of its own, as large as the window."""
    return render(request, "profiles/graph.html", {"profile": profile_or_404(request, profile_id)})


@login_required
@require_GET
@never_cache
def task_model(request: HttpRequest, task_id: int) -> HttpResponse:
    """The model of a task in the viewer, whatever the task's state.

    The task's page takes the part `#model-graph` from here when its reader opens the preview.
    """
    task = task_or_404(request, task_id)
    context = {"task": task, "model": task_model_view(task)}
    return render(request, "tasks/model.html", context)
