"""Rate limits of the API, with the rates of the setting `API_RATES`."""

import math
import time
from typing import Any

import structlog
from allauth.core.internal.ratelimit import truncate_ip
from django.conf import settings
from django.http import HttpRequest
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from webprofile.api.authentication import SessionAuthentication
from webprofile.errors import DomainError

log = structlog.get_logger()


class WindowThrottle(UserRateThrottle):
    """Limit requests per user, or per IP address for anonymous requests, in fixed windows.

    The first request of a caller opens a window of the rate's length; the first request after its
    end opens the next one. The cache increments the counter atomically, so that concurrent requests
    are counted separately, unlike in DRF's list of timestamps. If the cache is unavailable, no
    request is refused.
    """

    scope: str = "user"

    def get_rate(self) -> str | None:
        return settings.API_RATES.get(self.scope) or None

    def get_ident(self, request: Request) -> str:
        """Return the IP address, of IPv6 the network, as in the limits of logins.

        A client has the whole network, and could use another address for each request.
        """
        address: str = truncate_ip(super().get_ident(request))
        return address

    def allow_request(self, request: Request, view: Any) -> bool:
        allowed, window_s = self.parse_rate(self.get_rate())
        if allowed is None or window_s is None:
            return True
        try:
            return self._count(str(self.get_cache_key(request, view)), window_s) <= allowed
        # ValueError: the cache evicted the counter before the increment
        except (RedisError, ValueError):
            log.warning("throttle_without_cache")
            return True

    def wait(self) -> float:
        """Return the seconds until the window of a refused request ends."""
        return self._wait_s

    def _count(self, key: str, window_s: int) -> int:
        """Count this request and return the number of requests in the caller's window."""
        opened_at = float(self.cache.get_or_set(key, time.time(), window_s) or 0)
        # capped at the window's length, because clocks of servers differ
        self._wait_s = min(max(0.0, opened_at + window_s - time.time()), float(window_s))
        window = f"{key}:{opened_at}"
        # The counter outlives the window: incr would recreate an expired one without an expiry.
        self.cache.add(window, 0, window_s * 2)
        return int(self.cache.incr(window))


class CallerThrottle(WindowThrottle):
    """Count requests by token and by session apart, so that a script cannot block the pages."""

    def allow_request(self, request: Request, view: Any) -> bool:
        if isinstance(request.successful_authenticator, SessionAuthentication):
            self.scope = "session"
        elif not request.user.is_authenticated:
            self.scope = "anonymous"
        return super().allow_request(request, view)


class CredentialsThrottle(WindowThrottle):
    """Limit views that accept a password or a secret, in addition to allauth's own limits."""

    scope = "credentials"


class ShareThrottle(WindowThrottle):
    """Limit requests with share links, which have no user: by address, or by link.

    link: the number of a link; None to count the address
    """

    def __init__(self, link: int | None = None) -> None:
        self.link = link
        self.scope = "share_address" if link is None else "share_link"
        super().__init__()

    def get_cache_key(self, request: Request, view: Any) -> str:
        caller = self.get_ident(request) if self.link is None else self.link
        return str(self.cache_format % {"scope": self.scope, "ident": caller})

    def check(self, request: HttpRequest) -> None:
        """Count a request. Raises DomainError throttled."""
        if not self.allow_request(Request(request), None):
            raise DomainError("throttled", status=429, wait_s=math.ceil(self.wait()))


class RefreshThrottle(WindowThrottle):
    """Limit token refreshes separately, so that scripts do not block logins from their address."""

    scope = "refresh"
