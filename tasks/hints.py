"""What happens right after a commit so that nobody waits for the sweep.

All of it is a hint: if it is lost, `tasks.sweeping` finds the same rows within seconds. The imports
inside the functions are on purpose: what a hint calls builds on the services that give it.
"""

import time
from collections.abc import Callable, Collection

from django.db import transaction

from webprofile.meters import HINTS_LOST, hint_given

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

    def send(self, hint: str, act: Callable[[], object]) -> None:
        """Do `act`, unless the broker rests. What the broker raises passes through."""
        now = time.monotonic()
        if now < self._rests_until:
            HINTS_LOST.labels(hint).inc()
            return
        if self._is_away:
            self._rests_until = now + TRY_S
        try:
            with hint_given(hint):
                act()
        except Exception:
            self._is_away, self._rests_until = True, time.monotonic() + REST_S
            raise
        self._is_away, self._rests_until = False, 0.0


sender = Sender()


def dispatch_on_commit(worker_ids: Collection[int]) -> None:
    """Have the dispatcher give these devices the next of their waiting tasks."""
    from tasks.actors import dispatch

    asked = sorted(worker_ids)

    def send() -> None:
        sender.send("dispatch", lambda: dispatch.send(asked))

    if asked:
        transaction.on_commit(send, robust=True)


def build_profile_on_commit(attempt_id: str) -> None:
    """Queue the reading of an attempt's files."""
    from profiles.actors import build_profile

    def send() -> None:
        sender.send("build_profile", lambda: build_profile.send(attempt_id))

    transaction.on_commit(send, robust=True)


def build_profile_soon(attempt_id: str) -> None:
    """The same here and now; what the broker raises passes through.

    `profiles` lies to the right of `tasks`.
    """
    from profiles.actors import build_profile

    with hint_given("build_profile"):
        build_profile.send(attempt_id)
