"""Simulate a security key as a browser registers it."""

import hashlib
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import (
    Aaguid,
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

_ID = b"a key of alice's"


def security_key() -> dict[str, Any]:
    """Return what a browser sends to register a key without attestation."""
    public = ES256.from_cryptography_key(ec.generate_private_key(ec.SECP256R1()).public_key())
    credential = AttestedCredentialData.create(Aaguid.NONE, _ID, public)
    flags = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.AT
    data = AuthenticatorData.create(hashlib.sha256(b"testserver").digest(), flags, 0, credential)
    origin = {"type": "webauthn.create", "challenge": bytes(32), "origin": "http://testserver"}
    response = {
        "clientDataJSON": websafe_encode(CollectedClientData.create(**origin)),
        "attestationObject": websafe_encode(AttestationObject.create("none", data, {})),
    }
    key = websafe_encode(_ID)
    return {"id": key, "rawId": key, "type": "public-key", "response": response}
