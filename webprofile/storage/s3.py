"""The default storage: django-storages' backend for S3 with what the site needs beyond files.

Presigned addresses, uploads in parts, MD5s and copies go through the client that the backend makes;
nothing else in the server makes one. Addresses are signed for the way that browsers and agents
take. Signing is arithmetic and needs no network.
"""

import base64
import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, ClassVar

import structlog
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.utils.http import content_disposition_header
from storages.backends.s3 import S3Storage

from agent.protocol.parts import Checksum
from webprofile.errors import DomainError
from webprofile.observability.counters import storage_watch
from webprofile.storage import Listed, PartsRefusedError, Unfinished

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, CopySourceTypeDef, CORSRuleTypeDef

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

#: parameter of boto3 -> the header that is signed, so whoever uploads must send it
_HEADERS = {
    "ContentMD5": "Content-MD5",
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
}


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


def base64_of(md5: str) -> str:
    return base64.b64encode(bytes.fromhex(md5)).decode()


def is_by_kms() -> bool:
    return str(settings.S3_ENCRYPTION).startswith("aws:kms")


def md5_of(found: Any) -> str:
    """The hexadecimal MD5 of an object that was looked at; no MD5 at all if nobody told."""
    if str(found.get("ServerSideEncryption", "")).startswith("aws:kms"):
        return str(found.get("Metadata", {}).get("md5", ""))
    return str(found["ETag"]).strip('"')


class ObjectStorage(S3Storage):
    """The bucket of the site.

    `open`, `save` and the rest of Django's interface are the backend's own. What the site asks for
    itself raises DomainError.
    """

    #: of all threads and instances, by what decides how they are made
    clients: ClassVar[dict[tuple[Any, ...], "S3Client"]] = {}
    #: the first client takes 0.2 s of a core to make: of threads that begin together one makes it
    _making = threading.Lock()

    def get_default_settings(self) -> dict[str, Any]:
        """The site's own settings in place of AWS_*, which only boto3's search for a role reads."""
        addressing = Config(s3={"addressing_style": settings.S3_ADDRESSING})
        kept: dict[str, Any] = {}
        if settings.S3_ENCRYPTION:
            kept["ServerSideEncryption"] = settings.S3_ENCRYPTION
        if is_by_kms() and settings.S3_KMS_KEY_ID:
            kept["SSEKMSKeyId"] = settings.S3_KMS_KEY_ID
        return {
            **super().get_default_settings(),
            "access_key": settings.S3_ACCESS_KEY_ID or None,
            "secret_key": settings.S3_SECRET_ACCESS_KEY or None,
            "security_token": None,
            "session_profile": None,
            "bucket_name": settings.S3_BUCKET,
            "endpoint_url": settings.S3_ENDPOINT_URL or None,
            "region_name": settings.S3_REGION,
            "addressing_style": settings.S3_ADDRESSING,
            "verify": settings.S3_CA_BUNDLE or None,
            "object_parameters": kept,
            "client_config": _CONFIG.merge(addressing),
        }

    @property
    def client(self) -> "S3Client":
        """The client of the server's own requests.

        All threads share it: a client may be shared, while the backend's `connection` is made for
        each thread, and each request has a thread of its own.
        """
        made_with = (
            self.endpoint_url, self.access_key, self.secret_key, self.region_name,
            self.addressing_style, self.verify,
        )  # fmt: skip
        with self._making:
            if made_with not in self.clients:
                made = self.connection.meta.client
                storage_watch(made)
                self.clients[made_with] = made
            return self.clients[made_with]

    @cached_property
    def public(self) -> "ObjectStorage":
        """The same bucket at the address that browsers and agents use; it only signs.

        A container often cannot reach that address itself.
        """
        return ObjectStorage(endpoint_url=settings.S3_PUBLIC_ENDPOINT_URL or None)

    def clients_prepare(self) -> None:
        """Make both clients, so that no request waits for them; asks storage nothing.

        What is wrong with the settings says whoever needs storage, and `manage.py doctor`. Without
        keys the machine's role is asked for by network, and an answer that does not come would be
        kept.
        """
        if not self.access_key:
            return
        for where in (self, self.public):
            try:
                _ = where.client
            except (BotoCoreError, ValueError) as error:
                log.warning("storage_client_not_made", error=repr(error))

    def _keeping(self, key: str, md5: str | None = None) -> Any:
        """How a new object is to be kept, for every call that makes one.

        An ETag is no MD5 where a key of KMS encrypts (AWS, API reference of Object), so the MD5
        goes with the object; who stores it must have storage check it by Content-MD5.
        """
        kept: dict[str, Any] = self.get_object_parameters(key)
        if is_by_kms() and md5 is not None:
            kept["Metadata"] = {"md5": md5}
        return kept

    def presign_put(
        self, key: str, *, size_bytes: int, md5: str, is_browser: bool = False
    ) -> tuple[str, dict[str, str]]:
        """Return (URL, headers) for one PUT of this many bytes, valid for some minutes.

        The length is part of the signature, and the checksum too: storage then refuses other bytes
        by itself. Browsers send no checksum where the ETag is one: before they send its header they
        ask whether they may, and the answer of some S3 servers (rclone 1.75) has a fixed list
        without it.
        """
        params: dict[str, Any] = self._keeping(key, md5)
        if is_by_kms() or not is_browser:
            params["ContentMD5"] = base64_of(md5)
        return self._presigned("put_object", key, params, size_bytes=size_bytes)

    def _presigned(
        self, method: str, key: str, params: dict[str, Any], *, size_bytes: int
    ) -> tuple[str, dict[str, str]]:
        """(URL, headers) for one request that carries so many bytes."""
        params |= {"Bucket": self.bucket_name, "Key": key, "ContentLength": size_bytes}
        headers = {name: params[word] for word, name in _HEADERS.items() if word in params}
        if "Metadata" in params:
            headers["x-amz-meta-md5"] = params["Metadata"]["md5"]
        url = self.public.client.generate_presigned_url(
            method, Params=params, ExpiresIn=settings.PRESIGN_EXPIRY_S
        )
        return url, headers

    def presign_get(
        self, key: str, *, filename: str | None = None, expires_s: int | None = None
    ) -> str:
        """Return a URL for one object, valid for some minutes; browsers save it as `filename`.

        Whatever its uploader called it, it is bytes to be saved: opened in a browser it is no page.
        """
        params = {
            "Bucket": self.bucket_name,
            "Key": key,
            "ResponseContentType": "application/octet-stream",
            "ResponseContentDisposition": content_disposition_header(True, filename or "file")
            or "",
        }
        return self.public.client.generate_presigned_url(
            "get_object", Params=params, ExpiresIn=expires_s or settings.PRESIGN_EXPIRY_S
        )

    def prepare(self, origins: Sequence[str]) -> tuple[bool, bool]:
        """Make the bucket if there is none, and let pages of `origins` read and write in it.

        Return whether it was made, and whether storage took the rules: MinIO has one setting for
        all its buckets instead (MINIO_API_CORS_ALLOW_ORIGIN). Raises DomainError
        storage_unreachable.
        """
        s3, bucket = self.client, self.bucket_name
        made = False
        with answering():
            try:
                s3.head_bucket(Bucket=bucket)
            except ClientError as error:
                if error.response["Error"]["Code"] not in {"404", "NoSuchBucket"}:
                    raise
                self._create_bucket(s3, bucket)
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

    def _create_bucket(self, s3: "S3Client", bucket: str) -> None:
        # Amazon's first region is none that may be named
        if settings.S3_REGION == "us-east-1":
            s3.create_bucket(Bucket=bucket)
            return
        where: Any = {"LocationConstraint": settings.S3_REGION}
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=where)

    def head(self, key: str) -> tuple[int, str] | None:
        """Return (size in bytes, hexadecimal MD5) of an object, None if there is none.

        An object stored by a single PUT has its MD5 as ETag, or beside it (`_keeping`).
        Raises DomainError storage_unreachable.
        """
        try:
            with answering():
                found = self.client.head_object(Bucket=self.bucket_name, Key=key)
        except DomainError as error:
            if error.code == "object_missing":
                return None
            raise
        return found["ContentLength"], md5_of(found)

    @staticmethod
    def may_be_same(told: str, known: str) -> bool:
        """Whether an object that storage tells by one sum may be what was known by another one.

        A bucket that was copied or restored may have in one piece what came in parts, or the other
        way round, and the ETag of parts ("...-7") says nothing of the MD5 of the whole.
        """
        return told == known or ("-" in told) != ("-" in known)

    def read(self, key: str, *, limit_bytes: int) -> bytes:
        """Return an object's bytes.

        Raises DomainError: object_missing, object_too_large, storage_unreachable.
        """
        with answering():
            return self._body(key, limit_bytes).read()

    def read_start(self, key: str, *, size_bytes: int, begin: int = 0) -> bytes:
        """Return the first bytes of an object (or from `begin` on), all of it if it is smaller.

        Raises DomainError: object_missing, storage_unreachable.
        """
        span = f"bytes={begin}-{begin + size_bytes - 1}"
        with answering():
            found = self.client.get_object(Bucket=self.bucket_name, Key=key, Range=span)
            return found["Body"].read(size_bytes)

    def read_into(self, key: str, file: IO[bytes], *, limit_bytes: int) -> None:
        """Write an object's bytes into `file`, piece by piece.

        Raises DomainError: object_missing, object_too_large, storage_unreachable.
        """
        with answering():
            for piece in self._body(key, limit_bytes).iter_chunks(1 << 20):
                file.write(piece)

    def _body(self, key: str, limit_bytes: int) -> "StreamingBody":
        found = self.client.get_object(Bucket=self.bucket_name, Key=key)
        if found["ContentLength"] > limit_bytes:
            found["Body"].close()
            raise DomainError("object_too_large", size=found["ContentLength"], limit=limit_bytes)
        return found["Body"]

    def checksum_of(self, key: str, part_bytes: int) -> str:
        """Read an object and return its checksum, over parts of this size.

        Raises DomainError object_missing, storage_unreachable.
        """
        checksum = Checksum(part_bytes)
        with answering():
            found = self.client.get_object(Bucket=self.bucket_name, Key=key)
            for piece in found["Body"].iter_chunks(1 << 20):
                checksum.update(piece)
        return checksum.hexdigest()

    def write(self, key: str, data: bytes) -> None:
        """Store an object, replacing one of the same key.

        Raises DomainError storage_unreachable.
        """
        with answering():
            md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
            self.client.put_object(
                Bucket=self.bucket_name,
                Key=key,
                Body=data,
                ContentMD5=base64_of(md5),
                **self._keeping(key, md5),
            )

    def copy(self, source_key: str, target_key: str) -> tuple[int, str]:
        """Copy an object inside storage; return (size in bytes, hexadecimal MD5) as `head` does.

        Raises DomainError: object_missing, storage_unreachable.
        """
        source: CopySourceTypeDef = {"Bucket": self.bucket_name, "Key": source_key}
        with answering():
            # what the source says of itself, its MD5 among it, is copied too
            self.client.copy_object(
                Bucket=self.bucket_name,
                Key=target_key,
                CopySource=source,
                **self._keeping(target_key),
            )
        found = self.head(target_key)
        if found is None:
            raise DomainError("object_missing", status=404)
        return found

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is fine.

        Raises DomainError storage_unreachable.
        """
        try:
            self.client.delete_object(Bucket=self.bucket_name, Key=key)
        except (ClientError, BotoCoreError) as error:
            raise DomainError("storage_unreachable", status=503) from error

    def write_from(self, key: str, file: IO[bytes]) -> None:
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
            self.client.put_object(
                Bucket=self.bucket_name,
                Key=key,
                Body=file,
                ContentMD5=base64_of(md5),
                **self._keeping(key, md5),
            )

    def delete_below(self, prefix: str) -> int:
        """Remove every object whose key starts with `prefix`; return how many.

        `prefix` ends in a slash.

        Raises DomainError storage_unreachable.
        """
        if len(prefix) < 2 or not prefix.endswith("/"):
            raise ValueError(prefix)
        count = 0
        with answering():
            pages = self.client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket_name, Prefix=prefix):
                for found in page.get("Contents", []):
                    self.client.delete_object(Bucket=self.bucket_name, Key=found["Key"])
                    count += 1
        return count

    def parts_begin(self, key: str) -> str:
        """Begin an object that comes in parts; return storage's name for the upload.

        Nobody sees anything of it before `join_upload_parts`. Raises DomainError
        storage_unreachable.
        """
        with answering():
            begun = self.client.create_multipart_upload(
                Bucket=self.bucket_name, Key=key, **self._keeping(key)
            )
        return begun["UploadId"]

    def presign_part(
        self, key: str, upload_id: str, number: int, *, size_bytes: int, md5: str | None = None
    ) -> tuple[str, dict[str, str]]:
        """As `presign_put`, for one part (numbers begin at 1) of one upload, and nothing else."""
        params: dict[str, Any] = {"UploadId": upload_id, "PartNumber": number}
        if md5 is not None:
            params["ContentMD5"] = base64_of(md5)
        return self._presigned("upload_part", key, params, size_bytes=size_bytes)

    def parts_stored(self, key: str, upload_id: str) -> dict[int, tuple[int, str]] | None:
        """Return (size in bytes, hexadecimal MD5) by number; None if storage knows no such upload.

        Raises DomainError storage_unreachable.
        """
        found: dict[int, tuple[int, str]] = {}
        pages = self.client.get_paginator("list_parts")
        try:
            with answering():
                for page in pages.paginate(Bucket=self.bucket_name, Key=key, UploadId=upload_id):
                    for part in page.get("Parts", []):
                        found[part["PartNumber"]] = (part["Size"], part["ETag"].strip('"'))
        except DomainError as error:
            if error.code == "object_missing":
                return None
            raise
        return found

    def join_upload_parts(self, key: str, upload_id: str, md5s: Sequence[str]) -> str:
        """Make the object of all parts, which must have these MD5s; returns its ETag.

        Raises PartsRefusedError; DomainError object_missing if there is no such upload (any more),
        storage_unreachable.
        """
        parts: list[CompletedPartTypeDef] = [
            {"PartNumber": number, "ETag": f'"{md5}"'} for number, md5 in enumerate(md5s, start=1)
        ]
        with answering():
            try:
                found = self.client.complete_multipart_upload(
                    Bucket=self.bucket_name,
                    Key=key,
                    UploadId=upload_id,
                    MultipartUpload={"Parts": parts},
                )
            except ClientError as error:
                if error.response["Error"]["Code"] == "InvalidPart":
                    raise PartsRefusedError from error
                raise
        return found["ETag"].strip('"')

    def parts_abort(self, key: str, upload_id: str) -> None:
        """Remove all parts; an upload that is not there is fine.

        Raises DomainError storage_unreachable.
        """
        try:
            with answering():
                self.client.abort_multipart_upload(
                    Bucket=self.bucket_name, Key=key, UploadId=upload_id
                )
        except DomainError as error:
            if error.code != "object_missing":
                raise

    def unfinished(self) -> Iterator[Unfinished]:
        """All uploads in parts that were neither joined nor aborted.

        Raises DomainError storage_unreachable.
        """
        listing = self.client.get_paginator("list_multipart_uploads")
        try:
            with answering():
                for page in listing.paginate(Bucket=self.bucket_name):
                    for row in page.get("Uploads", []):
                        yield Unfinished(row["Key"], row["UploadId"], row["Initiated"])
        except DomainError as error:
            # some servers call a bucket in which nothing ever came in parts unknown
            if error.code != "object_missing":
                raise

    def pages(self) -> Iterator[list[Listed]]:
        """All objects of the bucket in the order of their keys, a page of at most 1,000 at a time.

        Raises DomainError storage_unreachable.
        """
        with answering():
            listing = self.client.get_paginator("list_objects_v2")
            for page in listing.paginate(Bucket=self.bucket_name):
                yield [
                    Listed(
                        row["Key"], row["Size"], self._listed_md5(row["ETag"]), row["LastModified"]
                    )
                    for row in page.get("Contents", [])
                ]

    @staticmethod
    def _listed_md5(etag: str) -> str:
        return "" if is_by_kms() else etag.strip('"')
