"""What happens right after a commit so that nobody waits for the sweep; lost, it costs seconds."""

from django.db import transaction

from webprofile.meters import hint_given


def deliver_on_commit(delivery_id: int) -> None:
    """Queue the call of a webhook."""
    transaction.on_commit(lambda: deliver_soon(delivery_id), robust=True)


def deliver_soon(delivery_id: int) -> None:
    """Queue the call of a webhook here and now; what the broker raises passes through.

    The actor builds on the services that give this hint.
    """
    from accounts.actors import deliver_webhook

    with hint_given("deliver_webhook"):
        deliver_webhook.send(delivery_id)
