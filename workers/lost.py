"""Devices that went away, told to administrators' webhooks.

"Online" is computed and never stored; that somebody was told is what a delivery's row remembers.
"""

import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.models import Webhook
from accounts.webhooks.events import DeviceOccasion, administrators_listening, device_events
from workers.models import Worker

#: who asks to be told later hears nothing of what was lost long before
RECENT = datetime.timedelta(hours=1)


@transaction.atomic
def devices_lost_tell() -> None:
    """Tell of each device whose lease on being there is over; the same silence is told once.

    While the site itself may have been away nobody is to call this: it heard no device.
    """
    event = Webhook.Event.DEVICE_LOST
    if not administrators_listening(event).exists():
        return
    silent = timezone.now() - datetime.timedelta(seconds=settings.LEASE_S)
    gone = Worker.objects.filter(
        pulse__last_seen_at__lt=silent, pulse__last_seen_at__gt=silent - RECENT, retired_at=None
    )
    seen = gone.values_list("pk", "name", "pulse__last_seen_at")
    occasions = (DeviceOccasion(pk, name, at.isoformat()) for pk, name, at in seen)
    device_events(event, occasions, since=silent - RECENT)
