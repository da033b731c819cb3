"""Send messages to Dramatiq actors by name.

A module need not import the actor, which may belong to an app in a higher layer. A message only
reduces latency: the sweep finds the same rows within seconds, and a rebuild of derived data is
requested again by a later reader. Messages that the broker does not accept are counted
(`mgw_messages_lost_total`).
"""

import threading
import time
from collections.abc import Callable

import dramatiq
from django.db import transaction

from webprofile.observability.counters import MESSAGES_LOST

#: pause of all senders after the broker failed
REST_S = 5.0
#: how long a single sender may test whether the broker is back
TRY_S = 15.0


#: Threads of an actor process that long work may hold. One thread of each process is left for the
#: results of runs, so that imports never hold all of them; a single thread does everything. Set
#: when the threads of the process start.
long_work = threading.Semaphore(1)


class Sender:
    """Circuit breaker: send messages to the broker, but pause for `REST_S` after a failure.

    A broker that does not respond blocks each sender for seconds (limits:
    `webprofile/settings/environment.py`), while devices wait for the
    sending threads. So after a failure one thread at a time retries and the others skip sending.
    """

    def __init__(self) -> None:
        self._is_away = False
        self._rests_until = 0.0

    def send(self, actor: str, send: Callable[[], object]) -> None:
        """Call `send`, unless sending is paused. Exceptions of the broker are re-raised."""
        now = time.monotonic()
        if now < self._rests_until:
            MESSAGES_LOST.labels(actor).inc()
            return
        if self._is_away:
            self._rests_until = now + TRY_S
        try:
            send()
        except Exception:
            self._is_away, self._rests_until = True, time.monotonic() + REST_S
            raise
        self._is_away, self._rests_until = False, 0.0


sender = Sender()


def enqueue(actor: str, *args: object, queue: str) -> None:
    """Send a message to an actor. Exceptions of the broker are re-raised.

    queue: the queue of the actor
    """
    message: dramatiq.Message[object] = dramatiq.Message(
        queue_name=queue, actor_name=actor, args=args, kwargs={}, options={}
    )
    broker = dramatiq.get_broker()
    try:
        broker.declare_queue(queue)  # importing the actor would do this
        broker.enqueue(message)
    except Exception:
        MESSAGES_LOST.labels(actor).inc()
        raise


def enqueue_on_commit(actor: str, *args: object, queue: str) -> None:
    """Send a message to an actor after the commit, unless sending is paused (`Sender`)."""
    transaction.on_commit(
        lambda: sender.send(actor, lambda: enqueue(actor, *args, queue=queue)), robust=True
    )
