"""Object storage: the only user of boto3.

Two clients: the server's own way to storage, and one that signs for the address which browsers
and agents use (a container often cannot reach that one itself). Signing is arithmetic and needs no
network.
"""

import base64
import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import IO, TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.utils.http import content_disposition_header

from webprofile.errors import DomainError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CopySourceTypeDef


@dataclass(frozen=True)
class Listed:
    """An object of the bucket; `md5` as `head` has it."""

    key: str
    size_bytes: int
    md5: str
    modified_at: datetime.datetime


_CONFIG = Config(
    signature_version="s3v4",
    s3={"addressing_style": "path"},
    connect_timeout=5,
    read_timeout=30,
    retries={"max_attempts": 3, "mode": "standard"},
    # checksums that boto3 adds by itself are unknown to several S3 servers
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


@cache
def _client(endpoint_url: str) -> "S3Client":
    return boto3.client(
        "s3",
        endpoint_url=endpoint_url,
        aws_access_key_id=settings.S3_ACCESS_KEY_ID,
        aws_secret_access_key=settings.S3_SECRET_ACCESS_KEY,
        region_name=settings.S3_REGION,
        config=_CONFIG,
    )


@contextmanager
def _answering() -> Iterator[None]:
    """Turn what storage says no with into DomainError: object_missing, storage_unreachable."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in {"404", "NoSuchKey", "NotFound"}:
            raise DomainError("object_missing", status=404) from error
        raise DomainError("storage_unreachable", status=503) from error
    except BotoCoreError as error:
        raise DomainError("storage_unreachable", status=503) from error


def _internal() -> "S3Client":
    return _client(settings.S3_ENDPOINT_URL)


def presign_put(key: str, *, size_bytes: int, md5: str | None = None) -> tuple[str, dict[str, str]]:
    """Return (URL, headers) for one PUT of this many bytes, valid for some minutes.

    The length is part of the signature, and with `md5` the checksum too: storage then refuses other
    bytes by itself. Browsers get no `md5`: before they send its header they ask whether they may,
    and the answer of some S3 servers (rclone 1.75) has a fixed list without it.
    """
    params: dict[str, Any] = {
        "Bucket": settings.S3_BUCKET,
        "Key": key,
        "ContentLength": size_bytes,
    }
    headers = {}
    if md5 is not None:
        params["ContentMD5"] = base64.b64encode(bytes.fromhex(md5)).decode()
        headers["Content-MD5"] = params["ContentMD5"]
    url = _client(settings.S3_PUBLIC_ENDPOINT_URL).generate_presigned_url(
        "put_object", Params=params, ExpiresIn=settings.PRESIGN_EXPIRY_S
    )
    return url, headers


def presign_get(key: str, *, filename: str | None = None, expires_s: int | None = None) -> str:
    """Return a URL for one object, valid for some minutes; `filename` makes browsers save it."""
    params = {"Bucket": settings.S3_BUCKET, "Key": key}
    if filename is not None:
        params["ResponseContentDisposition"] = content_disposition_header(True, filename) or ""
    return _client(settings.S3_PUBLIC_ENDPOINT_URL).generate_presigned_url(
        "get_object", Params=params, ExpiresIn=expires_s or settings.PRESIGN_EXPIRY_S
    )


def head(key: str) -> tuple[int, str] | None:
    """Return (size in bytes, hexadecimal MD5) of an object, None if there is none.

    An object stored by a single PUT has its MD5 as ETag. Raises DomainError storage_unreachable.
    """
    try:
        with _answering():
            found = _internal().head_object(Bucket=settings.S3_BUCKET, Key=key)
    except DomainError as error:
        if error.code == "object_missing":
            return None
        raise
    return found["ContentLength"], found["ETag"].strip('"')


def read(key: str, *, limit_bytes: int) -> bytes:
    """Return an object's bytes.

    Raises DomainError: object_missing, object_too_large, storage_unreachable.
    """
    with _answering():
        found = _internal().get_object(Bucket=settings.S3_BUCKET, Key=key)
        if found["ContentLength"] > limit_bytes:
            found["Body"].close()
            raise DomainError("object_too_large", size=found["ContentLength"], limit=limit_bytes)
        return found["Body"].read()


def read_start(key: str, *, size_bytes: int) -> bytes:
    """Return the first bytes of an object, all of it if it is smaller.

    Raises DomainError: object_missing, storage_unreachable.
    """
    span = f"bytes=0-{size_bytes - 1}"
    with _answering():
        found = _internal().get_object(Bucket=settings.S3_BUCKET, Key=key, Range=span)
        return found["Body"].read(size_bytes)


def read_into(key: str, file: IO[bytes], *, limit_bytes: int) -> None:
    """Write an object's bytes into `file`, piece by piece.

    Raises DomainError: object_missing, object_too_large, storage_unreachable.
    """
    with _answering():
        found = _internal().get_object(Bucket=settings.S3_BUCKET, Key=key)
        if found["ContentLength"] > limit_bytes:
            found["Body"].close()
            raise DomainError("object_too_large", size=found["ContentLength"], limit=limit_bytes)
        for piece in found["Body"].iter_chunks(1 << 20):
            file.write(piece)


def write(key: str, data: bytes) -> None:
    """Store an object, replacing one of the same key. Raises DomainError storage_unreachable."""
    with _answering():
        _internal().put_object(Bucket=settings.S3_BUCKET, Key=key, Body=data)


def copy(source_key: str, target_key: str) -> tuple[int, str]:
    """Copy an object inside storage; return its (size in bytes, hexadecimal MD5) as `head` does.

    Raises DomainError: object_missing, storage_unreachable.
    """
    source: CopySourceTypeDef = {"Bucket": settings.S3_BUCKET, "Key": source_key}
    with _answering():
        _internal().copy_object(Bucket=settings.S3_BUCKET, Key=target_key, CopySource=source)
    found = head(target_key)
    if found is None:
        raise DomainError("object_missing", status=404)
    return found


def delete(key: str) -> None:
    """Remove an object; one that is not there is fine. Raises DomainError storage_unreachable."""
    try:
        _internal().delete_object(Bucket=settings.S3_BUCKET, Key=key)
    except (ClientError, BotoCoreError) as error:
        raise DomainError("storage_unreachable", status=503) from error


def write_from(key: str, file: IO[bytes]) -> None:
    """Store what a file holds, in one PUT, so that its ETag is its MD5.

    Raises DomainError storage_unreachable.
    """
    with _answering():
        _internal().put_object(Bucket=settings.S3_BUCKET, Key=key, Body=file)


def delete_below(prefix: str) -> int:
    """Remove every object whose key starts with `prefix`, which ends in a slash; return how many.

    Raises DomainError storage_unreachable.
    """
    if len(prefix) < 2 or not prefix.endswith("/"):
        raise ValueError(prefix)
    count = 0
    with _answering():
        pages = _internal().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=settings.S3_BUCKET, Prefix=prefix):
            for found in page.get("Contents", []):
                _internal().delete_object(Bucket=settings.S3_BUCKET, Key=found["Key"])
                count += 1
    return count


def pages() -> Iterator[list[Listed]]:
    """All objects of the bucket in the order of their keys, a page of at most 1,000 at a time.

    Raises DomainError storage_unreachable.
    """
    with _answering():
        listing = _internal().get_paginator("list_objects_v2")
        for page in listing.paginate(Bucket=settings.S3_BUCKET):
            yield [
                Listed(row["Key"], row["Size"], row["ETag"].strip('"'), row["LastModified"])
                for row in page.get("Contents", [])
            ]
