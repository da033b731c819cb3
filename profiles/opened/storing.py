"""Where the files of an opened profile go, and what storage holds of them."""

from typing import Any

from profiles.models import ProfileUpload
from profiles.opened.uploads import upload_confirm
from profiles.parts import target_of, what_is_stored


def upload_targets(upload: ProfileUpload) -> list[dict[str, Any]]:
    """Where to PUT the files that are not whole, in their order.

    Raises DomainError as `target_of`.
    """
    return [
        {"file": row.number, **target} for row in upload.files.all() if (target := target_of(row))
    ]


def upload_submit(upload: ProfileUpload) -> None:
    """Have the files read if storage holds all of them as they were announced.

    Raises DomainError as `upload_confirm`, and storage_unreachable.
    """
    upload_confirm(upload, {row.number: what_is_stored(row) for row in upload.files.all()})
