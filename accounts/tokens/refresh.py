"""Pairs of JWTs: a short-lived access token, and a refresh token that can be used once.

A pair is valid until its refresh token is used or revoked, even if its access token has not
expired.
"""

import datetime
import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from rest_framework_simplejwt.backends import TokenBackend
from rest_framework_simplejwt.exceptions import (
    TokenBackendError,
    TokenBackendExpiredToken,
    TokenError,
)
from rest_framework_simplejwt.settings import api_settings
from rest_framework_simplejwt.token_blacklist.models import BlacklistedToken, OutstandingToken
from rest_framework_simplejwt.tokens import AccessToken, RefreshToken, Token
from rest_framework_simplejwt.utils import get_md5_hash_password

from accounts.models import User
from webprofile.errors import DomainError

#: claim of an access token with the `jti` of the refresh token of its pair
PAIR_CLAIM = "pair"
ALGORITHM = "HS256"


class KeyRing(TokenBackend):
    """Sign JWTs with a key derived from SECRET_KEY; also verify with SECRET_KEY_FALLBACKS."""

    def __init__(self) -> None:
        super().__init__(ALGORITHM, "")

    def encode(self, payload: dict[str, Any]) -> str:
        return _backends()[0].encode(payload)

    def decode(self, token: Any, verify: bool = True) -> dict[str, Any]:
        """Decode with the first key that fits. Raises TokenBackendError, as its base class does."""
        *first, last = _backends()
        for backend in first:
            try:
                return backend.decode(token, verify)
            except TokenBackendExpiredToken:
                raise
            except TokenBackendError:
                continue
        return last.decode(token, verify)


def _backends() -> tuple[TokenBackend, ...]:
    return _create_backends((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@cache
def _create_backends(secret_keys: tuple[str, ...]) -> tuple[TokenBackend, ...]:
    # derived keys: they have the length that HS256 requires, and are used for nothing but JWTs
    keys = (hashlib.sha256(f"jwt {key}".encode()).hexdigest() for key in secret_keys)
    return tuple(TokenBackend(ALGORITHM, key) for key in keys)


_RING = KeyRing()


class AccessJWT(AccessToken):
    def get_token_backend(self) -> KeyRing:
        return _RING


class RefreshJWT(RefreshToken):
    access_token_class = AccessJWT

    def get_token_backend(self) -> KeyRing:
        return _RING


@dataclass(frozen=True)
class TokenPair:
    """The encoded tokens of one login, with their expiry times."""

    access: str
    refresh: str
    access_expires_at: datetime.datetime
    refresh_expires_at: datetime.datetime


@transaction.atomic
def issue_token_pair(user: User) -> TokenPair:
    """Create a pair for an active user; the caller has checked password and second factor."""
    _lock_user(user.pk)
    OutstandingToken.objects.filter(user=user, expires_at__lte=timezone.now()).delete()
    refresh = RefreshJWT.for_user(user)
    access = refresh.access_token
    access[PAIR_CLAIM] = refresh["jti"]
    return TokenPair(
        str(access), str(refresh), _as_datetime(access["exp"]), _as_datetime(refresh["exp"])
    )


@transaction.atomic
def renew_token_pair(text: str) -> TokenPair:
    """Exchange a refresh token for a new pair; of two concurrent calls one succeeds.

    Raises DomainError token_invalid.
    """
    refresh = _decode_refresh_token(text)
    user = User.objects.filter(pk=refresh[api_settings.USER_ID_CLAIM]).first()
    if user is None or not user.is_active:
        raise _invalid()
    if refresh.get(api_settings.REVOKE_TOKEN_CLAIM) != get_md5_hash_password(user.password):
        raise _invalid()
    refresh.blacklist()
    return issue_token_pair(user)


@transaction.atomic
def revoke_refresh_token(text: str) -> None:
    """Revoke the pair of a refresh token.

    Raises DomainError token_invalid, also if the token was used or revoked before.
    """
    _decode_refresh_token(text).blacklist()


@transaction.atomic
def revoke_refresh_tokens(user: User) -> int:
    """Revoke all pairs of a user; return how many."""
    _lock_user(user.pk)
    live = OutstandingToken.objects.filter(
        user=user, expires_at__gt=timezone.now(), blacklistedtoken=None
    )
    revoked = [BlacklistedToken(token=token) for token in live]
    BlacklistedToken.objects.bulk_create(revoked, ignore_conflicts=True)
    return len(revoked)


def is_pair_live(access: Token) -> bool:
    """Return whether the pair of a valid access token was neither renewed nor revoked."""
    refresh_tokens = OutstandingToken.objects.filter(jti=str(access.get(PAIR_CLAIM, "")))
    return bool(refresh_tokens.filter(blacklistedtoken=None).exists())


def _lock_user(user_id: Any) -> None:
    """Lock the user's row until the end of the transaction, so that pairs change one at a time.

    Otherwise a pair that is renewed during a logout could survive it. The row is locked before any
    row of a token, so that transactions do not deadlock.
    """
    User.objects.select_for_update().filter(pk=user_id).first()


def _decode_refresh_token(text: str) -> RefreshToken:
    """Return a valid refresh token that was neither used nor revoked, and lock its user's row.

    Raises DomainError token_invalid.
    """
    try:
        refresh = RefreshJWT(text)  # type: ignore[arg-type]
    except TokenError as error:
        raise _invalid() from error
    _lock_user(refresh[api_settings.USER_ID_CLAIM])
    if not OutstandingToken.objects.filter(jti=refresh["jti"], blacklistedtoken=None).exists():
        raise _invalid()
    return refresh


def _invalid() -> DomainError:
    return DomainError("token_invalid", status=401)


def _as_datetime(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
