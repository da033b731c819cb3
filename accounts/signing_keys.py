"""What signs JWTs: a key of its own made from SECRET_KEY; SECRET_KEY_FALLBACKS still verify."""

import hashlib
from functools import cache
from typing import Any

from django.conf import settings
from rest_framework_simplejwt.backends import TokenBackend
from rest_framework_simplejwt.exceptions import TokenBackendError, TokenBackendExpiredToken

ALGORITHM = "HS256"


class KeyRing(TokenBackend):
    """Signs with the first key and reads what any of them signed."""

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
