"""Object storage of the site.

`storage` is Django's default storage, typed as `ObjectStorage`. It is created at its first use, so
that a process that needs no storage does not import boto3.
"""

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from django.core.files.storage import default_storage

if TYPE_CHECKING:
    from webprofile.storage.s3 import ObjectStorage

storage = cast("ObjectStorage", default_storage)


@dataclass(frozen=True)
class Listed:
    """An object of the bucket; `md5` as `head` returns it, empty if a listing does not have it."""

    key: str
    size_bytes: int
    md5: str
    modified_at: datetime.datetime


@dataclass(frozen=True)
class Unfinished:
    """A multipart upload that was neither completed nor aborted."""

    key: str
    upload_id: str
    began_at: datetime.datetime


class PartsRefusedError(Exception):
    """Storage knows the multipart upload, but refuses to complete it with the given parts."""
