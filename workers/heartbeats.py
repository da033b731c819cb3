"""How a device's last heartbeat is to be read, and who is told of one that is lost."""

import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q, QuerySet, TextChoices
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import Webhook
from accounts.webhooks.events import DeviceOccasion, administrators_listening, device_events
from workers.models import Worker, online_since
from workers.status import DeviceStatus

#: administrators who ask to be told later hear nothing of what was lost long before
RECENT = datetime.timedelta(hours=1)


class Beat(TextChoices):
    ON_TIME = "on_time", _("on time")
    #: silent for some heartbeats: it counts as offline but may come back with what it runs
    LATE = "late", _("late")
    #: silent for longer than a lease: what it ran was given up
    LOST = "lost", pgettext_lazy("device", "lost")
    NEVER = "never", DeviceStatus.NEVER_CONNECTED.label


def lost_before() -> datetime.datetime:
    """A worker last seen before this moment is lost; not before it is late."""
    patience_s = max(settings.LEASE_S, 2 * (timezone.now() - online_since()).total_seconds())
    return timezone.now() - datetime.timedelta(seconds=patience_s)


def beat_of(worker: Worker) -> Beat:
    if worker.last_seen_at is None:
        return Beat.NEVER
    if worker.last_seen_at >= online_since():
        return Beat.ON_TIME
    return Beat.LATE if worker.last_seen_at >= lost_before() else Beat.LOST


def beat_is(beat: Beat) -> Q:
    """The condition that `beat_of` answers this."""
    late, lost = online_since(), lost_before()
    return {
        Beat.ON_TIME: Q(pulse__last_seen_at__gte=late),
        Beat.LATE: Q(pulse__last_seen_at__lt=late, pulse__last_seen_at__gte=lost),
        Beat.LOST: Q(pulse__last_seen_at__lt=lost),
        Beat.NEVER: Q(pulse__last_seen_at=None),
    }[beat]


def beats_count(workers: QuerySet[Worker]) -> dict[Beat, int]:
    """How many workers are in each condition, in one query."""
    counts = {beat.value: Count("pk", filter=beat_is(beat)) for beat in Beat}
    found = workers.aggregate(**counts)
    return {beat: found[beat.value] for beat in Beat}


@transaction.atomic
def devices_lost_tell() -> None:
    """Tell of each device whose lease on being there is over; the same silence is told once.

    While the site itself may have been away nobody is to call this: it heard no device.
    """
    event = Webhook.Event.DEVICE_LOST
    if not administrators_listening(event).exists():
        return
    silent = lost_before()
    gone = Worker.objects.filter(
        pulse__last_seen_at__lt=silent, pulse__last_seen_at__gt=silent - RECENT, retired_at=None
    )
    seen = gone.values_list("pk", "name", "pulse__last_seen_at")
    occasions = (DeviceOccasion(pk, name, at.isoformat()) for pk, name, at in seen)
    device_events(event, occasions, since=silent - RECENT)
