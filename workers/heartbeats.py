"""Classify workers by their last heartbeat, and send webhooks about lost devices."""

import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q, QuerySet, TextChoices
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import Webhook
from accounts.webhooks.events import DeviceOccurrence, add_device_deliveries, administrator_webhooks
from workers.models import Worker, online_since
from workers.status import DeviceStatus

#: no webhooks are sent about devices that were lost longer ago than this
RECENT = datetime.timedelta(hours=1)


class Beat(TextChoices):
    ON_TIME = "on_time", _("on time")
    #: missed some heartbeats: it counts as offline, but its attempts are still live
    LATE = "late", _("late")
    #: missed heartbeats for longer than a lease: its attempts were ended
    LOST = "lost", pgettext_lazy("device", "lost")
    NEVER = "never", DeviceStatus.NEVER_CONNECTED.label


def lost_before() -> datetime.datetime:
    """Return the time before which a worker's last heartbeat makes it lost.

    It is earlier than `online_since`, so that a lost worker was late before.
    """
    timeout_s = max(settings.LEASE_S, 2 * (timezone.now() - online_since()).total_seconds())
    return timezone.now() - datetime.timedelta(seconds=timeout_s)


def beat_of(worker: Worker) -> Beat:
    if worker.last_seen_at is None:
        return Beat.NEVER
    if worker.last_seen_at >= online_since():
        return Beat.ON_TIME
    return Beat.LATE if worker.last_seen_at >= lost_before() else Beat.LOST


def beat_is(beat: Beat) -> Q:
    """Return the condition on rows for which `beat_of` returns `beat`."""
    late, lost = online_since(), lost_before()
    return {
        Beat.ON_TIME: Q(pulse__last_seen_at__gte=late),
        Beat.LATE: Q(pulse__last_seen_at__lt=late, pulse__last_seen_at__gte=lost),
        Beat.LOST: Q(pulse__last_seen_at__lt=lost),
        Beat.NEVER: Q(pulse__last_seen_at=None),
    }[beat]


def beats_count(workers: QuerySet[Worker]) -> dict[Beat, int]:
    """Return the number of workers in each category, in one query."""
    counts = {beat.value: Count("pk", filter=beat_is(beat)) for beat in Beat}
    totals = workers.aggregate(**counts)
    return {beat: totals[beat.value] for beat in Beat}


@transaction.atomic
def devices_lost_tell() -> None:
    """Send webhooks about devices that were lost recently, once for each time that one is lost.

    Must not be called while agents may still be reconnecting after the site was down.
    """
    event = Webhook.Event.DEVICE_LOST
    if not administrator_webhooks(event).exists():
        return
    silent = lost_before()
    lost = Worker.objects.filter(
        pulse__last_seen_at__lt=silent, pulse__last_seen_at__gt=silent - RECENT, retired_at=None
    )
    rows = lost.values_list("pk", "name", "pulse__last_seen_at")
    occasions = (DeviceOccurrence(pk, name, at.isoformat()) for pk, name, at in rows)
    add_device_deliveries(event, occasions, since=silent - RECENT)
