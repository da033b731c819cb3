"""Create delivery rows for events: one for each webhook that subscribes to the event.

Called in the transaction that causes the event, so that deliveries and events commit together.
Rows contain ids and URLs only; receivers fetch the details through the API.
"""

import datetime
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import Webhook, WebhookDelivery
from webprofile.background import enqueue_on_commit


def add_task_deliveries(task_id: int, owner_id: int, outcome: str, reason: str) -> None:
    """Create deliveries about a finished task for its owner's webhooks."""
    event = Webhook.Event.TASK_FINISHED
    data = {
        "task": task_id,
        "outcome": outcome,
        "reason": reason,
        "url": f"{settings.SITE_URL}/tasks/{task_id}/",
        "api": f"{settings.SITE_URL}/api/v1/tasks/{task_id}/",
    }
    for webhook in _locked(_subscribed(event).filter(user=owner_id)):
        add_delivery(webhook, event.value, key=f"task {task_id}", data=data)


def add_device_deliveries(
    event: Webhook.Event,
    occurrences: Iterable[tuple[int, str, datetime.datetime]],
    *,
    since: datetime.datetime | None = None,
) -> None:
    """Create deliveries about devices for administrators' webhooks, once for each occurrence.

    occurrences: id and name of the device, and the time that tells it from its earlier ones
    since: no earlier time at which deliveries of these occurrences may exist; they are excluded by
        one query. None if there are none yet
    """
    webhooks = list(_locked(administrator_webhooks(event)))
    if not webhooks:
        return
    existing = set[tuple[int, str]]()
    if since is not None:
        rows = WebhookDelivery.objects.filter(event=event.value, created_at__gte=since)
        existing = set(rows.values_list("webhook", "key"))
    for worker_id, name, at in occurrences:
        key = f"{event.value} {worker_id} {at.isoformat()}"[:100]
        # names may have letters of any script
        quoted = quote(name)
        data = {
            "device": worker_id,
            "name": name,
            "url": f"{settings.SITE_URL}/workers/{quoted}/",
            "api": f"{settings.SITE_URL}/api/v1/workers/{quoted}/",
        }
        for webhook in webhooks:
            if (webhook.pk, key) not in existing:
                add_delivery(webhook, event.value, key=key, data=data)


def administrator_webhooks(event: Webhook.Event) -> QuerySet[Webhook]:
    """Return the enabled webhooks of administrators that subscribe to an event."""
    return _subscribed(event).filter(user__is_staff=True)


def _locked(webhooks: QuerySet[Webhook]) -> QuerySet[Webhook]:
    """Lock webhooks: removing one before the commit would fail the whole transaction."""
    # ordered by key, so that concurrent transactions do not deadlock
    return webhooks.order_by("pk").select_for_update(of=("self",), no_key=True)


def add_delivery(
    webhook: Webhook, event: str, *, key: str, data: Mapping[str, Any]
) -> WebhookDelivery:
    """Create the delivery of an event to a webhook, or return the existing one with this key."""
    now = timezone.now()
    rest = webhook.rests_until if event != "test" else None
    row, new = WebhookDelivery.objects.get_or_create(
        webhook=webhook,
        key=key,
        defaults={"event": event, "data": dict(data), "next_at": max(now, rest or now)},
    )
    if new:
        enqueue_on_commit("deliver_webhook", row.pk, queue="webhooks")
    return row


def _subscribed(event: Webhook.Event) -> QuerySet[Webhook]:
    # matched as text, because SQLite's JSON has no "contains"
    active = Webhook.objects.filter(disabled_at=None, user__is_active=True)
    return active.filter(events__icontains=f'"{event.value}"')
