"""Dramatiq actors of accounts."""

import dramatiq

from accounts.webhooks.courier import courier


# a failed call is repeated through `next_at` of its row, not by the broker
@dramatiq.actor(queue_name="webhooks", max_retries=0, time_limit=45_000)
def deliver_webhook(delivery_id: int) -> None:
    """Start the webhook calls whose turn it is. Idempotent.

    delivery_id: the delivery that caused the message; its user's turn may come later
    """
    courier.start_calls()
