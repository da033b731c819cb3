"""Load of workers: live and waiting tasks, how long attempts usually take, use of the slots."""

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.utils import timezone

from tasks.models import Attempt, Purpose, Task
from tasks.states import TaskState
from workers.models import Worker

#: assumed duration of an attempt on a worker without recent ones
UNKNOWN_S = 60.0
#: attempts that ended within this time are recent
LATELY = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)
WEEK = datetime.timedelta(days=7)


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
    ended = users_attempts().filter(worker__in=by_id, ended_at__gt=timezone.now() - LATELY)
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


def users_attempts() -> QuerySet[Attempt]:
    """Return users' attempts: health checks take seconds, or yield to users' tasks."""
    return Attempt.objects.exclude(task__purpose=Purpose.HEALTH)


def history_of(worker: Worker) -> list[float]:
    """Return how long users' last 50 attempts held a slot of this worker, s; newest first."""
    ended = users_attempts().filter(worker=worker, ended_at__isnull=False).order_by("-ended_at")
    times = ended.values_list("created_at", "ended_at")[:50]
    return [max(0.0, (end - begin).total_seconds()) for begin, end in times if end]


def usual_s_in(history: Sequence[float]) -> float:
    """Return the mean duration in such a history, s; above 0, and a default if it is empty."""
    return max(sum(history) / len(history), 0.001) if history else UNKNOWN_S


def usage_of(worker: Worker) -> dict[str, float]:
    """Return the fraction of the last `day` and `week` in which a device's slots were in use, 0-1.

    The database sums attempts that lie inside a window; attempts that cross its edge are clipped in
    Python. The sums use `run_s`, because SQLite computes with datetimes in Python (7 s for 100,000
    attempts). A lost attempt has no `run_s`: it counts from its start until its end.
    """
    now = timezone.now()
    day, week = now - DAY, now - WEEK
    attempts = Attempt.objects.filter(worker=worker).order_by()
    inside = attempts.filter(ended_at__gt=week).aggregate(
        day=Sum("run_s", filter=Q(started_at__gte=day), default=0.0),
        week=Sum("run_s", filter=Q(started_at__gte=week), default=0.0),
    )
    crossing = Q(ended_at__gt=day, started_at__lt=day) | Q(ended_at__gt=week, started_at__lt=week)
    lost = Q(ended_at__gt=week, run_s=None)
    spans = attempts.filter(Q(ended_at=None) | crossing | lost, started_at__isnull=False)
    rows = spans.values_list("started_at", "ended_at", "run_s")
    shares = {
        name: (inside[name] + sum(_ran_s(*row, since=since, now=now) for row in rows))
        / (now - since).total_seconds()
        / max(worker.slots, 1)
        for name, since in (("day", day), ("week", week))
    }
    return {name: min(max(share, 0.0), 1.0) for name, share in shares.items()}


def _ran_s(
    begin: datetime.datetime | None,
    end: datetime.datetime | None,
    run_s: float | None,
    *,
    since: datetime.datetime,
    now: datetime.datetime,
) -> float:
    """Return how long an attempt ran since `since`, s; 0 if the database's sum includes it."""
    if begin is None or (end is not None and run_s is not None and begin >= since):
        return 0.0
    return max(0.0, ((end or now) - max(begin, since)).total_seconds())
