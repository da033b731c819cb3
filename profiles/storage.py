"""Object storage: what the site does with it.

Addresses are signed for the way that browsers and agents take. Signing is arithmetic and needs no
network.
"""

import datetime
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.utils.http import content_disposition_header

from agent.protocol.parts import Checksum
from profiles.s3 import answering, base64_of, internal, is_by_kms, keeping, md5_of, public
from webprofile.errors import DomainError

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, CopySourceTypeDef, CORSRuleTypeDef


@dataclass(frozen=True)
class Listed:
    """An object of the bucket; `md5` as `head` has it, empty where only `head` can tell."""

    key: str
    size_bytes: int
    md5: str
    modified_at: datetime.datetime


@dataclass(frozen=True)
class Unfinished:
    """An upload in parts that was neither joined nor aborted."""

    key: str
    upload_id: str
    began_at: datetime.datetime


class PartsRefusedError(Exception):
    """Storage knows the upload, and refuses to join its parts as they were named."""


#: parameter of boto3 -> the header that is signed, so whoever uploads must send it
_HEADERS = {
    "ContentMD5": "Content-MD5",
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
}


def presign_put(
    key: str, *, size_bytes: int, md5: str, is_browser: bool = False
) -> tuple[str, dict[str, str]]:
    """Return (URL, headers) for one PUT of this many bytes, valid for some minutes.

    The length is part of the signature, and the checksum too: storage then refuses other bytes by
    itself. Browsers send no checksum where the ETag is one: before they send its header they ask
    whether they may, and the answer of some S3 servers (rclone 1.75) has a fixed list without it.
    """
    params: dict[str, Any] = keeping(md5)
    if is_by_kms() or not is_browser:
        params["ContentMD5"] = base64_of(md5)
    return _presigned("put_object", key, params, size_bytes=size_bytes)


def _presigned(
    method: str, key: str, params: dict[str, Any], *, size_bytes: int
) -> tuple[str, dict[str, str]]:
    """(URL, headers) for one request that carries so many bytes."""
    params |= {"Bucket": settings.S3_BUCKET, "Key": key, "ContentLength": size_bytes}
    headers = {name: params[word] for word, name in _HEADERS.items() if word in params}
    if "Metadata" in params:
        headers["x-amz-meta-md5"] = params["Metadata"]["md5"]
    url = public().generate_presigned_url(
        method, Params=params, ExpiresIn=settings.PRESIGN_EXPIRY_S
    )
    return url, headers


def presign_get(key: str, *, filename: str | None = None, expires_s: int | None = None) -> str:
    """Return a URL for one object, valid for some minutes; browsers save it as `filename`.

    Whatever its uploader called it, it is bytes to be saved: opened in a browser it is no page.
    """
    params = {
        "Bucket": settings.S3_BUCKET,
        "Key": key,
        "ResponseContentType": "application/octet-stream",
        "ResponseContentDisposition": content_disposition_header(True, filename or "file") or "",
    }
    return public().generate_presigned_url(
        "get_object", Params=params, ExpiresIn=expires_s or settings.PRESIGN_EXPIRY_S
    )


def prepare(origins: Sequence[str]) -> tuple[bool, bool]:
    """Make the bucket if there is none, and let pages of `origins` read and write by its addresses.

    Return whether it was made, and whether storage took the rules: MinIO has one setting for all
    its buckets instead (MINIO_API_CORS_ALLOW_ORIGIN). Raises DomainError storage_unreachable.
    """
    s3, bucket = internal(), settings.S3_BUCKET
    made = False
    with answering():
        try:
            s3.head_bucket(Bucket=bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] not in {"404", "NoSuchBucket"}:
                raise
            _create_bucket(s3, bucket)
            made = True
    rule: CORSRuleTypeDef = {
        "AllowedOrigins": list(origins),
        "AllowedMethods": ["GET", "HEAD", "PUT"],
        "AllowedHeaders": ["*"],
        # what a browser must read to put the parts of a file together, and to know a range
        "ExposeHeaders": ["ETag", "Content-Range"],
        "MaxAgeSeconds": 3600,
    }
    try:
        s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    except ClientError:
        return made, False
    return made, True


def _create_bucket(s3: "S3Client", bucket: str) -> None:
    # Amazon's first region is none that may be named
    if settings.S3_REGION == "us-east-1":
        s3.create_bucket(Bucket=bucket)
        return
    where: Any = {"LocationConstraint": settings.S3_REGION}
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)


def head(key: str) -> tuple[int, str] | None:
    """Return (size in bytes, hexadecimal MD5) of an object, None if there is none.

    An object stored by a single PUT has its MD5 as ETag, or beside it (`keeping`).
    Raises DomainError storage_unreachable.
    """
    try:
        with answering():
            found = internal().head_object(Bucket=settings.S3_BUCKET, Key=key)
    except DomainError as error:
        if error.code == "object_missing":
            return None
        raise
    return found["ContentLength"], md5_of(found)


def may_be_same(told: str, known: str) -> bool:
    """Whether an object that storage tells by one sum may be what was known by another one.

    A bucket that was copied or restored may have in one piece what came in parts, or the other way
    round, and the ETag of parts ("...-7") says nothing of the MD5 of the whole.
    """
    return told == known or ("-" in told) != ("-" in known)


def read(key: str, *, limit_bytes: int) -> bytes:
    """Return an object's bytes.

    Raises DomainError: object_missing, object_too_large, storage_unreachable.
    """
    with answering():
        return _body(key, limit_bytes).read()


def read_start(key: str, *, size_bytes: int, begin: int = 0) -> bytes:
    """Return the first bytes of an object (or from `begin` on), all of it if it is smaller.

    Raises DomainError: object_missing, storage_unreachable.
    """
    span = f"bytes={begin}-{begin + size_bytes - 1}"
    with answering():
        found = internal().get_object(Bucket=settings.S3_BUCKET, Key=key, Range=span)
        return found["Body"].read(size_bytes)


def read_into(key: str, file: IO[bytes], *, limit_bytes: int) -> None:
    """Write an object's bytes into `file`, piece by piece.

    Raises DomainError: object_missing, object_too_large, storage_unreachable.
    """
    with answering():
        for piece in _body(key, limit_bytes).iter_chunks(1 << 20):
            file.write(piece)


def _body(key: str, limit_bytes: int) -> "StreamingBody":
    found = internal().get_object(Bucket=settings.S3_BUCKET, Key=key)
    if found["ContentLength"] > limit_bytes:
        found["Body"].close()
        raise DomainError("object_too_large", size=found["ContentLength"], limit=limit_bytes)
    return found["Body"]


def checksum_of(key: str, part_bytes: int) -> str:
    """Read an object and return its checksum, over parts of this size.

    Raises DomainError object_missing, storage_unreachable.
    """
    checksum = Checksum(part_bytes)
    with answering():
        found = internal().get_object(Bucket=settings.S3_BUCKET, Key=key)
        for piece in found["Body"].iter_chunks(1 << 20):
            checksum.update(piece)
    return checksum.hexdigest()


def write(key: str, data: bytes) -> None:
    """Store an object, replacing one of the same key. Raises DomainError storage_unreachable."""
    with answering():
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
        internal().put_object(
            Bucket=settings.S3_BUCKET, Key=key, Body=data, ContentMD5=base64_of(md5), **keeping(md5)
        )


def copy(source_key: str, target_key: str) -> tuple[int, str]:
    """Copy an object inside storage; return its (size in bytes, hexadecimal MD5) as `head` does.

    Raises DomainError: object_missing, storage_unreachable.
    """
    source: CopySourceTypeDef = {"Bucket": settings.S3_BUCKET, "Key": source_key}
    with answering():
        # what the source says of itself, its MD5 among it, is copied too
        internal().copy_object(
            Bucket=settings.S3_BUCKET, Key=target_key, CopySource=source, **keeping()
        )
    found = head(target_key)
    if found is None:
        raise DomainError("object_missing", status=404)
    return found


def delete(key: str) -> None:
    """Remove an object; one that is not there is fine. Raises DomainError storage_unreachable."""
    try:
        internal().delete_object(Bucket=settings.S3_BUCKET, Key=key)
    except (ClientError, BotoCoreError) as error:
        raise DomainError("storage_unreachable", status=503) from error


def write_from(key: str, file: IO[bytes]) -> None:
    """Store what a file holds from its beginning, in one PUT, so that `head` tells its MD5.

    Raises DomainError storage_unreachable.
    """
    with answering():
        file.seek(0)
        digest = hashlib.md5(usedforsecurity=False)
        while piece := file.read(1 << 20):
            digest.update(piece)
        md5 = digest.hexdigest()
        file.seek(0)
        internal().put_object(
            Bucket=settings.S3_BUCKET, Key=key, Body=file, ContentMD5=base64_of(md5), **keeping(md5)
        )


def delete_below(prefix: str) -> int:
    """Remove every object whose key starts with `prefix`, which ends in a slash; return how many.

    Raises DomainError storage_unreachable.
    """
    if len(prefix) < 2 or not prefix.endswith("/"):
        raise ValueError(prefix)
    count = 0
    with answering():
        pages = internal().get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=settings.S3_BUCKET, Prefix=prefix):
            for found in page.get("Contents", []):
                internal().delete_object(Bucket=settings.S3_BUCKET, Key=found["Key"])
                count += 1
    return count


def parts_begin(key: str) -> str:
    """Begin an object that comes in parts; return storage's name for the upload.

    Nobody sees anything of it before `parts_join`. Raises DomainError storage_unreachable.
    """
    with answering():
        begun = internal().create_multipart_upload(Bucket=settings.S3_BUCKET, Key=key, **keeping())
    return begun["UploadId"]


def presign_part(
    key: str, upload_id: str, number: int, *, size_bytes: int, md5: str | None = None
) -> tuple[str, dict[str, str]]:
    """As `presign_put`, for one part (numbers begin at 1) of one upload, and nothing else."""
    params: dict[str, Any] = {"UploadId": upload_id, "PartNumber": number}
    if md5 is not None:
        params["ContentMD5"] = base64_of(md5)
    return _presigned("upload_part", key, params, size_bytes=size_bytes)


def parts_stored(key: str, upload_id: str) -> dict[int, tuple[int, str]] | None:
    """Return (size in bytes, hexadecimal MD5) by number; None if storage knows no such upload.

    Raises DomainError storage_unreachable.
    """
    found: dict[int, tuple[int, str]] = {}
    pages = internal().get_paginator("list_parts")
    try:
        with answering():
            for page in pages.paginate(Bucket=settings.S3_BUCKET, Key=key, UploadId=upload_id):
                for part in page.get("Parts", []):
                    found[part["PartNumber"]] = (part["Size"], part["ETag"].strip('"'))
    except DomainError as error:
        if error.code == "object_missing":
            return None
        raise
    return found


def parts_join(key: str, upload_id: str, md5s: Sequence[str]) -> str:
    """Make the object of all parts, which must have these MD5s; returns its ETag.

    Raises PartsRefusedError; DomainError object_missing if there is no such upload (any more),
    storage_unreachable.
    """
    parts: list[CompletedPartTypeDef] = [
        {"PartNumber": number, "ETag": f'"{md5}"'} for number, md5 in enumerate(md5s, start=1)
    ]
    with answering():
        try:
            found = internal().complete_multipart_upload(
                Bucket=settings.S3_BUCKET,
                Key=key,
                UploadId=upload_id,
                MultipartUpload={"Parts": parts},
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "InvalidPart":
                raise PartsRefusedError from error
            raise
    return found["ETag"].strip('"')


def parts_abort(key: str, upload_id: str) -> None:
    """Remove all parts; an upload that is not there is fine.

    Raises DomainError storage_unreachable.
    """
    try:
        with answering():
            internal().abort_multipart_upload(
                Bucket=settings.S3_BUCKET, Key=key, UploadId=upload_id
            )
    except DomainError as error:
        if error.code != "object_missing":
            raise


def unfinished() -> Iterator[Unfinished]:
    """All uploads in parts that were neither joined nor aborted.

    Raises DomainError storage_unreachable.
    """
    listing = internal().get_paginator("list_multipart_uploads")
    try:
        with answering():
            for page in listing.paginate(Bucket=settings.S3_BUCKET):
                for row in page.get("Uploads", []):
                    yield Unfinished(row["Key"], row["UploadId"], row["Initiated"])
    except DomainError as error:
        # some servers call a bucket in which nothing ever came in parts unknown
        if error.code != "object_missing":
            raise


def pages() -> Iterator[list[Listed]]:
    """All objects of the bucket in the order of their keys, a page of at most 1,000 at a time.

    Raises DomainError storage_unreachable.
    """
    with answering():
        listing = internal().get_paginator("list_objects_v2")
        for page in listing.paginate(Bucket=settings.S3_BUCKET):
            yield [
                Listed(row["Key"], row["Size"], _listed_md5(row["ETag"]), row["LastModified"])
                for row in page.get("Contents", [])
            ]


def _listed_md5(etag: str) -> str:
    return "" if is_by_kms() else etag.strip('"')
