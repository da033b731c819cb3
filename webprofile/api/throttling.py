"""How often one caller may ask: `API_RATES`."""

import time
from typing import Any

import structlog
from django.conf import settings
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import UserRateThrottle

from webprofile.api.authentication import SessionAuthentication

log = structlog.get_logger()


class WindowThrottle(UserRateThrottle):
    """By user, or by address where nobody is logged in. A cache that is away limits nobody.

    A caller's first request opens a window of the rate's length, in which at most so many pass;
    the first request after it opens the next one. Requests are counted by the cache itself, so
    that no two of them that arrive at once count as one, as they do in DRF's list of moments.
    """

    scope: str = "user"

    def get_rate(self) -> str | None:
        return settings.API_RATES.get(self.scope) or None

    def allow_request(self, request: Request, view: Any) -> bool:
        allowed, window_s = self.parse_rate(self.get_rate())
        if allowed is None or window_s is None:
            return True
        try:
            return self._count(str(self.get_cache_key(request, view)), window_s) <= allowed
        # ValueError: the cache evicted the counter before it was increased
        except (RedisError, ValueError):
            log.warning("throttle_without_cache")
            return True

    def wait(self) -> float:
        """Seconds until the window of a refused request ends."""
        return self._wait_s

    def _count(self, key: str, window_s: int) -> int:
        """Requests of the caller's window, with this one."""
        opened_at = float(self.cache.get_or_set(key, time.time(), window_s) or 0)
        # at most all of it: clocks of servers differ
        self._wait_s = min(max(0.0, opened_at + window_s - time.time()), float(window_s))
        window = f"{key}:{opened_at}"
        # it outlives the window: incr would make a counter that expired anew, and for ever
        self.cache.add(window, 0, window_s * 2)
        return int(self.cache.incr(window))


class CallerThrottle(WindowThrottle):
    """With tokens and with pages apart: a script must not lock its owner out of the pages."""

    def allow_request(self, request: Request, view: Any) -> bool:
        if isinstance(request.successful_authenticator, SessionAuthentication):
            self.scope = "session"
        elif not request.user.is_authenticated:
            self.scope = "anonymous"
        return super().allow_request(request, view)


class CredentialsThrottle(WindowThrottle):
    """For what takes a password or a secret; beside allauth's own limits."""

    scope = "credentials"


class RefreshThrottle(WindowThrottle):
    """For refresh tokens: scripts behind one address keep nobody from logging in."""

    scope = "refresh"
