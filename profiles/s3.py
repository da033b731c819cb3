"""The client of object storage: the only user of boto3.

There are two: the server's own way to storage, and one that signs for the address which browsers
and agents use (a container often cannot reach that one itself).
"""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import structlog
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings

from webprofile.errors import DomainError
from webprofile.meters import storage_watch

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

log = structlog.get_logger()

_CONFIG = Config(
    signature_version="s3v4",
    connect_timeout=5,
    read_timeout=30,
    retries={"max_attempts": 3, "mode": "standard"},
    # checksums that boto3 adds by itself are unknown to several S3 servers
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)

#: the first client takes 0.2 s of a core to make: of threads that begin together one makes it
_making = threading.Lock()


def client(endpoint_url: str) -> "S3Client":
    with _making:
        return client_made(endpoint_url)


@cache
def client_made(endpoint_url: str) -> "S3Client":
    """Ask `client` for one; this is here to be forgotten (`cache_clear`)."""
    made = boto3.client(
        "s3",
        endpoint_url=endpoint_url or None,
        aws_access_key_id=settings.S3_ACCESS_KEY_ID or None,
        aws_secret_access_key=settings.S3_SECRET_ACCESS_KEY or None,
        region_name=settings.S3_REGION,
        verify=settings.S3_CA_BUNDLE or None,
        config=_CONFIG.merge(Config(s3={"addressing_style": settings.S3_ADDRESSING})),
    )
    storage_watch(made)
    return made


def keeping(md5: str | None = None) -> Any:
    """How a new object is to be kept, for every call that makes one.

    An ETag is no MD5 where a key of KMS encrypts (AWS, API reference of Object), so the MD5 goes
    with the object; who stores it must have storage check it by Content-MD5.
    """
    if not settings.S3_ENCRYPTION:
        return {}
    kept: dict[str, Any] = {"ServerSideEncryption": settings.S3_ENCRYPTION}
    if is_by_kms():
        if settings.S3_KMS_KEY_ID:
            kept["SSEKMSKeyId"] = settings.S3_KMS_KEY_ID
        if md5 is not None:
            kept["Metadata"] = {"md5": md5}
    return kept


def is_by_kms() -> bool:
    return str(settings.S3_ENCRYPTION).startswith("aws:kms")


def md5_of(found: Any) -> str:
    """The hexadecimal MD5 of an object that was looked at; no MD5 at all if nobody told."""
    if str(found.get("ServerSideEncryption", "")).startswith("aws:kms"):
        return str(found.get("Metadata", {}).get("md5", ""))
    return str(found["ETag"]).strip('"')


def base64_of(md5: str) -> str:
    return base64.b64encode(bytes.fromhex(md5)).decode()


@contextmanager
def answering() -> Iterator[None]:
    """Turn what storage says no with into DomainError: object_missing, storage_unreachable."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in {"404", "NoSuchKey", "NoSuchUpload", "NotFound"}:
            raise DomainError("object_missing", status=404) from error
        raise DomainError("storage_unreachable", status=503) from error
    except BotoCoreError as error:
        raise DomainError("storage_unreachable", status=503) from error


def internal() -> "S3Client":
    return client(settings.S3_ENDPOINT_URL)


def public() -> "S3Client":
    return client(settings.S3_PUBLIC_ENDPOINT_URL)


def clients_prepare() -> None:
    """Make both clients, so that no request waits for them; asks storage nothing.

    What is wrong with the settings says whoever needs storage, and `manage.py doctor`. Without keys
    the machine's role is asked for by network, and an answer that does not come would be kept.
    """
    if not settings.S3_ACCESS_KEY_ID:
        return
    for make in (internal, public):
        try:
            make()
        except (BotoCoreError, ValueError) as error:
            log.warning("storage_client_not_made", error=repr(error))
