"""Background work on imports: read their files, and the periodic sweep for missed deadlines and
files to purge. Storage is read and written outside of transactions.
"""

from collections.abc import Callable, Iterable

import structlog
from django.db.models import Q
from django.utils import timezone

from profiles.analysis.errors import AnalysisError
from profiles.formats.detection import HEAD_BYTES, kind_of, other_kind
from profiles.formats.errors import ProfileFormatError
from profiles.imports.progress import ProgressReporter
from profiles.imports.uploads import (
    claim_import,
    delete_import,
    fail_import,
    finish_import,
    forget_import,
    release_import,
    set_file_kind,
)
from profiles.ingest.build import DerivedData, derive, profile_row, store_derived
from profiles.models import Profile, ProfileUpload, upload_prefix
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: storage error codes, and the problem code that the import fails with
_LOST = {"object_missing": "storage_lost", "object_too_large": "too_large"}
#: imports purged per round, so that other work of the sweep is not delayed
PURGE_LIMIT = 50

State = ProfileUpload.State


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


def sweep_imports() -> None:
    """Run one round of the sweep; an error in one row does not affect the others."""
    now = timezone.now()
    uploads = ProfileUpload.objects.all()
    late = Q(deadline_at__lt=now)
    _apply(uploads.filter(late, state=State.PROCESSING), lambda u: fail_import(u, "timed_out"))
    _apply(uploads.filter(late, state=State.INITIATED), delete_import)
    gone = uploads.filter(late | Q(deadline_at=None), state=State.DELETED)
    # random order: the first storage error ends the round, and one bad object must not block the
    # others every time
    for upload in gone.order_by("?")[:PURGE_LIMIT]:
        try:
            purge_import(upload)
        except DomainError:  # storage is unreachable
            log.warning("removal_failed", prefix=upload_prefix(upload.pk))
            return


def purge_import(upload: ProfileUpload) -> None:
    """Remove the files of a deleted import. Raises DomainError storage_unreachable.

    As long as the row exists, the sweep calls this again for files that remain or arrive late.
    """
    storage.delete_below(upload_prefix(upload.pk))
    forget_import(upload)


def _apply(rows: Iterable[ProfileUpload], action: Callable[[ProfileUpload], object]) -> None:
    for row in rows:
        try:
            action(row)
        except Exception:
            log.exception("sweep_failed", row=repr(row))
