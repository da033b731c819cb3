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
from webprofile.texts import check_text

LONGEST_URL = 500
PORTS = frozenset({443, 8443})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Addresses that are not public: IANA's special-purpose registries (RFC 6890, RFC 8190) as of
#: 2025-10-09, and multicast. All their blocks are refused, also those that are globally reachable,
#: such as anycast relays: no receiver of webhooks is there. The blocks inside 192.0.0.0/24 and
#: 2001::/23 are not listed. Python's `is_global` depends on its version and omits some blocks.
#: https://www.iana.org/assignments/iana-ipv4-special-registry/
#: https://www.iana.org/assignments/iana-ipv6-special-registry/
_SPECIAL_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host on this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared address space
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link local
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation (TEST-NET-1)
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relay anycast (deprecated), 6a44 relay
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # direct delegation AS112 service
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation (TEST-NET-2)
        "203.0.113.0/24",  # documentation (TEST-NET-3)
        "224.0.0.0/4",  # multicast (RFC 5771)
        "240.0.0.0/4",  # reserved, limited broadcast
    )
)
#: the global unicast addresses that IANA assigns; loopback, NAT64 (64:ff9b::/96, 64:ff9b:1::/48),
#: unique local, link-local, site-local, multicast and all other blocks are outside
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # IETF protocol assignments, such as Teredo (2001::/32) and ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # direct delegation AS112 service
        "3fff::/20",  # documentation
    )
)


@dataclass(frozen=True)
class Endpoint:
    """A checked address to connect to; `host` is the name that its certificate must have."""

    host: str
    address: str
    port: int
    target: str


def validate_webhook_url(url: str) -> str:
    """Return the URL as it is stored. Raises DomainError webhook_url if it can never be called.

    Raises DomainError character_bad for an invisible character. The host name is not resolved here,
    but for each call.
    """
    url = url.strip()
    check_text(url, "url")
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
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _SPECIAL_V4)
    return address in _GLOBAL_V6 and not any(address in network for network in _SPECIAL_V6)
