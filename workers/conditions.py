"""What a device does now, in one word."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from workers.models import Worker


class Condition(TextChoices):
    RETIRED = "retired", _("retired")
    DRAINED = "drained", _("disabled")
    NEVER_CONNECTED = "never_connected", _("never connected")
    OFFLINE = "offline", _("offline")
    HELD = "held", _("held back")
    BUSY = "busy", _("busy")
    FREE = "free", _("free")


def condition_of(worker: Worker, *, is_busy: bool) -> Condition:
    """The weightiest thing to know of a device; is_busy: it runs something."""
    if worker.retired_at:
        return Condition.RETIRED
    if not worker.is_enabled:
        return Condition.DRAINED
    if not worker.is_online:
        never = worker.last_seen_at is None
        return Condition.NEVER_CONNECTED if never else Condition.OFFLINE
    if worker.held_at:
        return Condition.HELD
    return Condition.BUSY if is_busy else Condition.FREE
