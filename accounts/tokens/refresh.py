"""Pairs of JWTs: a short access part, and a refresh part that is good for one use.

A pair lives until its refresh part is used or revoked, whatever its access part says of itself.
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

#: names, in the access part, the refresh part that it came with
PAIR_CLAIM = "pair"
ALGORITHM = "HS256"


class KeyRing(TokenBackend):
    """Signs JWTs with a key made from SECRET_KEY; SECRET_KEY_FALLBACKS still verify."""

    def __init__(self) -> None:
        super().__init__(ALGORITHM, "")

    def encode(self, payload: dict[str, Any]) -> str:
        return _backends()[0].encode(payload)

    def decode(self, token: Any, verify: bool = True) -> dict[str, Any]:
        """Raises TokenBackendError, as its base does."""
        *others, last = _backends()
        for backend in others:
            try:
                return backend.decode(token, verify)
            except TokenBackendExpiredToken:
                raise
            except TokenBackendError:
                continue
        return last.decode(token, verify)


def _backends() -> tuple[TokenBackend, ...]:
    return _made((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@cache
def _made(secret_keys: tuple[str, ...]) -> tuple[TokenBackend, ...]:
    # as long as HS256 wants it; a signature of one kind says nothing of another
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
class Pair:
    """What a program keeps of a log-in."""

    access: str
    refresh: str
    access_expires_at: datetime.datetime
    refresh_expires_at: datetime.datetime


@transaction.atomic
def issue_token_pair(user: User) -> Pair:
    """Make a pair for an active user, whose password (and second factor) somebody checked."""
    _locked(user.pk)
    OutstandingToken.objects.filter(user=user, expires_at__lte=timezone.now()).delete()
    refresh = RefreshJWT.for_user(user)
    access = refresh.access_token
    access[PAIR_CLAIM] = refresh["jti"]
    return Pair(str(access), str(refresh), _end(access["exp"]), _end(refresh["exp"]))


@transaction.atomic
def renew_token_pair(text: str) -> Pair:
    """Take a pair back and make another one; of two who try at once one gets it.

    Raises DomainError token_invalid.
    """
    refresh = _usable(text)
    user = User.objects.filter(pk=refresh[api_settings.USER_ID_CLAIM]).first()
    if user is None or not user.is_active:
        raise _invalid()
    if refresh.get(api_settings.REVOKE_TOKEN_CLAIM) != get_md5_hash_password(user.password):
        raise _invalid()
    refresh.blacklist()
    return issue_token_pair(user)


@transaction.atomic
def revoke_refresh_token(text: str) -> None:
    """End the pair of a refresh token.

    Raises DomainError token_invalid, also for one that was used or revoked.
    """
    _usable(text).blacklist()


@transaction.atomic
def revoke_refresh_tokens(user: User) -> int:
    """End all pairs of a user; returns how many."""
    _locked(user.pk)
    live = OutstandingToken.objects.filter(
        user=user, expires_at__gt=timezone.now(), blacklistedtoken=None
    )
    ended = [BlacklistedToken(token=token) for token in live]
    BlacklistedToken.objects.bulk_create(ended, ignore_conflicts=True)
    return len(ended)


def is_pair_live(access: Token) -> bool:
    """Whether the pair of a valid access part was neither renewed nor revoked."""
    own = OutstandingToken.objects.filter(jti=str(access.get(PAIR_CLAIM, "")))
    return bool(own.filter(blacklistedtoken=None).exists())


def _locked(user_id: Any) -> None:
    """Wait for whoever changes this user's pairs: one renewed meanwhile must not outlive a log-out.

    Until the end of the transaction, and before any row of a token, so that nobody waits in a ring.
    """
    User.objects.select_for_update().filter(pk=user_id).first()


def _usable(text: str) -> RefreshToken:
    """The token, its user's row locked until the end of the transaction."""
    try:
        refresh = RefreshJWT(text)  # type: ignore[arg-type]
    except TokenError as error:
        raise _invalid() from error
    _locked(refresh[api_settings.USER_ID_CLAIM])
    if not OutstandingToken.objects.filter(jti=refresh["jti"], blacklistedtoken=None).exists():
        raise _invalid()
    return refresh


def _invalid() -> DomainError:
    return DomainError("token_invalid", status=401)


def _end(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
