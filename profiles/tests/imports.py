"""Factories of imported profiles, through the form and through the API."""

import base64
import hashlib
from typing import Any

from django.conf import settings

from profiles.actors import build_opened
from profiles.imports.local_files import submit_import
from profiles.imports.uploads import FileToOpen, create_import
from profiles.models import ProfileUpload
from webprofile.storage import storage as object_store


def file_to_open(data: bytes, name: str = "profile.json", **changes: Any) -> FileToOpen:
    fields = {"size_bytes": len(data), "md5": hashlib.md5(data).hexdigest(), "head": data[:2048]}
    return FileToOpen(name, **fields | changes)


def file_request(data: bytes, name: str = "profile.json") -> dict[str, Any]:
    """Return the JSON with which a script announces a file over the API."""
    return {
        "name": name,
        "size_bytes": len(data),
        "md5": hashlib.md5(data).hexdigest(),
        "head": base64.b64encode(data[:2048]).decode(),
    }


def make_upload(owner: Any, *contents: bytes, name: str = "") -> ProfileUpload:
    """Return an upload in state initiated whose files are in storage."""
    files = [file_to_open(data, f"p{n}.json", head=b"") for n, data in enumerate(contents)]
    upload = create_import(owner=owner, files=files, name=name)
    for row, data in zip(upload.files.all(), contents, strict=True):
        object_store.write(row.object_key, data)
    return upload


def make_import(owner: Any, *contents: bytes, name: str = "") -> ProfileUpload:
    """Return an upload whose files have been processed."""
    upload = make_upload(owner, *contents, name=name)
    confirm_upload(upload)
    build_opened(upload.pk)
    upload.refresh_from_db()
    return upload


def confirm_upload(upload: ProfileUpload) -> None:
    """Confirm an upload as the API does: its objects are copied to keys that no URL names."""
    submit_import(upload)


def stored_keys(upload_id: int) -> list[str]:
    """Return the keys of an upload's objects."""
    client = object_store.client
    listing = client.list_objects_v2(Bucket=settings.S3_BUCKET, Prefix=f"opened/{upload_id}/")
    return [entry["Key"] for entry in listing.get("Contents", [])]
