"""Periodic sweep of imports: lost messages, missed deadlines, and files to purge."""

import datetime
from collections.abc import Callable, Iterable

import structlog
from django.db.models import Q
from django.utils import timezone

from profiles.imports.uploads import delete_import, fail_import, forget_import
from profiles.models import ProfileUpload, upload_prefix
from webprofile.background import enqueue
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: an import that no actor started to read within this time has lost its message
RESEND_AFTER = datetime.timedelta(seconds=20)
#: imports purged per round, so that other work of the sweep is not delayed
PURGE_LIMIT = 50

State = ProfileUpload.State


def sweep_imports() -> None:
    """Run one round; an error in one row does not affect the others."""
    now = timezone.now()
    uploads = ProfileUpload.objects.all()
    late = Q(deadline_at__lt=now)
    _apply(uploads.filter(late, state=State.PROCESSING), lambda u: fail_import(u, "timed_out"))
    _apply(uploads.filter(late, state=State.INITIATED), delete_import)
    unread = uploads.filter(state=State.PROCESSING, hinted_at__lt=now - RESEND_AFTER)
    _enqueue_builds(
        unread.filter(Q(claimed_until=None) | Q(claimed_until__lt=now)).order_by("hinted_at")
    )
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


def _enqueue_builds(unread: Iterable[ProfileUpload]) -> None:
    """Enqueue build messages until the broker refuses one, since it may be down."""
    for upload in unread:
        try:
            enqueue("build_opened", upload.pk, queue="profiles")
        except Exception:
            log.exception("upload_message_not_sent", upload=upload.pk)
            return
        ProfileUpload.objects.filter(pk=upload.pk).update(hinted_at=timezone.now())


def _apply(rows: Iterable[ProfileUpload], action: Callable[[ProfileUpload], object]) -> None:
    for row in rows:
        try:
            action(row)
        except Exception:
            log.exception("sweep_failed", row=repr(row))
