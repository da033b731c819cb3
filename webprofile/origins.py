"""Web origins: that of the site, and a separate one for the viewers of untrusted files."""

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest


def origin_of(address: str) -> str:
    """Return scheme, host and port of an address: `https://viewer.example.org`."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def framing_origins(request: HttpRequest) -> list[str]:
    """Return the origins whose pages may embed the viewer in a frame."""
    if not settings.NETRON_ORIGIN:
        return [origin_of(request.build_absolute_uri("/"))]
    return sorted({origin_of(settings.SITE_URL), *settings.CSRF_TRUSTED_ORIGINS})


def is_viewer_host(request: HttpRequest) -> bool:
    """Return whether a request was sent to the host of NETRON_ORIGIN."""
    host = urlsplit(settings.NETRON_ORIGIN).netloc
    return bool(host) and request.get_host() == host
