"""Check the credentials of an API login with the rules and rate limits of the login page."""

import math
import time

from allauth.account import app_settings
from allauth.account.adapter import get_adapter
from allauth.account.models import EmailAddress
from allauth.core.internal import ratelimit
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.utils import is_mfa_enabled
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts.models import User, canonical_email
from webprofile.errors import DomainError


def user_of_credentials(request: HttpRequest, *, email: str, password: str, code: str) -> User:
    """Return the active user with these credentials.

    code: of the authenticator app, or a recovery code, for accounts with a second factor

    Raises DomainError: login_failed (whichever credential is wrong), code_needed, login_throttled.
    """
    adapter, email = get_adapter(request), canonical_email(email)
    try:
        user = adapter.authenticate(request, email=email, password=password)
    except ValidationError as error:  # django-allauth's limit of failed attempts
        key = adapter._get_login_attempts_cache_key(request, email=email)
        raise _throttled(request, key) from error
    if not isinstance(user, User) or not user.is_active or not _is_verified(user):
        raise DomainError("login_failed", status=401)
    if is_mfa_enabled(user):
        _check_code(request, user, code)
    return user


def _throttled(request: HttpRequest, limit_key: str) -> DomainError:
    """Return the error of an exceeded rate limit, with the seconds until the next attempt.

    django-allauth does not report when the next attempt is allowed, so its cache entry is read: the
    times of the counted attempts, the newest first.
    """
    until = now = time.time()
    limit = {"app": "allauth.account", "action": "login_failed"}
    for rate in ratelimit.get_rates(**limit):
        key = ratelimit.get_cache_key(request, rate=rate, key=limit_key, **limit)
        attempts = cache.get(key, [])
        if len(attempts) >= rate.amount:
            until = max(until, attempts[-1] + rate.duration)
    return DomainError("login_throttled", status=429, wait_s=max(1, math.ceil(until - now)))


def _check_code(request: HttpRequest, user: User, code: str) -> None:
    if not code:
        raise DomainError("code_needed", field="code", status=401)
    form = AuthenticateForm({"code": code}, user=user)
    if not form.is_valid():
        if form.has_error("code", "too_many_login_attempts"):
            raise _throttled(request, f"mfa-auth-user-{user.pk}")
        raise DomainError("login_failed", status=401)
    form.save()


def _is_verified(user: User) -> bool:
    if app_settings.EMAIL_VERIFICATION != app_settings.EmailVerificationMethod.MANDATORY:
        return True
    verified = EmailAddress.objects.filter(user=user, email__iexact=user.email, verified=True)
    return bool(verified.exists())
