"""Encryption of secrets at rest, with keys that are derived from SECRET_KEY."""

import base64
from functools import cache

from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.db import transaction

from accounts.models import Webhook

#: type of second factor -> key of `Authenticator.data` with the encrypted secret
_SEEDS = {Authenticator.Type.TOTP: "secret", Authenticator.Type.RECOVERY_CODES: "seed"}


def cipher_for(purpose: str) -> MultiFernet:
    """Return a cipher that encrypts with SECRET_KEY, and also decrypts with SECRET_KEY_FALLBACKS.

    purpose: kind of the secrets; each purpose has its own key
    """
    return _cipher(purpose, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


@cache
def _cipher(purpose: str, secret_keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(_derive(key, purpose)) for key in secret_keys])


def _derive(secret_key: str, purpose: str) -> bytes:
    kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose.encode())
    return base64.urlsafe_b64encode(kdf.derive(secret_key.encode()))


def reencrypt_secrets() -> int:
    """Re-encrypt all stored secrets with SECRET_KEY, one transaction per row; return how many.

    Raises cryptography.fernet.InvalidToken if none of the keys decrypts a secret.
    """
    count = 0
    for pk in list(Authenticator.objects.filter(type__in=_SEEDS).values_list("pk", flat=True)):
        count += _reencrypt_seed(pk)
    for pk in list(Webhook.objects.values_list("pk", flat=True)):
        count += _reencrypt_webhook(pk)
    return count


@transaction.atomic
def _reencrypt_seed(pk: int) -> int:
    row = Authenticator.objects.select_for_update().filter(pk=pk).first()
    name = _SEEDS[row.type] if row else ""
    if row is None or not row.data.get(name):
        return 0
    row.data[name] = _reencrypt("second factor", row.data[name])
    row.save(update_fields=["data"])
    return 1


@transaction.atomic
def _reencrypt_webhook(pk: int) -> int:
    row = Webhook.objects.select_for_update().filter(pk=pk).first()
    if row is None:
        return 0
    row.secret = _reencrypt("webhook secret", row.secret)
    row.former_secret = row.former_secret and _reencrypt("webhook secret", row.former_secret)
    row.save(update_fields=["secret", "former_secret"])
    return 1


def _reencrypt(purpose: str, ciphertext: str) -> str:
    return cipher_for(purpose).rotate(ciphertext.encode()).decode()
