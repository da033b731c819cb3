"""Utilization of a device, and its recent tasks as far as a user may see them."""

import datetime

from django.db.models import Q, Sum
from django.utils import timezone

from accounts.models import User
from tasks.models import Attempt, Purpose, Task
from workers.models import Worker

DAY = datetime.timedelta(days=1)
WEEK = datetime.timedelta(days=7)


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


def recent_tasks(worker: Worker, reader: User, *, last: int = 15) -> list[tuple[Task, bool]]:
    """Return the last tasks of users on a device, each with whether the reader may see it."""
    tasks = Task.objects.filter(worker=worker, purpose=Purpose.USER, submitted_at__isnull=False)
    rows = tasks.select_related("owner").prefetch_related("files").order_by("-id")[:last]
    return [(task, reader.is_staff or task.owner_id == reader.pk) for task in rows]
