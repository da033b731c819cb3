"""The executed graph of a profile for the viewer, and the model that was uploaded with the task."""

import gzip
import hashlib
from typing import get_args

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from profiles import storage
from profiles.analysis.drawing.colours import METRICS, Metric, colouring
from profiles.analysis.drawing.document import netron_document, place_of_row
from profiles.derived.loading import profile_data
from profiles.models import Profile
from profiles.parsers.columns import Side
from profiles.parsers.model_start import START_BYTES, ModelForm, model_form
from profiles.views.access import profile_or_404
from tasks.models import TaskFile
from webprofile.errors import DomainError

#: raised when the document of an unchanged profile changes
FORMAT = 1


@login_required
@require_GET
def page(request: HttpRequest, profile_id: int) -> HttpResponse:
    """The graph on a page of its own, as large as the window."""
    return render(request, "profiles/graph.html", {"profile": profile_or_404(request, profile_id)})


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
    data = profile_data(profile)
    if op.isdecimal() and len(op) < 10:
        found = place_of_row(data, int(op))
        if found is None:
            raise DomainError("operator_not_drawn", status=404)
        scope = found
    metric: Metric = next((each for each in METRICS if each == colour), "time")
    chosen: Side = next((each for each in get_args(Side) if each == side), "device")
    if side == "" and not data.columns.device.present.any():
        chosen = "host"
    return netron_document(
        data, side=chosen, place=scope[:500], colours=colouring(data, metric, chosen)
    )


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
    profile = profile_or_404(request, profile_id)
    file = _model_of(profile)
    if file is None:
        return _refused(
            gettext("This profile was opened from a file, without a model to draw.")
            if profile.attempt_id is None
            else gettext("The uploaded model has been removed from the server.")
        )
    limit = settings.MODEL_VIEW_LIMIT_BYTES
    if file.size_bytes > limit:
        mib = limit // 1024**2
        return _refused(
            gettext("The model is larger than %(limit)s MiB, the most that a browser draws.")
            % {"limit": mib}
        )
    form = model_form(storage.read_start(file.object_key, size_bytes=START_BYTES))
    if form != "v2":
        return _refused(_why_not(form))
    address = storage.presign_get(file.object_key)
    return JsonResponse({"address": address, "name": file.name, "size_bytes": file.size_bytes})


def _model_of(profile: Profile) -> TaskFile | None:
    if profile.attempt is None:
        return None
    files = TaskFile.objects.filter(task=profile.attempt.task_id, kind=TaskFile.Kind.MODEL)
    return files.filter(stored_at__isnull=False, purged_at__isnull=True).first()


def _why_not(form: ModelForm) -> str:
    if form == "v1":
        return gettext(
            "The model is in the older format FBS, which the viewer cannot read. "
            'Dump it with dump_format="FBS_V2" to see it here.'
        )
    if form == "old":
        return gettext(
            "The model is in a very old format of MegEngine, which the viewer cannot read."
        )
    return gettext(
        "The model is packed, encrypted or no plain MegEngine file, so the viewer cannot read it."
    )


def _refused(reason: str) -> HttpResponse:
    return JsonResponse({"reason": reason})
