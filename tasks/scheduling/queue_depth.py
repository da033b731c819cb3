"""How busy devices are: what they do now, what waits for them, and how long it usually takes."""

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, QuerySet
from django.utils import timezone

from tasks.models import Attempt, Purpose, Task
from tasks.states import TaskState
from workers.models import Worker

#: assumed of a device on which nothing ended lately
UNKNOWN_S = 60.0
#: so far back is "lately"
LATELY = datetime.timedelta(hours=1)


class Load(NamedTuple):
    """What one device has to do.

    usual_s: for how long an attempt of a user held a slot on average; None: nothing ended lately
    """

    slots: int
    live: int = 0
    waiting: int = 0
    usual_s: float | None = None

    @property
    def is_free(self) -> bool:
        """A task that came now would start at once."""
        return self.live + self.waiting < self.slots

    @property
    def wait_s(self) -> float:
        """A rough time until a task that comes now starts; to choose among devices by."""
        ahead = self.live + self.waiting - self.slots + 1
        usual_s = UNKNOWN_S if self.usual_s is None else self.usual_s
        return max(0, ahead) * usual_s / self.slots


def loads_of(workers: Iterable[Worker]) -> dict[int, Load]:
    """The load of each device by its id: three queries, however many they are."""
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
    """Health checks take seconds, and would make every wait look short."""
    return Attempt.objects.exclude(task__purpose=Purpose.HEALTH)


def history_of(worker: Worker, *, last: int = 50) -> list[float]:
    """For how long users' last attempts held a slot of this device, s; the newest first."""
    ended = _of_users().filter(worker=worker, ended_at__isnull=False).order_by("-ended_at")
    times = ended.values_list("created_at", "ended_at")[:last]
    return [max(0.0, (end - begin).total_seconds()) for begin, end in times if end]


def usual_s_in(history: Sequence[float]) -> float:
    """For how long an attempt of such a history held a slot on average, s; above 0."""
    return max(sum(history) / len(history), 0.001) if history else UNKNOWN_S
