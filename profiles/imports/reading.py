"""Read the files of an opened profile. Storage is read and written outside of transactions."""

import structlog

from profiles.analysis.errors import AnalysisError
from profiles.formats.detection import HEAD_BYTES, kind_of, other_kind
from profiles.formats.errors import ProfileFormatError
from profiles.imports.progress import Noting
from profiles.imports.uploads import (
    claim_import,
    fail_import,
    finish_import,
    release_import,
    set_file_kind,
)
from profiles.ingest.build import Derived, derive, profile_row, store_derived
from profiles.models import Profile, ProfileUpload
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: what storage says of a file, and what the owner is told
_LOST = {"object_missing": "storage_lost", "object_too_large": "too_large"}


def read_import(upload: ProfileUpload) -> None:
    """Make the profile of an upload, or note why there is none. May be repeated.

    Only one caller at a time does it. DomainError storage_unreachable passes through, so that the
    caller tries again.
    """
    if not claim_import(upload):
        return
    try:
        derived = _derived(upload)
        if derived is not None:
            _keep(upload, derived)
    except DomainError as error:
        if error.code in _LOST:
            fail_import(upload, _LOST[error.code])
            return
        release_import(upload)
        raise


def _derived(upload: ProfileUpload) -> Derived | None:
    """None after noting what is wrong with the files."""
    files = [(file.stored_name, file.object_key) for file in upload.files.all()]
    for file in upload.files.all():
        # a browser told the first bytes before; it may have told others
        head = storage.read_start(file.object_key, size_bytes=HEAD_BYTES)
        if other := other_kind(head):
            fail_import(upload, other, file.name)
            return None
        set_file_kind(file, kind_of(head))
    try:
        return derive(files, Noting(upload).told)
    except (ProfileFormatError, AnalysisError) as error:
        fail_import(upload, error.code, error.detail)
        return None


def _keep(upload: ProfileUpload, derived: Derived) -> None:
    profile = profile_row(derived.data, Profile(upload=upload))
    store_derived(profile, derived)
    # where it was deleted meanwhile, the sweep comes back for what was just written
    if finish_import(upload, profile):
        log.info("upload_read", upload=upload.pk, operators=profile.operators)
