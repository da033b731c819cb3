"""Read the files of an import. Storage is read and written outside of transactions."""

import structlog

from profiles.analysis.errors import AnalysisError
from profiles.formats.detection import HEAD_BYTES, kind_of, other_kind
from profiles.formats.errors import ProfileFormatError
from profiles.imports.progress import ProgressReporter
from profiles.imports.uploads import (
    claim_import,
    fail_import,
    finish_import,
    release_import,
    set_file_kind,
)
from profiles.ingest.build import DerivedData, derive, profile_row, store_derived
from profiles.models import Profile, ProfileUpload
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: storage error codes, and the problem code that the import fails with
_LOST = {"object_missing": "storage_lost", "object_too_large": "too_large"}


def read_import(upload: ProfileUpload) -> None:
    """Build the profile of an import, or record why it failed. Idempotent.

    Only one caller at a time reads an import; for others this is a no-op. Raises DomainError
    storage_unreachable, after which the caller retries.
    """
    if not claim_import(upload):
        return
    try:
        derived = _derive(upload)
        if derived is not None:
            _keep(upload, derived)
    except DomainError as error:
        if error.code in _LOST:
            fail_import(upload, _LOST[error.code])
            return
        release_import(upload)
        raise


def _derive(upload: ProfileUpload) -> DerivedData | None:
    """Derive the data of the import's files; None after failing the import because of them."""
    files = [(file.stored_name, file.object_key) for file in upload.files.all()]
    for file in upload.files.all():
        # the bytes that the browser announced cannot be trusted
        head = storage.read_start(file.object_key, size_bytes=HEAD_BYTES)
        if other := other_kind(head):
            fail_import(upload, other, file.name)
            return None
        set_file_kind(file, kind_of(head))
    try:
        return derive(files, ProgressReporter(upload).report)
    except (ProfileFormatError, AnalysisError) as error:
        fail_import(upload, error.code, error.detail)
        return None


def _keep(upload: ProfileUpload, derived: DerivedData) -> None:
    profile = profile_row(derived.data, Profile(upload=upload))
    store_derived(profile, derived)
    # if the import was deleted meanwhile, the sweep removes the objects written here
    if finish_import(upload, profile):
        log.info("upload_read", upload=upload.pk, operators=profile.operators)
