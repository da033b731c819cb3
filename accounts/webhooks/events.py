"""What happened, as rows: one for each webhook that wants to hear of it.

Called in the transaction of what happened, so nothing is told that was undone, and nothing is
forgotten. Rows name things by number and address; whoever may read them asks with that.
"""

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import Webhook, WebhookDelivery
from webprofile.background import enqueue_on_commit


def task_ended(task_id: int, owner_id: int, outcome: str, reason: str) -> None:
    """Tell the owner's webhooks that a task is finished; outcome and reason by their codes."""
    event = Webhook.Event.TASK_FINISHED
    data = {
        "task": task_id,
        "outcome": outcome,
        "reason": reason,
        "url": f"{settings.SITE_URL}/tasks/{task_id}/",
        "api": f"{settings.SITE_URL}/api/v1/tasks/{task_id}/",
    }
    for webhook in _held(_listening(event).filter(user=owner_id)):
        add_delivery(webhook, event.value, key=f"task {task_id}", data=data)


@dataclass(frozen=True)
class DeviceOccasion:
    """Something that happened to a device; `key` names this very occasion."""

    worker_id: int
    name: str
    key: str


def device_events(
    event: Webhook.Event,
    occasions: Iterable[DeviceOccasion],
    *,
    since: datetime.datetime | None = None,
) -> None:
    """Tell administrators' webhooks of devices; again and again for as long as an occasion lasts.

    since: nobody was told of any of them before that; what was told is found by one query. None:
    nobody was told yet
    """
    webhooks = list(_held(administrators_listening(event)))
    if not webhooks:
        return
    told = set[tuple[int, str]]()
    if since is not None:
        rows = WebhookDelivery.objects.filter(event=event.value, created_at__gte=since)
        told = set(rows.values_list("webhook", "key"))
    for occasion in occasions:
        key = f"{event.value} {occasion.worker_id} {occasion.key}"[:100]
        data = {
            "device": occasion.worker_id,
            "name": occasion.name,
            "url": f"{settings.SITE_URL}/workers/{occasion.worker_id}/",
            "api": f"{settings.SITE_URL}/api/v1/workers/{occasion.worker_id}/",
        }
        for webhook in webhooks:
            if (webhook.pk, key) not in told:
                add_delivery(webhook, event.value, key=key, data=data)


def administrators_listening(event: Webhook.Event) -> QuerySet[Webhook]:
    return _listening(event).filter(user__is_staff=True)


def _held(webhooks: QuerySet[Webhook]) -> QuerySet[Webhook]:
    """Locked: one that is removed before the commit would break it, with all that is in it."""
    # in one order for all who lock several
    return webhooks.order_by("pk").select_for_update(of=("self",), no_key=True)


def add_delivery(
    webhook: Webhook, event: str, *, key: str, data: Mapping[str, Any]
) -> WebhookDelivery:
    """The row of one event for one webhook; there already, if it was told before."""
    row, new = WebhookDelivery.objects.get_or_create(
        webhook=webhook,
        key=key,
        defaults={"event": event, "data": dict(data), "next_at": timezone.now()},
    )
    if new:
        enqueue_on_commit("deliver_webhook", row.pk, queue="webhooks")
    return row


def _listening(event: Webhook.Event) -> QuerySet[Webhook]:
    # by text: SQLite's JSON knows no "contains"
    wanted = Webhook.objects.filter(disabled_at=None, user__is_active=True)
    return wanted.filter(events__icontains=f'"{event.value}"')
