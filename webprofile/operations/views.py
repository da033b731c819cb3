"""Views for proxies, orchestrators and Prometheus: readiness and metrics."""

import hmac
import ipaddress

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from webprofile.api.authentication import bearer_of
from webprofile.observability import exposition
from webprofile.observability.ready import readiness
from webprofile.observability.requests import is_draining
from webprofile.operations.metrics import rows_registry


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return 200 if this process accepts requests, else 503 with the names of missing parts.

    `?own` ignores parts that all servers share. Otherwise a proxy would remove all servers during
    an outage of Redis or storage, although most of the site works without them.
    """
    if is_draining():
        missing = ["draining"]
    elif "own" in request.GET:
        missing = []
    else:
        missing = readiness.missing()
    return JsonResponse({"ready": not missing, "missing": missing}, status=503 if missing else 200)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics; 404 without a token unless the client is in METRICS_NETWORKS."""
    if not (_has_token(request) or _is_near(request)):
        raise Http404
    text = exposition.text_of(exposition.registry(), exposition.build_registry(), rows_registry)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


def _has_token(request: HttpRequest) -> bool:
    secret = bearer_of(request).encode()
    # compares with all tokens, so that the duration does not disclose which one matches
    return any([hmac.compare_digest(secret, known.encode()) for known in settings.METRICS_TOKENS])


def _is_near(request: HttpRequest) -> bool:
    # behind a proxy REMOTE_ADDR is the proxy's address, and clients can forge the headers
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return any(address in network for network in settings.METRICS_NETWORKS)
