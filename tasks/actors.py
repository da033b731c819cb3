"""Dramatiq actors of tasks: the dispatcher, which has its own queue and process; the diagnosis."""

import threading
import time
from collections.abc import Iterable

import dramatiq
from structlog.contextvars import bind_contextvars

from tasks.lifecycle.failures import end_failed_run
from tasks.models import Attempt
from tasks.scheduling.assignment import assign_waiting

#: messages that arrive within this time after a round began are joined into the next round
JOIN_S = 0.02
#: this long after a round was due, the thread that waited for it is considered dead
GIVEN_UP_S = 1.0


class DispatchBatch:
    """Joins concurrent calls: collects the workers that no thread of this process has taken yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending = set[int]()
        self._next_at = 0.0

    def take(self, worker_ids: Iterable[int]) -> set[int]:
        """Add workers, and return those that the calling thread has to dispatch to.

        The first call returns immediately. Of the calls within the next `JOIN_S`, one waits for the
        rest of that time and returns the workers of all of them; the others return an empty set.
        """
        with self._lock:
            wait_s = self._next_at - time.monotonic()
            # Dramatiq may have killed the waiting thread (time limit): do not rely on it forever
            is_thread_waiting = bool(self._pending) and wait_s > -GIVEN_UP_S
            self._pending |= set(worker_ids)
        if is_thread_waiting:
            return set()
        if wait_s > 0:
            time.sleep(wait_s)
        with self._lock:
            taken, self._pending = self._pending, set()
            self._next_at = time.monotonic() + JOIN_S
        return taken


_batch = DispatchBatch()


@dramatiq.actor(queue_name="dispatch", max_retries=0, max_age=10_000, time_limit=60_000)
def dispatch(worker_ids: list[int]) -> None:
    """Assign waiting tasks to the free slots of these workers, and wake their agents. Idempotent.

    A message that is lost, fails or expires costs a few seconds only: the sweep finds the same
    workers by their rows.
    """
    if workers := _batch.take(worker_ids):
        assign_waiting(workers)


@dramatiq.actor(
    queue_name="profiles", max_retries=5, min_backoff=1_000, max_backoff=30_000, time_limit=60_000
)
def diagnose_run(attempt_id: str) -> None:
    """Find out why a run failed, and end its task. Idempotent."""
    attempt = Attempt.objects.select_related("task", "worker").filter(pk=attempt_id).first()
    if attempt is None:
        return  # its task was deleted meanwhile
    bind_contextvars(task=attempt.task_id, attempt=attempt_id, worker=attempt.worker.name)
    end_failed_run(attempt)
