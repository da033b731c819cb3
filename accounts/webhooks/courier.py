"""Make webhook calls in threads of their own: for each user one at a time, in turns by user."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import structlog
from django.db import connections

from accounts.models import WebhookDelivery
from accounts.webhooks.deliveries import call_webhook, claim_delivery, next_delivery
from webprofile.observability.counters import ACTOR_SECONDS

log = structlog.get_logger()

#: calls that a process makes at the same time, each for another user
CALLS_AT_ONCE = 16


class Courier:
    """Starts calls that are due. A call may take 15 s, for which no actor waits.

    Of the users with due deliveries, the one whose last call began first is next. So slow receivers
    of one user delay only deliveries of this user.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._called = set[int]()
        #: monotonic time at which the last call of each user began
        self._last: dict[int, float] = {}
        self._threads: ThreadPoolExecutor | None = None

    def start_calls(self) -> None:
        """Start a call for each user who has a due delivery and no call in progress."""
        with self._lock:
            while len(self._called) < CALLS_AT_ONCE:
                due = next_delivery(without=self._called, last=self._last)
                if due is None:
                    return
                delivery = claim_delivery(due)
                if delivery is not None:
                    self._start(delivery, delivery.webhook.user_id)

    def _start(self, delivery: WebhookDelivery, user: int) -> None:
        # created here, since Dramatiq forks its processes after the import
        self._threads = self._threads or ThreadPoolExecutor(CALLS_AT_ONCE, "webhooks")
        self._called.add(user)
        self._last[user] = time.monotonic()
        self._threads.submit(self._call, delivery, user)

    def _call(self, delivery: WebhookDelivery, user: int) -> None:
        began, result = time.monotonic(), "failed"
        try:
            call_webhook(delivery)
            result = "done"
        except Exception:  # the claim expires, and the delivery is due again
            log.exception("webhook_result_lost", delivery=delivery.pk)
        ACTOR_SECONDS.labels("call_webhook", result).observe(time.monotonic() - began)
        with self._lock:
            self._called.discard(user)
        try:
            self.start_calls()
        except Exception:  # the sweep repeats the message
            log.exception("webhooks_not_started")
        finally:
            connections.close_all()


courier = Courier()
