"""A profile as a file: in a format of `profiles.exports.formats`, or as it was uploaded."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_GET

from profiles.exports.fields import FIELDS, GROUP_FIELDS, SOURCE_FIELDS
from profiles.exports.formats import FORMATS, exported
from profiles.exports.originals import originals_of
from profiles.exports.provenance import file_name, provenance
from profiles.ingest.loading import profile_data
from profiles.views.access import profile_or_404
from webprofile.errors import DomainError
from webprofile.storage import storage
from webprofile.streaming import answer_of


@login_required
@require_GET
def export(request: HttpRequest, profile_id: int, name: str) -> HttpResponseBase:
    """The profile in one format. CSV and JSON hold what the address asks the table for."""
    profile = profile_or_404(request, profile_id)
    wanted = FORMATS.get(name)
    if wanted is None:
        raise DomainError("export_unknown", status=404)
    data = profile_data(profile)
    content = wanted.make(exported(request.GET, data, provenance(profile), profile))
    response = answer_of(request, content, wanted.content_type)
    # never shown in this site's name, whatever is in it
    given = file_name(profile, wanted.ending)
    response["Content-Disposition"] = content_disposition_header(True, given) or "attachment"
    response["Cache-Control"] = "private, no-store"
    return response


@login_required
@require_GET
def original(request: HttpRequest, profile_id: int, number: int) -> HttpResponse:
    """Send the reader to storage for a file as MegEngine wrote it."""
    profile = profile_or_404(request, profile_id)
    found = [each for each in originals_of(profile) if each.number == number]
    if not found:
        raise Http404
    name = file_name(profile, found[0].ending)
    return redirect(storage.presign_get(found[0].key, filename=name))


@require_GET
def guide(request: HttpRequest) -> HttpResponse:
    """From code to profile: which profiler of MegEngine answers which question, and how."""
    return render(request, "profiles/guide.html")


@require_GET
def about(request: HttpRequest) -> HttpResponse:
    """What the files hold, field by field."""
    context: dict[str, Any] = {
        "fields": FIELDS,
        "source_fields": SOURCE_FIELDS,
        "group_fields": [field.key for field in GROUP_FIELDS],
    }
    return render(request, "profiles/exports.html", context)
