"""The default storage: the S3 backend of django-storages with presigned URLs and multipart uploads.

Presigned URLs, multipart uploads, checksums and copies use the client of the backend; nothing else
in the server creates one. URLs are signed for the public endpoint that browsers and agents use.
Signing is local and needs no network.
"""

import base64
import hashlib
import io
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING, Any, ClassVar

import structlog
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.utils.http import content_disposition_header
from storages.backends.s3 import S3Storage

from agent.protocol.multipart import Checksum
from webprofile.errors import DomainError
from webprofile.observability.counters import observe_storage
from webprofile.storage import Listed, PartsRefusedError, Unfinished

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        CopySourceTypeDef,
        CORSRuleTypeDef,
        ObjectIdentifierTypeDef,
    )

log = structlog.get_logger()

_CONFIG = Config(
    signature_version="s3v4",
    connect_timeout=5,
    read_timeout=30,
    retries={"max_attempts": 3, "mode": "standard"},
    # several S3 servers do not support the checksums that boto3 adds by default
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    # boto3 composes its own twice per request, which takes a tenth of the time of a small request
    user_agent="webprofile",
)

#: boto3 parameter -> signed header, which the upload request must send
_HEADERS = {
    "ContentMD5": "Content-MD5",
    "ServerSideEncryption": "x-amz-server-side-encryption",
    "SSEKMSKeyId": "x-amz-server-side-encryption-aws-kms-key-id",
}

#: for checksums only
_md5 = partial(hashlib.md5, usedforsecurity=False)


@contextmanager
def answering() -> Iterator[None]:
    """Convert errors of storage to DomainError object_missing or storage_unreachable."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in {"404", "NoSuchKey", "NoSuchUpload", "NotFound"}:
            raise DomainError("object_missing", status=404) from error
        raise DomainError("storage_unreachable", status=503) from error
    except BotoCoreError as error:
        raise DomainError("storage_unreachable", status=503) from error


@contextmanager
def missing_allowed() -> Iterator[None]:
    """Convert errors of storage to DomainError storage_unreachable; ignore a missing object."""
    try:
        with answering():
            yield
    except DomainError as error:
        if error.code != "object_missing":
            raise


def base64_of(md5: str) -> str:
    return base64.b64encode(bytes.fromhex(md5)).decode()


def is_by_kms() -> bool:
    return str(settings.S3_ENCRYPTION).startswith("aws:kms")


def md5_of(response: Any) -> str:
    """Return the hexadecimal MD5 in the response of a HEAD or GET; empty if it has none."""
    if str(response.get("ServerSideEncryption", "")).startswith("aws:kms"):
        return str(response.get("Metadata", {}).get("md5", ""))
    return str(response["ETag"]).strip('"')


def _add_content_md5(params: dict[str, Any], **kwargs: Any) -> None:
    """Add the header that several S3 servers require; boto3 sends only a newer checksum."""
    params["headers"]["Content-MD5"] = base64_of(_md5(params["body"]).hexdigest())


class ObjectStorage(S3Storage):
    """The bucket of the site.

    Django's storage interface (`open`, `save` and so on) is that of the backend. The additional
    methods raise DomainError storage_unreachable if storage does not respond or refuses a request;
    their docstrings name only further errors.
    """

    #: clients of all threads and instances, by their connection parameters
    clients: ClassVar[dict[tuple[Any, ...], "S3Client"]] = {}
    #: creating a client takes 0.2 s of CPU time, so concurrent threads wait for the first one
    _making = threading.Lock()

    def get_default_settings(self) -> dict[str, Any]:
        """Use the settings S3_* of the site; boto3 reads AWS_* only to find a role."""
        addressing = Config(s3={"addressing_style": settings.S3_ADDRESSING})
        parameters: dict[str, Any] = {}
        if settings.S3_ENCRYPTION:
            parameters["ServerSideEncryption"] = settings.S3_ENCRYPTION
        if is_by_kms() and settings.S3_KMS_KEY_ID:
            parameters["SSEKMSKeyId"] = settings.S3_KMS_KEY_ID
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
            "object_parameters": parameters,
            "client_config": _CONFIG.merge(addressing),
        }

    @property
    def client(self) -> "S3Client":
        """The client for requests of the server itself, shared by all threads.

        The backend would create a `connection` for each thread, and each request has a new thread.
        """
        key = (
            self.endpoint_url, self.access_key, self.secret_key, self.region_name,
            self.addressing_style, self.verify,
        )  # fmt: skip
        with self._making:
            if key not in self.clients:
                client = self.connection.meta.client
                client.meta.events.register("before-call.s3.DeleteObjects", _add_content_md5)
                observe_storage(client)
                self.clients[key] = client
            return self.clients[key]

    @cached_property
    def public(self) -> "ObjectStorage":
        """The same bucket at the endpoint of browsers and agents, used for signing only.

        A container often cannot reach that endpoint itself.
        """
        return ObjectStorage(endpoint_url=settings.S3_PUBLIC_ENDPOINT_URL or None)

    def prepare_clients(self) -> None:
        """Create both clients before the first request; sends no request to storage.

        Wrong settings are logged here, and reported by the first use and by `manage.py doctor`.
        Without keys boto3 would ask for the machine's role over the network and cache a failure, so
        nothing is created.
        """
        if not self.access_key:
            return
        for instance in (self, self.public):
            try:
                _ = instance.client
            except (BotoCoreError, ValueError) as error:
                log.warning("storage_client_not_made", error=repr(error))

    def _keeping(self, key: str, md5: str | None = None) -> Any:
        """Return the encryption and metadata parameters of every call that creates an object.

        With KMS encryption an ETag is not the MD5 (AWS API reference, Object), so the MD5 becomes
        metadata of the object; the upload must send Content-MD5, so that storage verifies it.
        """
        parameters: dict[str, Any] = self.get_object_parameters(key)
        if is_by_kms() and md5 is not None:
            parameters["Metadata"] = {"md5": md5}
        return parameters

    def presign_put(
        self, key: str, *, size_bytes: int, md5: str, is_browser: bool = False
    ) -> tuple[str, dict[str, str]]:
        """Return (URL, headers) for one PUT of `size_bytes` bytes, valid for PRESIGN_EXPIRY_S.

        The signature covers the length and the MD5, so that storage refuses other content. For
        browsers the MD5 is left out unless KMS encrypts: the header would need a CORS preflight,
        and some S3 servers (rclone 1.75) answer it with a fixed list that lacks Content-MD5. The
        ETag is compared with the MD5 afterwards.
        """
        params: dict[str, Any] = self._keeping(key, md5)
        if is_by_kms() or not is_browser:
            params["ContentMD5"] = base64_of(md5)
        return self._presigned("put_object", key, params, size_bytes=size_bytes)

    def _presigned(
        self, method: str, key: str, params: dict[str, Any], *, size_bytes: int
    ) -> tuple[str, dict[str, str]]:
        """Return (URL, headers) for one request with a body of `size_bytes` bytes."""
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
        """Return a URL of one object, valid for some minutes; browsers save it as `filename`.

        The content type is always application/octet-stream, so that a browser never renders it.
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
        """Create the bucket if it is missing, and set CORS rules for pages of `origins`.

        Returns whether the bucket was created, and whether storage accepted the rules: MinIO has
        one setting for all its buckets instead (MINIO_API_CORS_ALLOW_ORIGIN).
        """
        s3, bucket = self.client, self.bucket_name
        is_new = False
        with answering():
            try:
                s3.head_bucket(Bucket=bucket)
            except ClientError as error:
                if error.response["Error"]["Code"] not in {"404", "NoSuchBucket"}:
                    raise
                self._create_bucket(s3, bucket)
                is_new = True
        rule: CORSRuleTypeDef = {
            "AllowedOrigins": list(origins),
            "AllowedMethods": ["GET", "HEAD", "PUT"],
            "AllowedHeaders": ["*"],
            # headers that pages read: ETag to complete a multipart upload, Content-Range of ranges
            "ExposeHeaders": ["ETag", "Content-Range"],
            "MaxAgeSeconds": 3600,
        }
        try:
            s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
        except ClientError:
            return is_new, False
        return is_new, True

    def _create_bucket(self, s3: "S3Client", bucket: str) -> None:
        # AWS rejects us-east-1 as a LocationConstraint
        if settings.S3_REGION == "us-east-1":
            s3.create_bucket(Bucket=bucket)
            return
        configuration: Any = {"LocationConstraint": settings.S3_REGION}
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=configuration)

    def head(self, key: str) -> tuple[int, str] | None:
        """Return (size in bytes, hexadecimal MD5) of an object, None if there is none.

        The MD5 of an object that was stored by a single PUT is its ETag, or metadata (`_keeping`).
        """
        with missing_allowed():
            response = self.client.head_object(Bucket=self.bucket_name, Key=key)
            return response["ContentLength"], md5_of(response)
        return None

    @staticmethod
    def may_be_same(stored: str, known: str) -> bool:
        """Return whether an object with the checksum `stored` can be the one known by `known`.

        In a copied or restored bucket a multipart object can have become a single one or the
        reverse, and the ETag of a multipart object ("...-7") cannot be compared with the MD5 of
        the whole object.
        """
        return stored == known or ("-" in stored) != ("-" in known)

    def read(self, key: str, *, limit_bytes: int) -> bytes:
        """Return an object's bytes.

        Raises DomainError: object_missing, object_too_large.
        """
        with answering():
            return self._body(key, limit_bytes).read()

    def read_start(self, key: str, *, size_bytes: int, begin: int = 0) -> bytes:
        """Return up to `size_bytes` bytes of an object from the offset `begin`.

        Raises DomainError object_missing.
        """
        span = f"bytes={begin}-{begin + size_bytes - 1}"
        with answering():
            response = self.client.get_object(Bucket=self.bucket_name, Key=key, Range=span)
            return response["Body"].read(size_bytes)

    def read_into(self, key: str, file: IO[bytes], *, limit_bytes: int) -> None:
        """Write an object's bytes into `file` in chunks of 1 MiB.

        Raises DomainError: object_missing, object_too_large.
        """
        with answering():
            for piece in self._body(key, limit_bytes).iter_chunks(1 << 20):
                file.write(piece)

    def _body(self, key: str, limit_bytes: int) -> "StreamingBody":
        response = self.client.get_object(Bucket=self.bucket_name, Key=key)
        size_bytes = response["ContentLength"]
        if size_bytes > limit_bytes:
            response["Body"].close()
            raise DomainError("object_too_large", size=size_bytes, limit=limit_bytes)
        return response["Body"]

    def checksum_of(self, key: str, part_bytes: int) -> str:
        """Read an object and return its checksum over parts of `part_bytes` bytes.

        Raises DomainError object_missing.
        """
        checksum = Checksum(part_bytes)
        with answering():
            response = self.client.get_object(Bucket=self.bucket_name, Key=key)
            for piece in response["Body"].iter_chunks(1 << 20):
                checksum.update(piece)
        return checksum.hexdigest()

    def write(self, key: str, data: bytes) -> None:
        """Store an object, replacing one of the same key."""
        self.write_from(key, io.BytesIO(data))

    def copy(self, source_key: str, target_key: str) -> tuple[int, str]:
        """Copy an object inside storage; return (size in bytes, hexadecimal MD5) as `head` does.

        Raises DomainError object_missing.
        """
        source: CopySourceTypeDef = {"Bucket": self.bucket_name, "Key": source_key}
        with answering():
            # the metadata of the source, with its MD5, is copied too
            self.client.copy_object(
                Bucket=self.bucket_name,
                Key=target_key,
                CopySource=source,
                **self._keeping(target_key),
            )
        size_and_md5 = self.head(target_key)
        if size_and_md5 is None:
            raise DomainError("object_missing", status=404)
        return size_and_md5

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is not an error."""
        with missing_allowed():
            self.client.delete_object(Bucket=self.bucket_name, Key=key)

    def delete_all(self, keys: Iterable[str]) -> set[str]:
        """Delete objects, up to 1,000 with each request; missing ones are not an error.

        Returns the keys that storage refused to delete.
        """
        objects: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in keys]
        refused = set()
        with answering():
            for begin in range(0, len(objects), 1000):
                response = self.client.delete_objects(
                    Bucket=self.bucket_name,
                    Delete={"Objects": objects[begin : begin + 1000], "Quiet": True},
                )
                refused |= {error["Key"] for error in response.get("Errors", [])}
        return refused

    def delete_copies(self, key: str, *, keep: str = "") -> None:
        """Delete the object `key` and all objects "<key>-...", except `keep`."""
        for page in self.pages(key):
            found = {row.key for row in page} - {keep}
            self._delete_listed(k for k in found if k == key or k.startswith(f"{key}-"))

    def write_from(self, key: str, file: IO[bytes]) -> None:
        """Store a whole file in one PUT, so that `head` returns its MD5."""
        with answering():
            file.seek(0)
            md5 = hashlib.file_digest(file, _md5).hexdigest()  # type: ignore[arg-type]
            file.seek(0)
            self.client.put_object(
                Bucket=self.bucket_name,
                Key=key,
                Body=file,
                ContentMD5=base64_of(md5),
                **self._keeping(key, md5),
            )

    def delete_below(self, prefix: str) -> int:
        """Delete all objects whose key starts with `prefix`; return their number.

        `prefix` ends in a slash.
        """
        if len(prefix) < 2 or not prefix.endswith("/"):
            raise ValueError(prefix)
        return sum(self._delete_listed(row.key for row in page) for page in self.pages(prefix))

    def _delete_listed(self, keys: Iterable[str]) -> int:
        """Delete the objects of a page of a listing; return their number."""
        some = list(keys)
        if some and self.delete_all(some):
            raise DomainError("storage_unreachable", status=503)
        return len(some)

    def begin_parts(self, key: str) -> str:
        """Begin a multipart upload; return its id in storage.

        The object does not exist before `join_upload_parts`.
        """
        with answering():
            upload = self.client.create_multipart_upload(
                Bucket=self.bucket_name, Key=key, **self._keeping(key)
            )
        return upload["UploadId"]

    def presign_part(
        self, key: str, upload_id: str, number: int, *, size_bytes: int, md5: str | None = None
    ) -> tuple[str, dict[str, str]]:
        """Return (URL, headers) for one PUT of one part of an upload; numbers begin at 1."""
        params: dict[str, Any] = {"UploadId": upload_id, "PartNumber": number}
        if md5 is not None:
            params["ContentMD5"] = base64_of(md5)
        return self._presigned("upload_part", key, params, size_bytes=size_bytes)

    def stored_parts(self, key: str, upload_id: str) -> dict[int, tuple[int, str]] | None:
        """Return (size in bytes, hexadecimal MD5) of the stored parts by number.

        Returns None if the upload is unknown.
        """
        pages = self.client.get_paginator("list_parts")
        with missing_allowed():
            return {
                part["PartNumber"]: (part["Size"], part["ETag"].strip('"'))
                for page in pages.paginate(Bucket=self.bucket_name, Key=key, UploadId=upload_id)
                for part in page.get("Parts", [])
            }
        return None

    def join_upload_parts(self, key: str, upload_id: str, md5s: Sequence[str]) -> str:
        """Complete a multipart upload whose parts must have these MD5s; return the object's ETag.

        Raises PartsRefusedError if storage refuses the parts, DomainError object_missing if the
        upload does not exist (any more), and DomainError storage_unreachable.
        """
        parts: list[CompletedPartTypeDef] = [
            {"PartNumber": number, "ETag": f'"{md5}"'} for number, md5 in enumerate(md5s, start=1)
        ]
        with answering():
            try:
                response = self.client.complete_multipart_upload(
                    Bucket=self.bucket_name,
                    Key=key,
                    UploadId=upload_id,
                    MultipartUpload={"Parts": parts},
                )
            except ClientError as error:
                if error.response["Error"]["Code"] == "InvalidPart":
                    raise PartsRefusedError from error
                raise
        return response["ETag"].strip('"')

    def abort_parts(self, key: str, upload_id: str) -> None:
        """Abort a multipart upload and delete its parts; a missing upload is not an error."""
        with missing_allowed():
            self.client.abort_multipart_upload(Bucket=self.bucket_name, Key=key, UploadId=upload_id)

    def unfinished(self) -> Iterator[Unfinished]:
        """Yield all multipart uploads that were neither completed nor aborted."""
        listing = self.client.get_paginator("list_multipart_uploads")
        # some servers report a bucket without any multipart upload as missing
        with missing_allowed():
            for page in listing.paginate(Bucket=self.bucket_name):
                for row in page.get("Uploads", []):
                    yield Unfinished(row["Key"], row["UploadId"], row["Initiated"])

    def pages(self, prefix: str = "") -> Iterator[list[Listed]]:
        """Yield the objects below a prefix in the order of their keys, in pages of up to 1,000."""
        with answering():
            listing = self.client.get_paginator("list_objects_v2")
            for page in listing.paginate(Bucket=self.bucket_name, Prefix=prefix):
                yield [
                    Listed(
                        row["Key"], row["Size"], self._listed_md5(row["ETag"]), row["LastModified"]
                    )
                    for row in page.get("Contents", [])
                ]

    @staticmethod
    def _listed_md5(etag: str) -> str:
        return "" if is_by_kms() else etag.strip('"')
