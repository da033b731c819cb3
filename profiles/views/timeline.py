"""A trace on the timeline of Perfetto: the page around the viewer."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from profiles.perfetto import perfetto_address
from profiles.provenance import title_of
from profiles.shown.trace_file import is_trace, trace_file_view, trace_original
from profiles.shown.trace_timeline import timeline_view
from profiles.views.access import profile_or_404
from profiles.views.addresses import page_of


@login_required
@require_GET
def page(request: HttpRequest, profile_id: int) -> HttpResponse:
    """All of a trace, as large as the window."""
    profile = profile_or_404(request, profile_id)
    if not is_trace(profile):
        raise Http404
    context = {
        "profile": profile,
        "name": title_of(profile),
        "result": page_of(profile),
        "viewer": perfetto_address(),
        "overview": timeline_view(profile),
        "file": trace_file_view(profile),
        "number": found.number if (found := trace_original(profile)) else 1,
    }
    return render(request, "profiles/timeline.html", context)
