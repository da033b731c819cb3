"""Secrets that the site must be able to read again, encrypted: the database alone is not enough."""

import base64
from functools import cache

from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def cipher_for(purpose: str) -> MultiFernet:
    """Encrypt with SECRET_KEY, read what any of SECRET_KEY_FALLBACKS encrypted too.

    purpose: what one kind of secrets is for; another purpose has another key
    """
    return _cipher(purpose, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@cache
def _cipher(purpose: str, secret_keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(_derive(key, purpose)) for key in secret_keys])


def _derive(secret_key: str, purpose: str) -> bytes:
    kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode())
    return base64.urlsafe_b64encode(kdf.derive(secret_key.encode()))
