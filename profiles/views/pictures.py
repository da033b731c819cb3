"""What the pictures of a profile are drawn from, as JSON; the browser draws them."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

import msgspec
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.utils.translation import get_language
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_GET

from profiles.analysis.data import ProfileData
from profiles.derived.loading import profile_data, run_data
from profiles.models import Profile
from profiles.shown import picture_data
from profiles.shown.roofs import roofs_of
from profiles.shown.static_memory_view import KIND as STATIC_MEMORY
from profiles.shown.static_memory_view import static_memory_data
from profiles.views.access import profile_or_404
from webprofile.errors import DomainError

#: raised when the JSON of an unchanged profile changes
FORMAT = 2
Build = Callable[[ProfileData], dict[str, Any]]


@login_required
@require_GET
@gzip_page
def operators(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """Names, types and times of all operators, which all pictures share."""
    return _answer(request, profile_id, picture_data.operators_data)


@login_required
@require_GET
@gzip_page
def timeline(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """Bars of `?from=&to=`, µs from the timeline's beginning; without these of all of it."""
    window = _window(request)
    return _answer(
        request, profile_id, lambda data: picture_data.timeline_data(data, window), str(window)
    )


@login_required
@require_GET
@gzip_page
def types(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """Time by operator type."""
    return _answer(request, profile_id, picture_data.types_data)


@login_required
@require_GET
@gzip_page
def scopes(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """Time by scope of names, as a tree whose leaves are operators."""
    return _answer(request, profile_id, picture_data.scopes_data)


@login_required
@require_GET
@gzip_page
def roofline(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """FLOP/s against FLOP/byte."""
    profile = profile_or_404(request, profile_id)
    measured = [roofs_of(profile, on_gpu=on_gpu) for on_gpu in (False, True)]
    return _answer(
        request,
        profile_id,
        lambda data: picture_data.roofline_data(data, measured[bool(data.on_gpu.any())]),
        repr(measured),
    )


@login_required
@require_GET
@gzip_page
def memory(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """Bytes taken over the order of execution on `?device=`, by default that with most."""
    device = request.GET.get("device", "")[:100]
    return _answer(
        request, profile_id, lambda data: picture_data.memory_data(data, device), repr(device)
    )


@login_required
@require_GET
@gzip_page
def cumulative(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """The running share of the slowest operators."""
    return _answer(request, profile_id, picture_data.cumulative_data)


@login_required
@require_GET
@gzip_page
def static_memory(request: HttpRequest, profile_id: int) -> HttpResponseBase:
    """Addresses and lives of the tensors of a memory plan; 404 without one."""
    return _answer(request, profile_id, static_memory_data, load=_with_plan)


def _with_plan(profile: Profile) -> ProfileData:
    data = run_data(profile)
    if STATIC_MEMORY not in data.beside:
        raise DomainError("static_memory_none", status=404)
    return data


def _window(request: HttpRequest) -> tuple[float, float] | None:
    try:
        low, high = float(request.GET.get("from", "")), float(request.GET.get("to", ""))
    except ValueError:
        return None
    return (low, high) if math.isfinite(high - low) and low < high else None


def _answer(
    request: HttpRequest,
    profile_id: int,
    build: Build,
    question: str = "",
    *,
    load: Callable[[Profile], ProfileData] = profile_data,
) -> HttpResponseBase:
    """JSON that the browser keeps and asks again whether it still holds."""
    profile = profile_or_404(request, profile_id)
    stamp = f"{FORMAT}-{profile.pk}-{profile.built_at.timestamp()}-{get_language()}-{question}"
    etag = quote_etag(hashlib.sha256(stamp.encode(errors="replace")).hexdigest()[:32])
    response = get_conditional_response(request, etag=etag)
    if response is None:
        body = msgspec.json.encode(build(load(profile)))
        response = HttpResponse(body, content_type="application/json")
        response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"
    return response
