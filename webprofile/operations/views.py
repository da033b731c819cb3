"""What proxies, orchestrators and Prometheus ask."""

import hmac
import ipaddress

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from webprofile.observability import exposition
from webprofile.observability.ready import readiness
from webprofile.observability.requests import is_draining
from webprofile.operations.metrics import rows_registry


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """200 if requests should come here, else 503 with the names of what is missing.

    `?own` leaves out what all servers share: a proxy that chooses among them would pass over every
    one when Redis or storage is away, and most of the site works without.
    """
    if is_draining():
        missing = ["draining"]
    elif "own" in request.GET:
        missing = []
    else:
        missing = readiness.missing()
    return JsonResponse({"ready": not missing, "missing": missing}, status=503 if missing else 200)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """For who brings a token, or asks directly from a network of the operator's."""
    if not (_has_token(request) or _is_near(request)):
        raise Http404
    text = exposition.text_of(exposition.registry(), exposition.build_registry(), rows_registry)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return False
    given = token.strip().encode()
    # each is compared: the time says neither which one fits nor how much of it
    return any([hmac.compare_digest(given, known.encode()) for known in settings.METRICS_TOKENS])


def _is_near(request: HttpRequest) -> bool:
    # through a proxy everybody comes from its address, and what a header says can be made up
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    networks = [ipaddress.ip_network(each, strict=False) for each in settings.METRICS_NETWORKS]
    return any(address in network for network in networks)
