"""A trace on the timeline of Perfetto: the page around the viewer, and the cuts that it draws."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from profiles.derived.cuts import trace_cut
from profiles.models import Profile
from profiles.perfetto import perfetto_address
from profiles.provenance import title_of
from profiles.shown.packed_answer import packed_json
from profiles.shown.trace_file import is_trace, trace_file_view, trace_original
from profiles.shown.trace_timeline import read_range, timeline_view
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
        "overview": timeline_view(profile),
        "number": found.number if (found := trace_original(profile)) else 1,
    }
    return render(request, "profiles/timeline.html", context)


@login_required
@require_GET
def file(request: HttpRequest, profile_id: int) -> HttpResponse:
    """Where the browser gets the trace, or why the viewer does not open it."""
    response = JsonResponse(trace_file_view(_trace_or_404(request, profile_id)))
    response["Cache-Control"] = "private, no-store"
    return response


@login_required
@require_GET
def cut(request: HttpRequest, profile_id: int) -> HttpResponse:
    """A part of the trace, as a trace; the header says how many spans and counters it has."""
    data, events = trace_cut(_trace_or_404(request, profile_id), read_range(request.GET))
    response = packed_json(request, data)
    response["X-Trace-Events"] = str(events)
    return response


def _trace_or_404(request: HttpRequest, profile_id: int) -> Profile:
    profile = profile_or_404(request, profile_id)
    if not is_trace(profile):
        raise Http404
    return profile
