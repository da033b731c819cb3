"""Load of workers: live attempts, waiting tasks, and how long attempts usually take."""

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, QuerySet
from django.utils import timezone

from tasks.models import Attempt, Purpose, Task
from tasks.states import TaskState
from workers.models import Worker

#: assumed duration of an attempt on a worker without recent ones
UNKNOWN_S = 60.0
#: attempts that ended within this time are recent
LATELY = datetime.timedelta(hours=1)


class Load(NamedTuple):
    """The load of one worker.

    usual_s: mean time for which a recent attempt held a slot; None if there was none
    """

    slots: int
    live: int = 0
    waiting: int = 0
    usual_s: float | None = None

    @property
    def is_free(self) -> bool:
        """Whether a task submitted now would start immediately."""
        return self.live + self.waiting < self.slots

    @property
    def wait_s(self) -> float:
        """Rough time until a task submitted now would start; used to rank workers."""
        ahead = self.live + self.waiting - self.slots + 1
        usual_s = UNKNOWN_S if self.usual_s is None else self.usual_s
        return max(0, ahead) * usual_s / self.slots


def loads_of(workers: Iterable[Worker]) -> dict[int, Load]:
    """Return the load of each worker by its id, with three queries in all."""
    by_id = {worker.pk: worker for worker in workers}
    live = _counts(Attempt.objects.filter(worker__in=by_id, ended_at=None))
    waiting = _counts(Task.objects.filter(worker__in=by_id, state=TaskState.WAITING))
    held = ExpressionWrapper(F("ended_at") - F("created_at"), output_field=DurationField())
    ended = _of_users().filter(worker__in=by_id, ended_at__gt=timezone.now() - LATELY)
    usual = dict(ended.order_by().values_list("worker_id").annotate(usual=Avg(held)))
    return {
        pk: Load(
            worker.slots,
            live.get(pk, 0),
            waiting.get(pk, 0),
            usual[pk].total_seconds() if pk in usual else None,
        )
        for pk, worker in by_id.items()
    }


def _counts(rows: QuerySet[Attempt] | QuerySet[Task]) -> dict[int, int]:
    return dict(rows.order_by().values_list("worker_id").annotate(Count("pk")))


def _of_users() -> QuerySet[Attempt]:
    """Return users' attempts: health checks take seconds and would distort the mean."""
    return Attempt.objects.exclude(task__purpose=Purpose.HEALTH)


def history_of(worker: Worker, *, last: int = 50) -> list[float]:
    """Return how long users' last attempts held a slot of this worker, s; newest first."""
    ended = _of_users().filter(worker=worker, ended_at__isnull=False).order_by("-ended_at")
    times = ended.values_list("created_at", "ended_at")[:last]
    return [max(0.0, (end - begin).total_seconds()) for begin, end in times if end]


def usual_s_in(history: Sequence[float]) -> float:
    """Return the mean duration in such a history, s; above 0, and a default if it is empty."""
    return max(sum(history) / len(history), 0.001) if history else UNKNOWN_S
