"""Which waiting task goes to which device next."""

from django.db import IntegrityError
from django.db.models import Q
from django.utils import timezone

from tasks.attempts import attempt_assign
from tasks.models import Attempt, Task
from tasks.states import TaskState
from workers.models import Worker, online_since


def assign_waiting(worker_id: int | None = None) -> list[Attempt]:
    """Fill the free slots of one device, or of all that are online, oldest task first.

    Choosing reads without locks; the claim itself is a compare-and-swap plus a unique constraint,
    so two dispatchers at once hand out each task and each slot at most once.
    """
    assigned = []
    workers = Worker.objects.filter(
        is_enabled=True, last_seen_at__gte=online_since(), tasks__state=TaskState.WAITING
    ).distinct()
    if worker_id is not None:
        workers = workers.filter(pk=worker_id)
    for worker in workers:
        taken = set(
            Attempt.objects.filter(worker=worker, ended_at=None).values_list("slot", flat=True)
        )
        free = [slot for slot in range(worker.slots) if slot not in taken]
        waiting = Task.objects.filter(_ready(worker)).order_by("submitted_at", "id")[: len(free)]
        for slot, task in zip(free, waiting, strict=False):
            try:
                attempt = attempt_assign(task, slot=slot)
            except IntegrityError:
                continue  # another dispatcher was faster; it also finds what we leave
            if attempt is not None:
                assigned.append(attempt)
    return assigned


def _ready(worker: Worker) -> Q:
    """Waiting for this worker, and for a version that it can run at the moment."""
    versions = worker.runtimes.filter(problem="").values("version")
    due = Q(not_before_at=None) | Q(not_before_at__lte=timezone.now())
    return due & Q(state=TaskState.WAITING, worker=worker, runtime_version__in=versions)
