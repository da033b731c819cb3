"""How far the reading of an opened profile is, while an actor reads it.

That is nothing to keep: it stands in the cache, and a cache that is away costs nothing but this.
"""

import time
from dataclasses import dataclass

import structlog
from django.core.cache import cache
from django.utils.translation import gettext as _

from profiles.imports.wakeups import opened_changed
from profiles.models import ProfileUpload

log = structlog.get_logger()

_PAUSE_S = 0.5
#: an actor that says nothing for so long is not believed any more
_VALID_S = 120


@dataclass(frozen=True)
class Reading:
    """step: `fetching` from storage, `reading`, or `adding_up`; percent: of the files' bytes"""

    step: str
    percent: int

    @property
    def text(self) -> str:
        """In the reader's words."""
        words = {
            "fetching": _("The file is fetched from storage: %(percent)s %%."),
            "reading": _("%(percent)s %% of the file has been read."),
        }
        found = words.get(self.step, _("All of the file is read; its times are added up."))
        return found % {"percent": self.percent}


class Noting:
    """The actor's side: notes how far it is, at most twice a second."""

    def __init__(self, upload: ProfileUpload) -> None:
        self._upload_id, self._size_bytes = upload.pk, upload.size_bytes
        self._key = _key(upload)
        self._next = 0.0

    def told(self, step: str, done: int) -> None:
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
        except Exception:  # of whatever kind: the reading goes on
            log.warning("progress_not_noted", exc_info=True)


def reading_of(upload: ProfileUpload) -> Reading | None:
    """How far an upload is; None if it is not being read, or nobody has said."""
    if upload.state != ProfileUpload.State.PROCESSING:
        return None
    try:
        found = cache.get(_key(upload))
    except Exception:  # the page can do without
        log.warning("progress_not_known", exc_info=True)
        return None
    return Reading(*found) if found else None


def _key(upload: ProfileUpload) -> str:
    return f"opened-progress:{upload.pk}"
