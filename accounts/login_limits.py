"""Limits of failed logins, so that guessing is bounded and users cannot lock out each other.

A browser in which somebody logged in before has a signed cookie that is bound to the account
(OWASP's device cookies). It has a limit of its own, which the attempts of others do not use up.
All other clients share three limits: of an account from one address, of an address, and of an
account from all addresses. The rates are in `ACCOUNT_RATE_LIMITS`.

https://owasp.org/www-community/Slow_Down_Online_Guessing_Attacks_with_Device_Cookies
"""

import math
import secrets
import time

from allauth.core.internal import ratelimit
from allauth.core.internal.ratelimit import RateLimitUsage
from django.conf import settings
from django.core import signing
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse

from accounts.models import User, canonical_email

APP = "allauth.account"
#: limit of one known browser for one account, or of one address for one account
CLIENT = "login_failed_client"
ADDRESS = "login_failed_address"
ACCOUNT = "login_failed_account"

COOKIE = "known_browser"
COOKIE_AGE_S = 365 * 24 * 3600
#: number of users that one browser is known for; the oldest is forgotten
USERS_PER_BROWSER = 5
_SALT = "accounts.known_browser"


def take_attempt(request: HttpRequest, email: str) -> RateLimitUsage | None:
    """Count an attempt; return its usage, which a successful login rolls back.

    Returns None, and counts nothing, if a limit is exceeded.
    """
    usage = RateLimitUsage(usage=[])
    for action, key in _limits(request, email):
        taken = ratelimit.consume(request, app=APP, action=action, key=key)
        if taken is None:
            usage.rollback()
            return None
        usage.usage += taken.usage
    return usage


def wait_s(request: HttpRequest, email: str) -> int:
    """Return the seconds until the next attempt, at least 1."""
    limits = _limits(request, email)
    return max(limit_wait_s(request, action, key) for action, key in limits)


def limit_wait_s(request: HttpRequest, action: str, key: str) -> int:
    """Return the seconds until a limit allows the next attempt, at least 1.

    django-allauth does not report it, so its cache entry is read: the times of the counted
    attempts, the newest first.
    """
    until = now = time.time()
    for rate in ratelimit.get_rates(app=APP, action=action):
        cache_key = ratelimit.get_cache_key(request, app=APP, action=action, rate=rate, key=key)
        attempts = cache.get(cache_key, [])
        if len(attempts) >= rate.amount:
            until = max(until, attempts[-1] + rate.duration)
    return max(1, math.ceil(until - now))


def forget_attempts(request: HttpRequest, email: str) -> None:
    """Reset the limits of an account, whose owner has just proved to be the owner."""
    for action, key in _limits(request, email):
        if action != ADDRESS:
            ratelimit.clear(request, app=APP, action=action, key=key)


def remember_browser(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Set the cookie of a browser in which a user has just logged in."""
    others = [entry for entry in _known_users(request) if entry[0] != user.pk]
    entries = [*others, (user.pk, secrets.token_urlsafe(12))][-USERS_PER_BROWSER:]
    response.set_cookie(
        COOKIE,
        signing.dumps(entries, salt=_SALT),
        max_age=COOKIE_AGE_S,
        path="/accounts/",
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _limits(request: HttpRequest, email: str) -> list[tuple[str, str]]:
    """Return the limits of an attempt as (action, key)."""
    email = canonical_email(email)
    if browser := _known_browser(request, email):
        return [(CLIENT, f"browser {browser}")]
    return [
        (CLIENT, f"address {ratelimit.get_ip(request)} {email}"),
        (ADDRESS, ""),
        (ACCOUNT, email),
    ]


def _known_browser(request: HttpRequest, email: str) -> str:
    """Return the random id of the browser if the owner of the address logged in there before.

    Only the primary address of a user counts, which is unique: another user may have added the same
    address as a secondary one, and must get no further limit for it.
    """
    entries = _known_users(request)
    user_id = entries and User.objects.filter(email__iexact=email).values_list("pk").first()
    return dict(entries).get(user_id[0], "") if user_id else ""


def _known_users(request: HttpRequest) -> list[tuple[int, str]]:
    """Return (id of a user, random id of the browser) from the cookie, the oldest login first."""
    try:
        entries = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=COOKIE_AGE_S)
    except signing.BadSignature:
        return []
    return [(user_id, browser) for user_id, browser in entries]
