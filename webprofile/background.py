"""Send messages to Dramatiq actors by name.

A module need not import the actor that it wants to run, which may belong to an app to its right.
A message only shortens a wait: the sweep finds the same rows within seconds. One that the broker
does not take is counted (`mgw_hints_lost`).
"""

import time
from collections.abc import Callable

import dramatiq
from django.db import transaction

from webprofile.observability.counters import HINTS_LOST, hint_given

#: how long the broker is not asked after it took no message
REST_S = 5.0
#: how long one sender may try whether it is back before another one does
TRY_S = 15.0


class Sender:
    """Send messages to the broker; pause for `REST_S` after it refused one.

    A broker that is silent holds each sender for seconds, and devices wait for the threads that
    send: so all but one of them go on without it.
    """

    def __init__(self) -> None:
        self._is_away = False
        self._rests_until = 0.0

    def send(self, actor: str, send: Callable[[], object]) -> None:
        """Call `send`, unless the broker rests. What the broker raises passes through."""
        now = time.monotonic()
        if now < self._rests_until:
            HINTS_LOST.labels(actor).inc()
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
    """Have an actor run in the background. What the broker raises passes through.

    queue: that of the actor, whose process listens to it
    """
    message: dramatiq.Message[object] = dramatiq.Message(
        queue_name=queue, actor_name=actor, args=args, kwargs={}, options={}
    )
    broker = dramatiq.get_broker()
    with hint_given(actor):
        broker.declare_queue(queue)  # this process may not have imported the actor, which does it
        broker.enqueue(message)


def enqueue_on_commit(actor: str, *args: object, queue: str) -> None:
    """The same after the commit, unless the broker took no message a moment ago."""
    transaction.on_commit(
        lambda: sender.send(actor, lambda: enqueue(actor, *args, queue=queue)), robust=True
    )
