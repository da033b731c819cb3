"""Where a webhook may lead: the internet, and networks that the operator allows.

A user chooses the name, so the site would otherwise fetch what only the site can reach. A name is
judged by the addresses that it resolves to at the moment of the call, and the call goes to one of
those and no other: a second answer of the resolver is never asked for.
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
#: not told by `is_global`: prefixes behind which an IPv4 address hides (NAT64 of RFC 6052 and 8215,
#: 6to4, Teredo, compatible), and site-local addresses
_NOT_PUBLIC = tuple(
    ipaddress.IPv6Network(each)
    for each in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "fec0::/10")
)


@dataclass(frozen=True)
class Place:
    """An address that was checked; `host` is the name that its certificate must have."""

    host: str
    address: str
    port: int
    target: str


def url_check(url: str) -> str:
    """Return an address as it is kept. Raises DomainError webhook_url for what never may be one.

    Nothing is resolved: that is done for each call anew.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        port = parts.port or 443
        host = parts.hostname or ""
        host.encode("ascii")
    except ValueError as error:
        raise DomainError("webhook_url", field="url") from error
    odd = parts.username is not None or parts.password is not None or parts.fragment
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    if parts.scheme != "https" or not host or odd or not plain or len(url) > LONGEST_URL:
        raise DomainError("webhook_url", field="url")
    if not settings.WEBHOOK_ALLOWED_NETWORKS and port not in PORTS:
        raise DomainError("webhook_url", field="url")
    return url


def place_of(url: str) -> Place:
    """Resolve the name of an address, once, and choose where to connect.

    Raises DomainError webhook_url, webhook_unknown_name, webhook_refused: every address of the name
    must be allowed, or a name with two could be called until the other one is chosen.
    """
    parts = urlsplit(url_check(url))
    host, port = parts.hostname or "", parts.port or 443
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DomainError("webhook_unknown_name") from error
    addresses = [str(each[4][0]) for each in found]
    if not addresses or not all(may_be_called(each, port) for each in addresses):
        raise DomainError("webhook_refused")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Place(host.rstrip("."), addresses[0], port, target)


def may_be_called(text: str, port: int) -> bool:
    """Whether an address is in the internet, and its port one of PORTS; or allowed by name."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # whatever a resolver answers that is none
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    if any(address in network for network in settings.WEBHOOK_ALLOWED_NETWORKS):
        return True
    return port in PORTS and _is_public(address)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and any(address in each for each in _NOT_PUBLIC):
        return False
    return address.is_global and not (
        address.is_multicast
        or address.is_private
        or address.is_reserved
        or address.is_link_local
        or address.is_loopback
        or address.is_unspecified
    )
