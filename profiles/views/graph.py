"""The executed graph of a profile for the viewer, and the model that was uploaded with the task."""

import gzip
import hashlib
from typing import get_args

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from profiles.analysis.drawing.colours import METRICS, Metric
from profiles.models import Profile
from profiles.parsers.columns import Side
from profiles.shown.graph_view import graph_document, model_view, task_model_view
from profiles.views.access import profile_or_404, task_or_404
from webprofile.integers import LARGEST_COUNT, parse_int

#: raised when the document of an unchanged profile changes
FORMAT = 1


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


@login_required
@require_GET
def document(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """One view of the graph: `?scope=`, or the one that shows row `?op=` of the table.

    `?colour=` is one of `METRICS`, `?side=` device or host. 404 if no view shows the row.
    """
    profile = profile_or_404(request, profile_id)
    question = [request.GET.get(name, "") for name in ("scope", "op", "colour", "side")]
    stamp = f"{FORMAT}-{profile.pk}-{profile.built_at.timestamp()}-{question}"
    etag = quote_etag(hashlib.sha256(stamp.encode(errors="replace")).hexdigest()[:32])
    response = get_conditional_response(request, etag=etag)
    if response is None:
        response = _packed(request, _built(profile, *question))
        response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    return response


def _built(profile: Profile, scope: str, op: str, colour: str, side: str) -> bytes:
    metric: Metric = next((each for each in METRICS if each == colour), "time")
    usual: Side | None = None if side == "" else "device"
    chosen = next((each for each in get_args(Side) if each == side), usual)
    row = parse_int(op, maximum=LARGEST_COUNT)
    return graph_document(profile, scope=scope, row=row, colour=metric, side=chosen)


def _packed(request: HttpRequest, body: bytes) -> HttpResponse:
    """The document, compressed where the browser takes that: it shrinks to a tenth."""
    if "gzip" not in request.headers.get("Accept-Encoding", ""):
        return HttpResponse(body, content_type="application/json")
    response = HttpResponse(gzip.compress(body, 1), content_type="application/json")
    response["Content-Encoding"] = "gzip"
    response["Vary"] = "Accept-Encoding"
    return response


@login_required
@require_GET
def model(request: HttpRequest, profile_id: int) -> HttpResponse:
    """Where the browser gets the uploaded model, or why the viewer does not open it."""
    return JsonResponse(model_view(profile_or_404(request, profile_id)))
