"""Pairs of JWTs: a short-lived access token, and a refresh token that can be used once.

A pair is valid until its refresh token is used or revoked, even if its access token has not
expired. The pairs that renewals derive from one login are a family.
"""

import datetime
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
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
#: claim of a refresh token with the `jti` of the first refresh token after the login
FAMILY_CLAIM = "family"
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

    def check_blacklist(self) -> None:
        """Do nothing: `_valid_refresh_token` checks it while the user's row is locked."""


@dataclass(frozen=True)
class TokenPair:
    """The encoded tokens of one login, with their expiry times."""

    access: str
    refresh: str
    access_expires_at: datetime.datetime
    refresh_expires_at: datetime.datetime


@transaction.atomic
def issue_token_pair(user: User, *, family: str = "") -> TokenPair:
    """Create a pair for an active user; the caller has checked password and second factor.

    family: that of the pair which the new one replaces; empty for a login
    """
    _lock_user(user.pk)
    OutstandingToken.objects.filter(user=user, expires_at__lte=timezone.now()).delete()
    refresh = RefreshJWT.for_user(user)
    # the row keeps the family in place of the token, which is good for a login
    refresh[FAMILY_CLAIM] = family = family or refresh["jti"]
    OutstandingToken.objects.filter(jti=refresh["jti"]).update(token=family)
    access = refresh.access_token
    access[PAIR_CLAIM] = refresh["jti"]
    return TokenPair(
        str(access), str(refresh), _as_datetime(access["exp"]), _as_datetime(refresh["exp"])
    )


def renew_token_pair(text: str) -> TokenPair:
    """Exchange a refresh token for a new pair; of two concurrent calls one succeeds.

    Raises DomainError token_invalid.
    """
    with _valid_refresh_token(text) as refresh:
        user = User.objects.filter(pk=refresh[api_settings.USER_ID_CLAIM]).first()
        if user is None or not user.is_active:
            raise _invalid()
        if refresh.get(api_settings.REVOKE_TOKEN_CLAIM) != get_md5_hash_password(user.password):
            raise _invalid()
        refresh.blacklist()
        return issue_token_pair(user, family=refresh[FAMILY_CLAIM])


def revoke_refresh_token(text: str) -> None:
    """Revoke the pair of a refresh token.

    Raises DomainError token_invalid, also if the token was used or revoked before.
    """
    with _valid_refresh_token(text) as refresh:
        refresh.blacklist()


@transaction.atomic
def revoke_refresh_tokens(user: User) -> int:
    """Revoke all pairs of a user; return how many."""
    _lock_user(user.pk)
    return _revoke(_live_tokens(user.pk))


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


@contextmanager
def _valid_refresh_token(text: str) -> Iterator[RefreshJWT]:
    """Yield a refresh token that was neither used nor revoked; its user's row is locked meanwhile.

    A token that is used twice was stolen, or its thief was first: all pairs of its family end (RFC
    9700, section 4.14.2). Raises DomainError token_invalid.
    """
    try:
        refresh = RefreshJWT(text)  # type: ignore[arg-type]
    except TokenError as error:
        raise _invalid() from error
    user_id, family = refresh[api_settings.USER_ID_CLAIM], refresh[FAMILY_CLAIM]
    with transaction.atomic():
        _lock_user(user_id)
        live = _live_tokens(user_id)
        if live.filter(jti=refresh["jti"]).exists():
            yield refresh
            return
        _revoke(live.filter(Q(jti=family) | Q(token=family)))
    # outside the transaction, which must not be rolled back
    raise _invalid()


def _live_tokens(user_id: Any) -> QuerySet[OutstandingToken]:
    tokens: QuerySet[OutstandingToken] = OutstandingToken.objects.filter(
        user_id=user_id, expires_at__gt=timezone.now(), blacklistedtoken=None
    )
    return tokens


def _revoke(tokens: Iterable[OutstandingToken]) -> int:
    revoked = [BlacklistedToken(token=token) for token in tokens]
    BlacklistedToken.objects.bulk_create(revoked, ignore_conflicts=True)
    return len(revoked)


def _invalid() -> DomainError:
    return DomainError("token_invalid", status=401)


def _as_datetime(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
