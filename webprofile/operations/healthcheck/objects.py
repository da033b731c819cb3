"""Checks of object storage, from the server and through its public address."""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from django.conf import settings

from webprofile.errors import DomainError
from webprofile.operations.healthcheck.finding import Finding, broken, good, reason, warning
from webprofile.operations.healthcheck.web import ask
from webprofile.origins import origin_of
from webprofile.storage import storage

#: prefix of the checks' objects, by which `manage.py verify` recognises them
PREFIX = "doctor/"
STEP = "Start the storage, or correct S3_ENDPOINT_URL."
PUBLIC_STEP = "Correct S3_PUBLIC_ENDPOINT_URL, or the proxy in front of the storage."
_BODY = b"what manage.py doctor stores and removes\n"
_MD5 = hashlib.md5(_BODY, usedforsecurity=False).hexdigest()
#: S3 error code -> suggested fix; https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_STEPS = {
    "NoSuchBucket": "Run `manage.py storage_prepare` to create it, or correct S3_BUCKET.",
    "InvalidAccessKeyId": "Correct S3_ACCESS_KEY_ID.",
    "SignatureDoesNotMatch": "Correct S3_SECRET_ACCESS_KEY; a proxy must not change Host.",
    "AccessDenied": "Allow these keys to get, put, delete and list objects in S3_BUCKET.",
    "RequestTimeTooSkewed": "Set this machine's clock (see the line `clock`).",
    "AuthorizationHeaderMalformed": "Correct S3_REGION.",
    "PermanentRedirect": "Correct S3_REGION or S3_ENDPOINT_URL: the bucket has another endpoint.",
    "KMS.NotFoundException": "Correct S3_KMS_KEY_ID.",
    "NotImplemented": "Leave S3_ENCRYPTION empty: the storage does not support this encryption.",
    "InvalidRequest": "The storage requires HTTPS for this encryption, or does not support it.",
}
_ELSE = "See the log of the storage."


def objects() -> Finding:
    """Write, read, inspect and delete an object; the finding names the request that fails."""
    key, method = _key(), "PUT"
    try:
        storage.write(key, _BODY)
        method = "GET"
        same = storage.read(key, limit_bytes=len(_BODY)) == _BODY
        method = "HEAD"
        size_and_md5 = storage.head(key)
        method = "DELETE"
        storage.delete(key)
    except DomainError as error:
        return _refused(method, error)
    if not same or size_and_md5 is None or size_and_md5[0] != len(_BODY):
        return broken("The object that was read is not the one that was stored.", _ELSE)
    if size_and_md5[1] != _MD5:
        text = "The storage returns a wrong checksum, so every upload would be rejected."
        return broken(text, "If the bucket encrypts with KMS, set S3_ENCRYPTION=aws:kms.")
    return good(f"PUT, GET, HEAD and DELETE work at {_host(settings.S3_ENDPOINT_URL)}.")


def presigned() -> Finding:
    """Upload and download a file with presigned URLs, as browsers and agents do."""
    address = _host(settings.S3_PUBLIC_ENDPOINT_URL)
    with _temporary_key() as key:
        url, headers = storage.presign_put(key, size_bytes=len(_BODY), md5=_MD5)
        put = ask("PUT", url, headers=headers, body=_BODY)
        if put.status != 200:
            return _unexpected("PUT", put.status, put.body)
        got = ask("GET", storage.presign_get(key))
        if got.status != 200 or got.body != _BODY:
            return _unexpected("GET", got.status, got.body)
    return good(f"Presigned PUT and GET work at {address}.")


def cross_origin() -> Finding:
    """Send the CORS preflight request of an upload from a page of SITE_URL."""
    origin = origin_of(settings.SITE_URL)
    url, headers = storage.presign_put(_key(), size_bytes=len(_BODY), md5=_MD5, is_browser=True)
    names = ", ".join(sorted(name.lower() for name in headers))
    preflight = {"Origin": origin, "Access-Control-Request-Method": "PUT"}
    if names:
        preflight["Access-Control-Request-Headers"] = names
    answer = ask("OPTIONS", url, headers=preflight)
    allowed = answer.headers.get("Access-Control-Allow-Origin", "")
    methods = answer.headers.get("Access-Control-Allow-Methods", "")
    step = f"Allow GET, PUT and HEAD from {origin} in the bucket's CORS rules."
    if answer.status >= 300 or allowed not in {"*", origin}:
        return broken(f"Uploads from {origin} are not allowed: browsers block them.", step)
    if "PUT" not in methods.upper() and "*" not in methods:
        return broken(f"PUT from {origin} is not allowed, only {methods or 'no method'}.", step)
    if missing := _not_allowed(names, answer.headers.get("Access-Control-Allow-Headers", "")):
        text = f"Headers that every upload needs are not allowed: {missing}."
        return broken(text, f"{step} Allow these headers, too.")
    return good(f"Uploads from {origin} are allowed.")


def unreachable(text: str) -> Finding:
    """Return the finding about a public address that does not respond to this machine.

    It may still respond to browsers, unless it is the same as the internal address.
    """
    address = settings.S3_PUBLIC_ENDPOINT_URL
    if settings.S3_ENDPOINT_URL in {address, ""}:  # AWS, if it is empty
        return broken(text, PUBLIC_STEP)
    step = (
        "If browsers cannot reach it either, correct S3_PUBLIC_ENDPOINT_URL. Test on a user's "
        f"machine: curl -I {address}"
    )
    return warning(f"{text} Browsers may still reach it.", step)


def _not_allowed(required: str, allowed: str) -> str:
    if "*" in allowed:
        return ""
    allowed_names = {name.strip().lower() for name in allowed.split(",")}
    return ", ".join(name for name in required.split(", ") if name and name not in allowed_names)


def _refused(method: str, error: DomainError) -> Finding:
    """Return the finding for an error of storage, which is the cause of the DomainError."""
    cause = error.__cause__
    details = getattr(cause, "response", {}).get("Error", {})
    host = _host(settings.S3_ENDPOINT_URL)
    if code := details.get("Code", ""):
        text = f"{method} at {host} was refused: {code}."
        return broken(text, _STEPS.get(code, _ELSE))
    if "redentials" in str(cause):
        step = "Set S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY."
        return broken(f"{method}: {reason(cause or error)}", step)
    return broken(f"{method} at {host}: {reason(cause or error)}", STEP)


def _unexpected(method: str, status: int, body: bytes) -> Finding:
    text = body.decode(errors="replace")
    code = next((code for code in _STEPS if f"<Code>{code}</Code>" in text), "")
    host = _host(settings.S3_PUBLIC_ENDPOINT_URL)
    sentence = f"A presigned {method} at {host} returned {status} {code}".rstrip()
    return broken(f"{sentence}.", _STEPS.get(code, PUBLIC_STEP))


@contextmanager
def _temporary_key() -> Iterator[str]:
    """Yield a key and delete its object afterwards."""
    key = _key()
    try:
        yield key
    finally:
        # `objects` reports an object that cannot be deleted
        with suppress(DomainError):
            storage.delete(key)


def _key() -> str:
    return f"{PREFIX}{secrets.token_hex(8)}"


def _host(address: str) -> str:
    return origin_of(address) if urlsplit(address).scheme else "AWS"
