"""How often one caller may ask: `API_RATES`."""

from typing import Any

import structlog
from django.conf import settings
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

log = structlog.get_logger()


class CallerThrottle(SimpleRateThrottle):
    """By user, or by address where nobody is logged in. A cache that is away limits nobody."""

    scope = "user"

    def get_rate(self) -> str | None:
        return settings.API_RATES.get(self.scope) or None

    def allow_request(self, request: Request, view: Any) -> bool:
        self.scope = "user" if request.user.is_authenticated else "anonymous"
        return self._allow(request, view)

    def get_cache_key(self, request: Request, view: Any) -> str:
        asks = request.user.pk if request.user.is_authenticated else self.get_ident(request)
        return self.cache_format % {"scope": self.scope, "ident": asks}

    def _allow(self, request: Request, view: Any) -> bool:
        self.num_requests, self.duration = self.parse_rate(self.get_rate())
        if self.num_requests is None:
            return True
        self.rate = self.get_rate()
        try:
            return bool(super().allow_request(request, view))
        except RedisError:
            log.warning("throttle_without_cache")
            return True


class CredentialsThrottle(CallerThrottle):
    """By address, for what takes a password or a secret; beside allauth's own limits."""

    def allow_request(self, request: Request, view: Any) -> bool:
        self.scope = "credentials"
        return self._allow(request, view)

    def get_cache_key(self, request: Request, view: Any) -> str:
        return self.cache_format % {"scope": self.scope, "ident": self.get_ident(request)}
