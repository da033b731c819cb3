"""Validation of webhook URLs against server-side request forgery (SSRF).

Webhooks may call public addresses, and networks that the operator allows. The host name is resolved
once per call; all its addresses are checked, and the call connects to a checked address, so that a
second DNS answer cannot redirect it.
"""

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from webprofile.errors import DomainError

LONGEST_URL = 500
PORTS = frozenset({443, 8443})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: networks that `is_global` does not exclude: prefixes that embed an IPv4 address (NAT64 of
#: RFC 6052 and 8215, 6to4, Teredo, compatible), and site-local addresses
_NOT_PUBLIC = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fec0::/10",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Endpoint:
    """A checked address to connect to; `host` is the name that its certificate must have."""

    host: str
    address: str
    port: int
    target: str


def validate_webhook_url(url: str) -> str:
    """Return the URL as it is stored. Raises DomainError webhook_url if it can never be called.

    The host name is not resolved here, but for each call.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        port = parts.port or 443
        host = parts.hostname or ""
        host.encode("ascii")
    except ValueError as error:
        raise DomainError("webhook_url", field="url") from error
    has_extra_parts = parts.username is not None or parts.password is not None or parts.fragment
    is_clean = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if parts.scheme != "https" or not host or has_extra_parts:
        raise DomainError("webhook_url", field="url")
    if not is_clean or len(url) > LONGEST_URL:
        raise DomainError("webhook_url", field="url")
    if not settings.WEBHOOK_ALLOWED_NETWORKS and port not in PORTS:
        raise DomainError("webhook_url", field="url")
    return url


def endpoint_of(url: str) -> Endpoint:
    """Resolve the host of a URL once, and choose the address to connect to.

    Raises DomainError webhook_url, webhook_unknown_name, webhook_refused: every address of the name
    must be allowed, or a name with two could be called until the other one is chosen.
    """
    parts = urlsplit(validate_webhook_url(url))
    host, port = parts.hostname or "", parts.port or 443
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DomainError("webhook_unknown_name") from error
    addresses = [str(info[4][0]) for info in infos]
    if not addresses or not all(may_be_called(address, port) for address in addresses):
        raise DomainError("webhook_refused")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(host.rstrip("."), addresses[0], port, target)


def may_be_called(text: str, port: int) -> bool:
    """Return whether an address is public with one of PORTS, or in WEBHOOK_ALLOWED_NETWORKS."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # the resolver returned something else
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    if any(address in network for network in settings.WEBHOOK_ALLOWED_NETWORKS):
        return True
    return port in PORTS and _is_public(address)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and any(address in net for net in _NOT_PUBLIC):
        return False
    return address.is_global and not (
        address.is_multicast
        or address.is_private
        or address.is_reserved
        or address.is_link_local
        or address.is_loopback
        or address.is_unspecified
    )
