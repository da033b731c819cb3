"""Object storage: from here with the site's keys, and by the address that others use."""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from django.conf import settings

from webprofile.errors import DomainError
from webprofile.operations.healthcheck.finding import Finding, broken, good, odd, reason
from webprofile.operations.healthcheck.web import ask
from webprofile.origins import origin_of
from webprofile.storage import storage

#: below a prefix of its own, so that `manage.py verify` and a reader of the bucket know whose it is
PREFIX = "doctor/"
STEP = "Start the storage, or correct S3_ENDPOINT_URL."
PUBLIC_STEP = "Correct S3_PUBLIC_ENDPOINT_URL, or the proxy in front of the storage."
_BODY = b"what manage.py doctor stores and removes\n"
_MD5 = hashlib.md5(_BODY, usedforsecurity=False).hexdigest()
#: code of S3 -> what to do; https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_STEPS = {
    "NoSuchBucket": "Make the bucket, or correct S3_BUCKET.",
    "InvalidAccessKeyId": "Correct S3_ACCESS_KEY_ID.",
    "SignatureDoesNotMatch": "Correct S3_SECRET_ACCESS_KEY; a proxy must pass Host unchanged.",
    "AccessDenied": "Give these keys the rights to get, put, delete and list in S3_BUCKET.",
    "RequestTimeTooSkewed": "Set this machine's clock (see the line `clock`).",
    "AuthorizationHeaderMalformed": "Correct S3_REGION.",
    "PermanentRedirect": "Correct S3_REGION or S3_ENDPOINT_URL: the bucket is elsewhere.",
    "KMS.NotFoundException": "Correct S3_KMS_KEY_ID.",
    "NotImplemented": "The storage knows no such encryption: empty S3_ENCRYPTION.",
    "InvalidRequest": "The storage wants HTTPS for this encryption, or does not know it.",
}


def objects() -> Finding:
    """Store, read, look at and remove an object, each said by name if it fails."""
    key, doing = _key(), "PUT"
    try:
        storage.write(key, _BODY)
        doing = "GET"
        same = storage.read(key, limit_bytes=len(_BODY)) == _BODY
        doing = "HEAD"
        found = storage.head(key)
        doing = "DELETE"
        storage.delete(key)
    except DomainError as error:
        return _refused(doing, error)
    if not same or found is None or found[0] != len(_BODY):
        return broken("What was stored came back as something else.", "See the storage's log.")
    if found[1] != _MD5:
        text = "Storage tells a wrong checksum of what it stores: no upload would be taken."
        return broken(text, "If the bucket encrypts by KMS, set S3_ENCRYPTION=aws:kms.")
    return good(f"PUT, GET, HEAD and DELETE work at {_host(settings.S3_ENDPOINT_URL)}.")


def presigned() -> Finding:
    """A file goes and comes by presigned addresses, as browsers and agents send it."""
    address = _host(settings.S3_PUBLIC_ENDPOINT_URL)
    with _removed_after() as key:
        url, headers = storage.presign_put(key, size_bytes=len(_BODY), md5=_MD5)
        put = ask("PUT", url, headers=headers, body=_BODY)
        if put.status != 200:
            return _said("PUT", put.status, put.body)
        got = ask("GET", storage.presign_get(key))
        if got.status != 200 or got.body != _BODY:
            return _said("GET", got.status, got.body)
    return good(f"Presigned PUT and GET work at {address}.")


def cross_origin() -> Finding:
    """Ask what a browser asks before it uploads: whether pages of SITE_URL may."""
    origin = origin_of(settings.SITE_URL)
    url, headers = storage.presign_put(_key(), size_bytes=len(_BODY), md5=_MD5, is_browser=True)
    names = ", ".join(sorted(name.lower() for name in headers))
    asked = {"Origin": origin, "Access-Control-Request-Method": "PUT"}
    if names:
        asked["Access-Control-Request-Headers"] = names
    answer = ask("OPTIONS", url, headers=asked)
    allowed = answer.headers.get("Access-Control-Allow-Origin", "")
    methods = answer.headers.get("Access-Control-Allow-Methods", "")
    step = f"Allow GET, PUT and HEAD from {origin} in the bucket's CORS rules."
    if answer.status >= 300 or allowed not in {"*", origin}:
        return broken(f"Browsers may not upload from {origin}: no file would arrive.", step)
    if "PUT" not in methods.upper() and "*" not in methods:
        return broken(f"Browsers may not PUT from {origin}, only {methods or 'nothing'}.", step)
    if missing := _not_allowed(names, answer.headers.get("Access-Control-Allow-Headers", "")):
        text = f"Browsers may not send {missing}, which every upload must."
        return broken(text, f"{step} Allow these headers too.")
    return good(f"Browsers may upload from {origin}.")


def unreachable(text: str) -> Finding:
    """The public address does not answer from here: that may be so, unless it is the inner one."""
    address = settings.S3_PUBLIC_ENDPOINT_URL
    if address == settings.S3_ENDPOINT_URL:
        return broken(text, PUBLIC_STEP)
    step = f"If that is so for browsers too, correct it. Try there: curl -I {address}"
    return odd(f"{text} This machine may be the only one.", step)


def _not_allowed(wanted: str, allowed: str) -> str:
    if "*" in allowed:
        return ""
    there = {name.strip().lower() for name in allowed.split(",")}
    return ", ".join(name for name in wanted.split(", ") if name and name not in there)


def _refused(doing: str, error: DomainError) -> Finding:
    """Words for what storage said, which lies behind our own error."""
    cause = error.__cause__
    told = getattr(cause, "response", {}).get("Error", {})
    where = _host(settings.S3_ENDPOINT_URL)
    if code := told.get("Code", ""):
        text = f"{doing} at {where} was refused: {code}."
        return broken(text, _STEPS.get(code, "See the storage's log."))
    if "redentials" in str(cause):
        return broken(f"{doing}: {reason(cause or error)}", "Set S3_ACCESS_KEY_ID and its secret.")
    return broken(f"{doing} at {where}: {reason(cause or error)}", STEP)


def _said(doing: str, status: int, body: bytes) -> Finding:
    text = body.decode(errors="replace")
    code = next((code for code in _STEPS if f"<Code>{code}</Code>" in text), "")
    where = _host(settings.S3_PUBLIC_ENDPOINT_URL)
    said = f"A presigned {doing} at {where} was answered with {status} {code}".rstrip()
    return broken(f"{said}.", _STEPS.get(code, PUBLIC_STEP))


@contextmanager
def _removed_after() -> Iterator[str]:
    key = _key()
    try:
        yield key
    finally:
        # that it cannot be removed is said where the site's own way is tried
        with suppress(DomainError):
            storage.delete(key)


def _key() -> str:
    return f"{PREFIX}{secrets.token_hex(8)}"


def _host(address: str) -> str:
    return origin_of(address) if urlsplit(address).scheme else "AWS"
