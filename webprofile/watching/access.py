"""Who may read metrics: who brings a token, or asks directly from a network of the operator's."""

import hmac
import ipaddress

from django.conf import settings
from django.http import HttpRequest


def may_read_metrics(request: HttpRequest) -> bool:
    return _has_token(request) or _is_near(request)


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
