"""What time alone brings about for opened profiles: lost hints, deadlines, files to remove."""

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

#: an upload that nobody began to read after this long has lost its hint
HINT_PATIENCE = datetime.timedelta(seconds=20)
#: removed in one round, since other rows wait meanwhile
PURGE_LIMIT = 50

State = ProfileUpload.State


def sweep_imports() -> None:
    """One round; one row that cannot be moved keeps no other waiting."""
    now = timezone.now()
    found = ProfileUpload.objects.all()
    late = Q(deadline_at__lt=now)
    _each(found.filter(late, state=State.PROCESSING), lambda u: fail_import(u, "timed_out"))
    _each(found.filter(late, state=State.INITIATED), delete_import)
    unread = found.filter(state=State.PROCESSING, hinted_at__lt=now - HINT_PATIENCE)
    _hint(unread.filter(Q(claimed_until=None) | Q(claimed_until__lt=now)).order_by("hinted_at"))
    gone = found.filter(late | Q(deadline_at=None), state=State.DELETED)
    # in any order: the first that storage refuses ends the round, and is not always the same
    for upload in gone.order_by("?")[:PURGE_LIMIT]:
        try:
            purge_import(upload)
        except DomainError:  # storage is away
            log.warning("removal_failed", prefix=upload_prefix(upload.pk))
            return


def purge_import(upload: ProfileUpload) -> None:
    """Remove the files of a deleted profile. Raises DomainError storage_unreachable.

    While its row stands, the sweep comes back for what is left or arrives late.
    """
    storage.delete_below(upload_prefix(upload.pk))
    forget_import(upload)


def _hint(unread: Iterable[ProfileUpload]) -> None:
    """Send messages until the broker does not take one: it may be away."""
    for upload in unread:
        try:
            enqueue("build_opened", upload.pk, queue="profiles")
        except Exception:
            log.exception("upload_not_hinted", upload=upload.pk)
            return
        ProfileUpload.objects.filter(pk=upload.pk).update(hinted_at=timezone.now())


def _each(rows: Iterable[ProfileUpload], act: Callable[[ProfileUpload], object]) -> None:
    for row in rows:
        try:
            act(row)
        except Exception:
            log.exception("sweep_failed", row=repr(row))
