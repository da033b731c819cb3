"""Where the files of an opened profile go, and what storage holds of them."""

from typing import Any

from profiles import storage
from profiles.models import OpenedFile, ProfileUpload
from profiles.opened.uploads import upload_confirm
from tasks.services import StoredObject


def upload_targets(upload: ProfileUpload) -> list[dict[str, Any]]:
    """Where to PUT the files, in their order."""
    return [_target(row) for row in upload.files.all()]


def upload_submit(upload: ProfileUpload) -> None:
    """Have the files read if storage holds all of them as they were announced.

    Raises DomainError as `upload_confirm`, and storage_unreachable.
    """
    heads = {row.number: storage.head(row.object_key) for row in upload.files.all()}
    stored = {number: StoredObject(*head) if head else None for number, head in heads.items()}
    upload_confirm(upload, stored)


def _target(row: OpenedFile) -> dict[str, Any]:
    url, headers = storage.presign_put(row.object_key, size_bytes=row.size_bytes)
    return {"file": row.number, "name": row.name, "url": url, "headers": headers}
