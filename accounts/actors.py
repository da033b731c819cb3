"""Dramatiq entry points: load by id, call one service, return nothing."""

import threading

import dramatiq

from accounts.webhooks.deliveries import next_delivery, try_delivery

#: one call at a time in each process, whose other threads read profiles: a receiver may take 15 s
#: for each. Of the process, since what lies in Redis outlives a process that was killed
_LINE = threading.Lock()


# what failed is tried again by its row, not by the broker; profiles go first (0 is the default)
@dramatiq.actor(queue_name="webhooks", priority=10, max_retries=0, time_limit=45_000)
def deliver_webhook(delivery_id: int) -> None:
    """Call a webhook once, then queue the next call that is due. Idempotent.

    While another thread calls, nothing is done: that one goes on with this row.
    """
    if not _LINE.acquire(blocking=False):
        return
    try:
        try_delivery(delivery_id)
    finally:
        _LINE.release()
    following = next_delivery()
    if following is not None:
        deliver_webhook.send(following)
