"""Signatures of webhook calls, as specified by standardwebhooks.com, version 1.

A signature covers id, time and body. There is one for each valid secret, so that a receiver can
switch to a new secret while both sign.
"""

import base64
import datetime
import secrets

import standardwebhooks

from accounts.encryption import cipher_for
from accounts.models import Webhook

PREFIX = "whsec_"
_PURPOSE = "webhook secret"


def new_secret() -> str:
    """Return a new secret of 192 random bits in the format of Standard Webhooks."""
    return PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def encrypt_secret(secret: str) -> str:
    return cipher_for(_PURPOSE).encrypt(secret.encode()).decode()


def signed_headers(webhook: Webhook, *, message: str, at: int, body: bytes) -> dict[str, str]:
    """Return the signature headers of a call.

    at: time of the call, seconds since the epoch
    """
    stored = [secret for secret in (webhook.secret, webhook.former_secret) if secret]
    decrypted = (cipher_for(_PURPOSE).decrypt(secret).decode() for secret in stored)
    return {
        "webhook-id": message,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(
            signature(secret, message=message, at=at, body=body) for secret in decrypted
        ),
    }


def signature(secret: str, *, message: str, at: int, body: bytes) -> str:
    """Return `v1,` and the base64 of the HMAC-SHA256 of `id.time.body`; the body is UTF-8."""
    signer = standardwebhooks.Webhook(secret)
    return signer.sign(message, datetime.datetime.fromtimestamp(at, datetime.UTC), body.decode())
