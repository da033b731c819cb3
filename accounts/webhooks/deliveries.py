"""Deliver webhooks: claim a delivery, call the URL, store the result, retry with growing pauses.

`accounts.webhooks.courier` calls these functions; what is due and in which order is decided here.
"""

import datetime
import json
import time
from collections.abc import Collection, Mapping
from types import MappingProxyType

import structlog
from django.db import transaction
from django.db.models import F, Min, Q
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import Webhook, WebhookDelivery
from accounts.webhooks.client import send
from accounts.webhooks.signatures import signed_headers
from webprofile.background import enqueue
from webprofile.errors import DomainError

log = structlog.get_logger()

#: pause before each retry, s; together about a day, for receivers that are down for that long
PAUSES_S = (30, 300, 1800, 7200, 21600, 43200)
MOST_CALLS = len(PAUSES_S) + 1
#: an error of the site itself, for which no webhook is disabled
BROKE = "broke"
#: a webhook is disabled after this many failed deliveries in a row
MOST_FAILURES = 5
#: longer than a call may take; if the actor dies, the delivery is due again after this time
CLAIM = datetime.timedelta(seconds=60)
KEPT = datetime.timedelta(days=30)
#: a failed call that took this long is slow: calls of the same user to the same host pause, for
#: twice as long after each slow call in a row, s
SLOW_S = 5.0
FIRST_REST_S, LONGEST_REST_S = 30, 1800
#: after this time the message for a due delivery is sent again
PATIENCE = datetime.timedelta(minutes=2)
#: limit for one round of the sweep
DUE_LIMIT = 200


def call_webhook(delivery: WebhookDelivery) -> None:
    """Call the webhook of a claimed delivery and record the result."""
    began = time.monotonic()
    at = int(time.time())
    body = json.dumps(
        {
            "id": delivery.message,
            "type": delivery.event,
            "timestamp": delivery.created_at.isoformat(),
            "data": delivery.data,
        }
    ).encode()
    try:
        headers = signed_headers(delivery.webhook, message=delivery.message, at=at, body=body)
        status, problem = send(delivery.webhook.url, body, headers), ""
    except DomainError as error:
        status, problem = None, error.code.removeprefix("webhook_")
    except Exception:  # such as a secret whose key is lost, or an invalid certificate file
        log.exception("webhook_broke", delivery=delivery.pk)
        status, problem = None, BROKE
    _note(delivery, status, problem)
    is_good = status is not None and 200 <= status < 300
    _note_speed(delivery.webhook, is_slow=not is_good and time.monotonic() - began >= SLOW_S)


def next_delivery(
    *, without: Collection[int] = (), last: Mapping[int, float] = MappingProxyType({})
) -> int | None:
    """Return the id of the oldest due delivery of the user whose turn it is.

    without: users who have no turn now
    last: when the last turn of each user began; of users without one, the one who waits longest is
        first
    """
    due = WebhookDelivery.objects.filter(next_at__lte=timezone.now())
    waiting = due.exclude(webhook__user__in=without).order_by()
    users = dict(waiting.values_list("webhook__user").annotate(since=Min("next_at")))
    if not users:
        return None
    user = min(users, key=lambda pk: (last.get(pk, 0.0), users[pk], pk))
    of_user = due.filter(webhook__user=user).order_by("next_at", "pk")
    return of_user.values_list("pk", flat=True).first()


def sweep_deliveries() -> None:
    """Delete old deliveries, and send messages again for due ones whose message may be lost.

    Stops for this round at the first message that the broker does not accept.
    """
    now = timezone.now()
    WebhookDelivery.objects.filter(created_at__lt=now - KEPT).delete()
    not_sent = Q(hinted_at=None) | Q(hinted_at__lt=F("next_at")) | Q(hinted_at__lt=now - PATIENCE)
    due = WebhookDelivery.objects.filter(not_sent, next_at__lte=now).order_by("next_at")
    for row in due.values_list("pk", flat=True)[:DUE_LIMIT]:
        try:
            enqueue("deliver_webhook", row, queue="webhooks")
        except Exception:
            log.exception("delivery_message_not_sent", delivery=row)
            return
        WebhookDelivery.objects.filter(pk=row).update(hinted_at=now)


@transaction.atomic
def claim_delivery(delivery_id: int) -> WebhookDelivery | None:
    """Claim a delivery if it is due; None also if it must not be made any more, which ends it."""
    now = timezone.now()
    due = WebhookDelivery.objects.filter(pk=delivery_id, next_at__lte=now)
    if not due.update(next_at=now + CLAIM, attempts=F("attempts") + 1):
        return None
    delivery = WebhookDelivery.objects.select_related("webhook__user").get(pk=delivery_id)
    problem = _problem_before_call(delivery)
    if problem:
        _end(delivery, None, problem)
        return None
    return delivery


def _problem_before_call(delivery: WebhookDelivery) -> str:
    """Return why the delivery must not be made any more; empty if it may."""
    owner = delivery.webhook.user
    if delivery.webhook.disabled_at or not owner.is_active:
        return "disabled"
    if delivery.event.startswith("device.") and not owner.is_staff:
        return "not_yours"
    # more calls than results: the actor was killed or exceeded its time limit each time
    return BROKE if delivery.attempts > MOST_CALLS else ""


@transaction.atomic
def _note(delivery: WebhookDelivery, status: int | None, problem: str) -> None:
    log.info(
        "webhook_called",
        delivery=delivery.pk,
        webhook=delivery.webhook_id,
        status=status,
        problem=problem,
    )
    if status is not None and 200 <= status < 300:
        _end(delivery, status, "")
        Webhook.objects.filter(pk=delivery.webhook_id).update(failures=0)
        return
    problem = problem or "status"
    if delivery.attempts < MOST_CALLS and delivery.event != "test":
        pause = datetime.timedelta(seconds=PAUSES_S[delivery.attempts - 1])
        # not if the webhook was disabled meanwhile
        WebhookDelivery.objects.filter(pk=delivery.pk, ended_at=None).update(
            next_at=timezone.now() + pause, status=status, problem=problem
        )
        return
    _end(delivery, status, problem)
    if delivery.event != "test" and problem != BROKE:
        _count_failure(delivery.webhook)


@transaction.atomic
def _note_speed(webhook: Webhook, *, is_slow: bool) -> None:
    """Let the user's webhooks of the same host rest after a slow call, or end their rest."""
    # ordered by key, as in `events`, so that concurrent transactions do not deadlock
    of_user = Webhook.objects.filter(user=webhook.user_id).order_by("pk")
    locked = of_user.select_for_update(of=("self",), no_key=True)
    own = [row for row in locked if row.host == webhook.host]
    if not is_slow and not any(row.slow_calls for row in own):
        return
    rows = Webhook.objects.filter(pk__in=[row.pk for row in own])
    if not is_slow:
        rows.filter(slow_calls__gt=0).update(slow_calls=0, rests_until=None)
        return
    slow_calls = max((row.slow_calls for row in own), default=0) + 1
    rest_s = min(FIRST_REST_S * 2 ** (slow_calls - 1), LONGEST_REST_S)
    until = timezone.now() + datetime.timedelta(seconds=rest_s)
    rows.update(slow_calls=min(slow_calls, 100), rests_until=until)
    pending = WebhookDelivery.objects.filter(webhook__in=own, next_at__lt=until)
    pending.exclude(event="test").update(next_at=until)


def _end(delivery: WebhookDelivery, status: int | None, problem: str) -> None:
    WebhookDelivery.objects.filter(pk=delivery.pk).update(
        next_at=None, ended_at=timezone.now(), status=status, problem=problem
    )


def _count_failure(webhook: Webhook) -> None:
    """Count a failed delivery, and disable the webhook after `MOST_FAILURES` in a row.

    Its pending deliveries end; after the owner has enabled it again, it gets new events only.
    """
    Webhook.objects.filter(pk=webhook.pk).update(failures=F("failures") + 1)
    full = Webhook.objects.filter(pk=webhook.pk, failures__gte=MOST_FAILURES, disabled_at=None)
    now = timezone.now()
    if full.update(disabled_at=now):
        waiting = WebhookDelivery.objects.filter(webhook=webhook, next_at__isnull=False)
        waiting.update(next_at=None, ended_at=now, problem="disabled")
        record_audit_entry("webhook.disable", webhook, by=None)
