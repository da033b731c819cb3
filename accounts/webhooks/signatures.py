"""How a receiver knows that a call is ours: the scheme of standardwebhooks.com, version 1.

Signed are id, time and body; one signature for each good secret, so that a receiver can change to
the new one while both sign.
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
    """192 random bits, written as receivers' libraries want them."""
    return PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def sealed(secret: str) -> str:
    return cipher_for(_PURPOSE).encrypt(secret.encode()).decode()


def signed_headers(webhook: Webhook, *, message: str, at: int, body: bytes) -> dict[str, str]:
    """Headers that prove a call; `at`: seconds since the epoch, of this very call."""
    kept = [each for each in (webhook.secret, webhook.former_secret) if each]
    opened = (cipher_for(_PURPOSE).decrypt(each).decode() for each in kept)
    return {
        "webhook-id": message,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(
            signature(secret, message=message, at=at, body=body) for secret in opened
        ),
    }


def signature(secret: str, *, message: str, at: int, body: bytes) -> str:
    """`v1,` and the base64 of HMAC-SHA256 of `id.time.body`; the body is UTF-8."""
    signer = standardwebhooks.Webhook(secret)
    return signer.sign(message, datetime.datetime.fromtimestamp(at, datetime.UTC), body.decode())
