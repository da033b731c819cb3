"""Services that change a user's webhooks: add, remove, enable, test, rotate the secret."""

from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User, Webhook, WebhookDelivery
from accounts.webhooks.addresses import validate_webhook_url
from accounts.webhooks.events import add_delivery
from accounts.webhooks.signatures import encrypt_secret, new_secret
from webprofile.errors import DomainError

WEBHOOKS_LIMIT = 10
#: limit on pending test deliveries, since webhooks may call servers of others
TESTS_AT_ONCE = 5


@transaction.atomic
def add_webhook(user: User, *, url: str, events: Iterable[str]) -> tuple[Webhook, str]:
    """Create a webhook and return it with its secret, which is shown only once.

    Raises DomainError: character_bad, webhook_url, webhook_events, webhook_limit.
    """
    url = validate_webhook_url(url)
    chosen = _events(user, events)
    # lock the owner's row, so that concurrent requests cannot exceed the limit
    User.objects.select_for_update().get(pk=user.pk)
    if user.webhooks.count() >= WEBHOOKS_LIMIT:
        raise DomainError("webhook_limit")
    secret = new_secret()
    webhook = Webhook.objects.create(
        user=user, url=url, events=chosen, secret=encrypt_secret(secret)
    )
    record_audit_entry("webhook.add", webhook, by=user, after={"events": chosen})
    return webhook, secret


@transaction.atomic
def remove_webhook(webhook: Webhook) -> None:
    """Delete a webhook and its deliveries."""
    record_audit_entry(
        "webhook.remove", webhook, by=webhook.user, before={"events": webhook.events}
    )
    webhook.delete()


@transaction.atomic
def rotate_webhook_secret(webhook: Webhook) -> str:
    """Return a new secret, shown only once; the former one also signs until it is ended."""
    secret = new_secret()
    row = Webhook.objects.select_for_update().get(pk=webhook.pk)
    row.former_secret, row.secret = row.secret, encrypt_secret(secret)
    row.save(update_fields=["secret", "former_secret"])
    record_audit_entry("webhook.rotate", row, by=row.user)
    return secret


@transaction.atomic
def end_former_secret(webhook: Webhook) -> None:
    """Delete the former secret if there is one."""
    row = Webhook.objects.filter(pk=webhook.pk).exclude(former_secret="")
    if row.update(former_secret=""):
        record_audit_entry("webhook.end_former", webhook, by=webhook.user)


@transaction.atomic
def enable_webhook(webhook: Webhook) -> None:
    """Enable a webhook for future events if it is disabled."""
    row = Webhook.objects.filter(pk=webhook.pk, disabled_at__isnull=False)
    if row.update(disabled_at=None, failures=0, slow_calls=0, rests_until=None):
        record_audit_entry("webhook.enable", webhook, by=webhook.user)


@transaction.atomic
def send_test_delivery(webhook: Webhook) -> WebhookDelivery:
    """Create a delivery of a test event. Raises DomainError webhook_busy."""
    User.objects.select_for_update().get(pk=webhook.user_id)
    waiting = WebhookDelivery.objects.filter(
        webhook__user=webhook.user_id, event="test", next_at__isnull=False
    )
    if waiting.count() >= TESTS_AT_ONCE:
        raise DomainError("webhook_busy", status=429)
    moment = timezone.now().isoformat()
    return add_delivery(webhook, "test", key=f"test {moment}", data={"at": moment})


def _events(user: User, events: Iterable[str]) -> list[str]:
    requested = set(events)
    allowed = [Webhook.Event.TASK_FINISHED.value]
    if user.is_staff:
        allowed += [Webhook.Event.DEVICE_LOST.value, Webhook.Event.DEVICE_HELD.value]
    chosen = [event for event in allowed if event in requested]
    if not chosen or requested - set(chosen):
        raise DomainError("webhook_events", field="events")
    return chosen
