"""Utilization of a device, and its recent tasks as far as a user may see them."""

import datetime
from dataclasses import dataclass

from django.db.models import Q, Sum
from django.utils import timezone

from accounts.models import User
from tasks.models import Attempt, Purpose, Task
from workers.models import Worker

DAY = datetime.timedelta(days=1)
WEEK = datetime.timedelta(days=7)


@dataclass(frozen=True)
class Usage:
    """Fraction of time in which the slots of a device were in use, during a day and a week: 0-1."""

    day: float
    week: float


@dataclass(frozen=True)
class SeenTask:
    """A task on a device's page. `task` is None if the user may not see it."""

    task: Task | None
    status: str
    label: str
    begun_at: datetime.datetime
    ended_at: datetime.datetime | None


def usage_of(worker: Worker) -> Usage:
    """Return the fraction of time in which the slots of a device were in use.

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
    shares = [
        (inside[name] + sum(_ran_s(*row, since=since, now=now) for row in rows))
        / (now - since).total_seconds()
        / max(worker.slots, 1)
        for name, since in (("day", day), ("week", week))
    ]
    return Usage(*(min(max(share, 0.0), 1.0) for share in shares))


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


def recent_tasks(worker: Worker, reader: User, *, last: int = 15) -> list[SeenTask]:
    """Return the last tasks of users on a device; without details of those that are hidden."""
    tasks = Task.objects.filter(worker=worker, purpose=Purpose.USER, submitted_at__isnull=False)
    rows = tasks.select_related("owner").prefetch_related("files").order_by("-id")[:last]
    return [_seen(task, reader) for task in rows]


def _seen(task: Task, reader: User) -> SeenTask:
    is_visible = reader.is_staff or task.owner_id == reader.pk
    status = task.status
    return SeenTask(
        task=task if is_visible else None,
        status=status.value,
        label=str(status.label),
        begun_at=task.submitted_at or task.created_at,
        ended_at=task.finished_at,
    )
