"""Memory of a dynamic graph: the table of tensors as a fragment, and the original picture."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from profiles.exports.originals import Original, originals_of
from profiles.formats.memory_flow.presenter import read_flow_query, summary_of, tensors_view
from profiles.ingest.loading import run_data
from profiles.models import Profile
from profiles.views.common import page_of, profile_or_404
from webprofile.storage import storage

#: largest picture on a page: browsers draw all of it at once, and MegEngine's exceed any window
IMAGE_LIMIT_BYTES = 8 * 1024**2


@login_required
@require_GET
def tensors(request: HttpRequest, profile_id: int) -> HttpResponse:
    """Return the table of tensors, with which the page replaces its own."""
    profile = profile_or_404(request, profile_id)
    summary = summary_of(run_data(profile))
    if summary is None:
        raise Http404
    view = tensors_view(summary, read_flow_query(request.GET))
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
    file = _flow_file(profile)
    if file is None or not _is_small_enough(file):
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
    file = _flow_file(profile)
    if file is None:
        return None
    image_of = reverse("profiles:memory-flow-image", args=[profile.pk])
    return {
        "image": image_of if _is_small_enough(file) else "",
        "download": reverse("profiles:original", args=[profile.pk, file.number]),
        "size_bytes": file.size_bytes,
    }


def _flow_file(profile: Profile) -> Original | None:
    """Return the original `memory_flow.svg` of a run; None if it was deleted."""
    return next(
        (original for original in originals_of(profile) if original.kind == "memory_flow"), None
    )


def _is_small_enough(file: Original) -> bool:
    """Whether the file is small enough for a page."""
    return file.size_bytes <= IMAGE_LIMIT_BYTES
