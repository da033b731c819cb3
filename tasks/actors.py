"""Dramatiq entry point of the dispatcher, which has a queue and a process of its own."""

import threading
import time
from collections.abc import Iterable

import dramatiq

from tasks.scheduling.assignment import assign_waiting

#: what is asked for within this time after a round joins the next one
JOIN_S = 0.02
#: so long after the end of that time nobody counts on the thread that waited for it
GIVEN_UP_S = 1.0


class Joined:
    """Devices to dispatch to that no thread of this process has taken yet; joins calls in time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = set[int]()
        self._next_at = 0.0

    def take(self, worker_ids: Iterable[int]) -> set[int]:
        """Add devices, and return all that this thread is to look at.

        The first call returns at once. Of those in the next `JOIN_S` one waits for the rest of that
        time and returns the devices of all; the others return none.
        """
        with self._lock:
            wait_s = self._next_at - time.monotonic()
            # one that was ended while it waited takes nothing any more
            is_somebody_waiting = bool(self._asked) and wait_s > -GIVEN_UP_S
            self._asked |= set(worker_ids)
        if is_somebody_waiting:
            return set()
        if wait_s > 0:
            time.sleep(wait_s)
        with self._lock:
            taken, self._asked = self._asked, set()
            self._next_at = time.monotonic() + JOIN_S
        return taken


_joined = Joined()


@dramatiq.actor(queue_name="dispatch", max_retries=0, max_age=10_000, time_limit=60_000)
def dispatch(worker_ids: list[int]) -> None:
    """Give devices the next of their waiting tasks, and wake their agents. Idempotent.

    A message that is lost, fails or is too old is made up for by the sweep, which looks at the rows
    of all devices.
    """
    if asked := _joined.take(worker_ids):
        assign_waiting(asked)
