"""Progress of an import: shared between the actor and pages through the cache; pages are woken up.

Progress is best effort: without the cache, only the progress display is missing. The wake-up
messages carry no data; a page that receives one fetches its fragment.
"""

import time
from dataclasses import dataclass

import structlog
from django.core.cache import cache
from django.db import transaction
from django.utils.translation import gettext as _

from profiles.models import ProfileUpload
from webprofile.realtime.layer import send_to_groups

log = structlog.get_logger()

_PAUSE_S = 0.5
#: an entry expires after this time without an update by the actor
_VALID_S = 120


@dataclass(frozen=True)
class ReadingProgress:
    """step: `fetching` from storage, `reading`, or `adding_up`; percent: of the files' bytes"""

    step: str
    percent: int

    @property
    def text(self) -> str:
        words = {
            "fetching": _("Downloading the file from storage: %(percent)s %%."),
            "reading": _("%(percent)s %% of the file has been read."),
        }
        template = words.get(self.step, _("The file has been read; adding up its times…"))
        return template % {"percent": self.percent}


def opened_group(upload_id: int) -> str:
    """Return the channel group of the pages that show this import."""
    return f"opened.{upload_id}"


def opened_changed_on_commit(upload_id: int) -> None:
    """Wake up pages that show this import after the transaction commits."""
    transaction.on_commit(lambda: opened_changed(upload_id), robust=True)


def opened_changed(upload_id: int) -> None:
    """Wake up pages that show this import immediately."""
    send_to_groups([opened_group(upload_id)], {"type": "opened.changed"})


class ProgressReporter:
    """Writes the actor's progress to the cache and wakes up pages, at most twice a second."""

    def __init__(self, upload: ProfileUpload) -> None:
        self._upload_id, self._size_bytes = upload.pk, upload.size_bytes
        self._key = _key(upload)
        self._next = 0.0

    def report(self, step: str, done: int) -> None:
        """Progress callback of `profiles.ingest.build.derive`."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PAUSE_S
        percent = min(100, 100 * done // max(self._size_bytes, 1))
        if step == "reading" and percent == 100:
            step = "adding_up"
        try:
            cache.set(self._key, (step, percent), timeout=_VALID_S)
            opened_changed(self._upload_id)
        except Exception:  # no error here may stop the reading
            log.warning("progress_not_noted", exc_info=True)


def reading_of(upload: ProfileUpload) -> ReadingProgress | None:
    """Progress of an import; None if it is not being read, or no progress was reported."""
    if upload.state != ProfileUpload.State.PROCESSING:
        return None
    try:
        progress = cache.get(_key(upload))
    except Exception:  # the page works without it
        log.warning("progress_not_known", exc_info=True)
        return None
    return ReadingProgress(*progress) if progress else None


def _key(upload: ProfileUpload) -> str:
    return f"opened-progress:{upload.pk}"
