"""A trace on the timeline of Perfetto: the page around the viewer."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from profiles.models import Profile
from profiles.perfetto import perfetto_address
from profiles.provenance import title_of
from profiles.shown.trace_file import is_trace, trace_file_view
from profiles.views.access import profile_or_404
from profiles.views.addresses import page_of


@login_required
@require_GET
def page(request: HttpRequest, profile_id: int) -> HttpResponse:
    """All of a trace, as large as the window."""
    profile = _trace_or_404(request, profile_id)
    context = {
        "profile": profile,
        "name": title_of(profile),
        "result": page_of(profile),
        "viewer": perfetto_address(),
    }
    return render(request, "profiles/timeline.html", context)


@login_required
@require_GET
def file(request: HttpRequest, profile_id: int) -> HttpResponse:
    """Where the browser gets the trace, or why the viewer does not open it."""
    response = JsonResponse(trace_file_view(_trace_or_404(request, profile_id)))
    response["Cache-Control"] = "private, no-store"
    return response


def _trace_or_404(request: HttpRequest, profile_id: int) -> Profile:
    profile = profile_or_404(request, profile_id)
    if not is_trace(profile):
        raise Http404
    return profile
