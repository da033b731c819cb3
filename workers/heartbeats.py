"""Classify workers by their last heartbeat, and send webhooks about lost devices."""

import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q, QuerySet, TextChoices
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from accounts.models import Webhook
from accounts.webhooks.events import add_device_deliveries, administrator_webhooks
from workers.models import Worker, online_since
from workers.status import DeviceStatus

#: no webhooks are sent about devices that were lost longer ago than this
RECENT = datetime.timedelta(hours=1)


class HeartbeatStatus(TextChoices):
    """How late a worker's last heartbeat is, whatever its `DeviceStatus`."""

    ON_TIME = "on_time", _("on time")
    #: missed three heartbeats: it counts as offline; its attempts are live until their leases end
    LATE = "late", _("late")
    #: missed heartbeats for a lease, at least six: its attempts were ended
    LOST = "lost", pgettext_lazy("device", "lost")
    NEVER = "never", DeviceStatus.NEVER_CONNECTED.label


def lost_before() -> datetime.datetime:
    """Return the time before which a worker's last heartbeat makes it lost.

    It is earlier than `online_since`, so that a lost worker was late before.
    """
    timeout_s = max(settings.LEASE_S, 2 * (timezone.now() - online_since()).total_seconds())
    return timezone.now() - datetime.timedelta(seconds=timeout_s)


def heartbeat_status(worker: Worker) -> HeartbeatStatus:
    if worker.last_seen_at is None:
        return HeartbeatStatus.NEVER
    if worker.last_seen_at >= online_since():
        return HeartbeatStatus.ON_TIME
    is_late = worker.last_seen_at >= lost_before()
    return HeartbeatStatus.LATE if is_late else HeartbeatStatus.LOST


def heartbeat_status_is(status: HeartbeatStatus) -> Q:
    """Return the condition on rows for which `heartbeat_status` returns `status`."""
    late, lost = online_since(), lost_before()
    return {
        HeartbeatStatus.ON_TIME: Q(last_heartbeat__last_seen_at__gte=late),
        HeartbeatStatus.LATE: Q(
            last_heartbeat__last_seen_at__lt=late, last_heartbeat__last_seen_at__gte=lost
        ),
        HeartbeatStatus.LOST: Q(last_heartbeat__last_seen_at__lt=lost),
        HeartbeatStatus.NEVER: Q(last_heartbeat__last_seen_at=None),
    }[status]


def count_heartbeat_statuses(workers: QuerySet[Worker]) -> dict[HeartbeatStatus, int]:
    """Return the number of workers in each status, in one query."""
    counts = {
        status.value: Count("pk", filter=heartbeat_status_is(status)) for status in HeartbeatStatus
    }
    totals = workers.aggregate(**counts)
    return {status: totals[status.value] for status in HeartbeatStatus}


@transaction.atomic
def notify_lost_devices() -> None:
    """Send webhooks about devices that were lost recently, once for each time that one is lost.

    Must not be called while agents may still be reconnecting after the site was down.
    """
    event = Webhook.Event.DEVICE_LOST
    if not administrator_webhooks(event).exists():
        return
    lost_since = lost_before()
    lost = Worker.objects.filter(
        last_heartbeat__last_seen_at__lt=lost_since,
        last_heartbeat__last_seen_at__gt=lost_since - RECENT,
        retired_at=None,
    )
    occurrences = lost.values_list("pk", "name", "last_heartbeat__last_seen_at")
    add_device_deliveries(event, occurrences, since=lost_since - RECENT)
