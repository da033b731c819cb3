"""Access tokens: a script's own right to act for its user."""

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

PREFIX = "mwp_"
#: 40 characters of base64: 240 random bits
_SHAPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{40}}")
#: of the secret; enough to tell tokens apart, too little to guess the rest
_SHOWN_CHARACTERS = len(PREFIX) + 6
DAYS_LIMIT = 365
#: that one user may hold at once, without revoked and expired ones
TOKENS_LIMIT = 50
#: reading a token is no reason to write a row with each request
USE_NOTED_EVERY = timedelta(minutes=1)


@transaction.atomic
def issue_token(
    user: User, *, name: str, scopes: Iterable[str], days: int
) -> tuple[AccessToken, str]:
    """Make a token and its secret, which is nowhere kept and cannot be shown again.

    days: until it expires, 1 to `DAYS_LIMIT`; scopes: values of `AccessToken.Scope`
    Raises DomainError: token_name, token_scopes, token_days, token_limit.
    """
    name = name.strip()
    longest = AccessToken._meta.get_field("name").max_length or 0
    if not 0 < len(name) <= longest or not name.isprintable():
        raise DomainError("token_name", field="name")
    chosen = [scope for scope in AccessToken.Scope.values if scope in set(scopes)]
    if not chosen or set(scopes) - set(chosen):
        raise DomainError("token_scopes", field="scopes")
    if AccessToken.Scope.ADMIN in chosen and not user.is_staff:
        raise DomainError("token_scopes", field="scopes")
    if not 1 <= days <= DAYS_LIMIT:
        raise DomainError("token_days", field="days")
    # the owner's row is the lock: two requests at once do not both find the last free place
    User.objects.select_for_update().get(pk=user.pk)
    if usable_tokens(user).count() >= TOKENS_LIMIT:
        raise DomainError("token_limit")
    secret = PREFIX + secrets.token_urlsafe(30)
    token = AccessToken.objects.create(
        user=user,
        name=name,
        prefix=secret[:_SHOWN_CHARACTERS],
        sha256=_digest(secret),
        scopes=chosen,
        expires_at=timezone.now() + timedelta(days=days),
    )
    record_audit_entry("access_token.issue", token, by=user, after={"scopes": chosen, "days": days})
    return token, secret


@transaction.atomic
def revoke_token(token: AccessToken, *, by: User | None) -> bool:
    """End a token at once; False if it was revoked before."""
    live = AccessToken.objects.filter(pk=token.pk, revoked_at=None)
    if not live.update(revoked_at=timezone.now()):
        return False
    record_audit_entry("access_token.revoke", token, by=by)
    return True


def usable_tokens(user: User) -> QuerySet[AccessToken]:
    """Neither revoked nor expired."""
    return user.access_tokens.filter(revoked_at=None, expires_at__gt=timezone.now())


def find_usable_token(secret: str) -> AccessToken | None:
    """Find the usable token of a secret, with its active user; note that it was used.

    A secret is looked up by its sha256, so the time that it takes tells nothing about it.
    """
    if not _SHAPE.fullmatch(secret):
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
        long_ago = Q(last_used_at=None) | Q(last_used_at__lte=now - USE_NOTED_EVERY)
        AccessToken.objects.filter(long_ago, pk=token.pk).update(last_used_at=now)
        token.last_used_at = now
    return token


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
