"""Memory of a dynamic graph: the table of tensors alone, and the file itself."""

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
    """The table of tensors alone, which the page puts in place of the one it has."""
    profile = profile_or_404(request, profile_id)
    summary = summary_of(run_data(profile))
    if summary is None:
        raise Http404
    found = tensors_view(summary, read_flow_question(request.GET))
    context = {"memory_flow": found, "flow_page": page_of(profile)}
    return render(request, "profiles/_memory_flow_tensors.html", context)


@login_required
@require_GET
def image(request: HttpRequest, profile_id: int) -> HttpResponse:
    """The file for `<img>`, in which no script runs and nothing is fetched.

    Whoever opens the address itself gets a file to save; and were it opened as a page all the
    same, it would be one without an origin, in which nothing runs either.
    """
    profile = profile_or_404(request, profile_id)
    found = flow_file(profile)
    if found is None or not is_shown(found):
        raise Http404
    data = storage.read(found.key, limit_bytes=IMAGE_LIMIT_BYTES)
    response = HttpResponse(data, content_type="image/svg+xml")
    response["Content-Disposition"] = content_disposition_header(True, found.name) or "attachment"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'; style-src 'unsafe-inline'"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Cache-Control"] = "private, max-age=3600"
    return response


def original_of(profile: Profile) -> dict[str, Any] | None:
    """Where the file is for the page: {"image", "download", "size_bytes"}; None if it is gone."""
    found = flow_file(profile)
    if found is None:
        return None
    image_of = reverse("profiles:memory-flow-image", args=[profile.pk])
    return {
        "image": image_of if is_shown(found) else "",
        "download": reverse("profiles:original", args=[profile.pk, found.number]),
        "size_bytes": found.size_bytes,
    }
