"""Secrets that the site must be able to read again, encrypted: the database alone is not enough."""

import base64
from functools import cache

from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import transaction

from accounts.models import Webhook

#: where allauth keeps what its adapter encrypted, by the kind of a second factor
_SEEDS = {Authenticator.Type.TOTP: "secret", Authenticator.Type.RECOVERY_CODES: "seed"}


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


def reencrypt_secrets() -> int:
    """Encrypt every kept secret anew, a row a transaction; returns how many there are.

    Raises cryptography.fernet.InvalidToken where no key that is known opens a secret.
    """
    count = 0
    for pk in list(Authenticator.objects.filter(type__in=_SEEDS).values_list("pk", flat=True)):
        count += _seed(pk)
    for pk in list(Webhook.objects.values_list("pk", flat=True)):
        count += _webhook(pk)
    return count


@transaction.atomic
def _seed(pk: int) -> int:
    row = Authenticator.objects.select_for_update().filter(pk=pk).first()
    name = _SEEDS[row.type] if row else ""
    if row is None or not row.data.get(name):
        return 0
    row.data[name] = _anew("second factor", row.data[name])
    row.save(update_fields=["data"])
    return 1


@transaction.atomic
def _webhook(pk: int) -> int:
    row = Webhook.objects.select_for_update().filter(pk=pk).first()
    if row is None:
        return 0
    row.secret = _anew("webhook secret", row.secret)
    row.former_secret = row.former_secret and _anew("webhook secret", row.former_secret)
    row.save(update_fields=["secret", "former_secret"])
    return 1


def _anew(purpose: str, kept: str) -> str:
    return cipher_for(purpose).rotate(kept.encode()).decode()
