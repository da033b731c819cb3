"""Memory of a dynamic graph: the table of tensors as a fragment, and the original picture."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from profiles.formats.memory_flow.presenter import read_flow_question, summary_of, tensors_view
from profiles.ingest.loading import run_data
from profiles.models import Profile
from profiles.presenters.memory_flow_file import IMAGE_LIMIT_BYTES, flow_file, is_shown
from profiles.views.access import profile_or_404
from profiles.views.addresses import page_of
from webprofile.storage import storage


@login_required
@require_GET
def tensors(request: HttpRequest, profile_id: int) -> HttpResponse:
    """Return the table of tensors, with which the page replaces its own."""
    profile = profile_or_404(request, profile_id)
    summary = summary_of(run_data(profile))
    if summary is None:
        raise Http404
    view = tensors_view(summary, read_flow_question(request.GET))
    context = {"memory_flow": view, "flow_page": page_of(profile)}
    return render(request, "profiles/_memory_flow_tensors.html", context)


@login_required
@require_GET
def image(request: HttpRequest, profile_id: int) -> HttpResponse:
    """Return the file for `<img>`, in which no script runs and no request is made.

    If a user opens the URL itself, the file is downloaded. If it were displayed as a page all the
    same, the page would have no origin and would run no script either.
    """
    profile = profile_or_404(request, profile_id)
    file = flow_file(profile)
    if file is None or not is_shown(file):
        raise Http404
    data = storage.read(file.key, limit_bytes=IMAGE_LIMIT_BYTES)
    response = HttpResponse(data, content_type="image/svg+xml")
    response["Content-Disposition"] = content_disposition_header(True, file.name) or "attachment"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'; style-src 'unsafe-inline'"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Cache-Control"] = "private, max-age=3600"
    return response


def original_of(profile: Profile) -> dict[str, Any] | None:
    """Return {"image", "download", "size_bytes"} with URLs of the file; None if it was deleted."""
    file = flow_file(profile)
    if file is None:
        return None
    image_of = reverse("profiles:memory-flow-image", args=[profile.pk])
    return {
        "image": image_of if is_shown(file) else "",
        "download": reverse("profiles:original", args=[profile.pk, file.number]),
        "size_bytes": file.size_bytes,
    }
