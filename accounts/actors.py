"""Dramatiq actors of accounts."""

import threading

import dramatiq

from accounts.webhooks.deliveries import next_delivery, try_delivery

#: allows one webhook call at a time in each process: a call may take 15 s, and the other threads
#: are needed to build profiles. A lock in Redis would outlive a process that is killed
_CALL_LOCK = threading.Lock()


# a failed call is repeated through `next_at` of its row, not by the broker; actors that build
# profiles have priority (their value is the default, 0)
@dramatiq.actor(queue_name="webhooks", priority=10, max_retries=0, time_limit=45_000)
def deliver_webhook(delivery_id: int) -> None:
    """Call a webhook once, then enqueue the next delivery that is due. Idempotent.

    Does nothing while another thread of this process calls a webhook: that thread enqueues this
    delivery when it has finished.
    """
    if not _CALL_LOCK.acquire(blocking=False):
        return
    try:
        try_delivery(delivery_id)
    finally:
        _CALL_LOCK.release()
    next_id = next_delivery()
    if next_id is not None:
        deliver_webhook.send(next_id)
