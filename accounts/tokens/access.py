"""Access tokens: opaque secrets with which scripts act as their user."""

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import AccessToken, User
from webprofile.errors import DomainError
from webprofile.texts import check_text

PREFIX = "mwp_"
#: 40 characters of base64, 240 random bits
_PATTERN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{40}}")
#: length of the part of the secret that is stored and shown: it tells tokens apart, but does not
#: help to guess the rest
_PREFIX_LENGTH = len(PREFIX) + 6
DAYS_LIMIT = 365
#: maximum number of tokens of a user, without revoked and expired ones
TOKENS_LIMIT = 50
#: resolution of `last_used_at`, so that not every request writes a row
USE_NOTED_EVERY = timedelta(minutes=1)


@transaction.atomic
def issue_token(
    user: User, *, name: str, scopes: Iterable[str], days: int
) -> tuple[AccessToken, str]:
    """Create a token; return it with its secret, which is not stored and cannot be shown again.

    scopes: values of `AccessToken.Scope`
    days: lifetime, 1 to `DAYS_LIMIT`

    Raises DomainError: character_bad, token_name, token_scopes, token_days, token_limit.
    """
    name = name.strip()
    max_length = AccessToken._meta.get_field("name").max_length or 0
    check_text(name, "name")
    if not 0 < len(name) <= max_length:
        raise DomainError("token_name", field="name")
    requested = set(scopes)
    chosen = [scope for scope in AccessToken.Scope.values if scope in requested]
    if not chosen or requested - set(chosen):
        raise DomainError("token_scopes", field="scopes")
    if AccessToken.Scope.ADMIN in chosen and not user.is_staff:
        raise DomainError("token_scopes", field="scopes")
    if not 1 <= days <= DAYS_LIMIT:
        raise DomainError("token_days", field="days")
    # lock the owner's row, so that concurrent requests cannot exceed the limit
    User.objects.select_for_update().get(pk=user.pk)
    if usable_tokens(user).count() >= TOKENS_LIMIT:
        raise DomainError("token_limit")
    secret = PREFIX + secrets.token_urlsafe(30)
    token = AccessToken.objects.create(
        user=user,
        name=name,
        prefix=secret[:_PREFIX_LENGTH],
        sha256=_digest(secret),
        scopes=chosen,
        expires_at=timezone.now() + timedelta(days=days),
    )
    record_audit_entry("access_token.issue", token, by=user, after={"scopes": chosen, "days": days})
    return token, secret


@transaction.atomic
def revoke_token(token: AccessToken, *, by: User | None) -> bool:
    """Revoke a token immediately; return False if it was already revoked."""
    live = AccessToken.objects.filter(pk=token.pk, revoked_at=None)
    if not live.update(revoked_at=timezone.now()):
        return False
    record_audit_entry("access_token.revoke", token, by=by)
    return True


def usable_tokens(user: User) -> QuerySet[AccessToken]:
    """Return the tokens of a user that are neither revoked nor expired."""
    return user.access_tokens.filter(revoked_at=None, expires_at__gt=timezone.now())


def find_usable_token(secret: str) -> AccessToken | None:
    """Return the usable token with this secret and an active user, and record that it was used.

    The secret is looked up by its SHA-256, so that the response time reveals nothing about it.
    """
    if not _PATTERN.fullmatch(secret):
        return None
    now = timezone.now()
    token = (
        AccessToken.objects.select_related("user")
        .filter(sha256=_digest(secret), revoked_at=None, expires_at__gt=now, user__is_active=True)
        .first()
    )
    if token is None:
        return None
    if token.last_used_at is None or token.last_used_at <= now - USE_NOTED_EVERY:
        is_outdated = Q(last_used_at=None) | Q(last_used_at__lte=now - USE_NOTED_EVERY)
        AccessToken.objects.filter(is_outdated, pk=token.pk).update(last_used_at=now)
        token.last_used_at = now
    return token


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
