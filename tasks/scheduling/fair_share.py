"""Fair-share order of the tasks that wait for a worker.

1. By tier: health checks; tasks that an administrator raised (a priority above the users' range,
   higher ones first); all other tasks; tasks that an administrator lowered.
2. Within a tier, by user: first the one whose attempts used this worker for the shortest time
   during the last hour; on a tie the one whose task has waited longest.
3. Among one user's tasks of a tier, by the task's priority, then by the time of submission.

Each task in the order counts for the time that a task usually takes on the worker, so users
alternate, and submitting more tasks does not give a user a larger share.
"""

import datetime
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import (
    Case,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    Min,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce, Greatest, RowNumber
from django.utils import timezone

from tasks.models import Attempt, Purpose, Task
from tasks.scheduling.queue_depth import LATELY
from workers.models import Worker

#: priorities range from -10 to 10 for users, and from -100 to 100 for administrators
OWN_PRIORITY = 10
ANY_PRIORITY = 100
HEALTH_TIER = 1000
#: times that differ by less are considered equal, because sums of floats are inexact
_SAME_S = 1e-6


class UserQueue(NamedTuple):
    """The waiting tasks of one user in one tier: how many, and when the first was submitted."""

    tier: int
    owner_id: int
    number: int
    first_at: datetime.datetime


class Turn(NamedTuple):
    tier: int
    owner_id: int


def tier_of(purpose: str, priority: int) -> int:
    """Return the tier of a task; `tiers` computes the same in the database."""
    if purpose == Purpose.HEALTH:
        return HEALTH_TIER
    return priority if abs(priority) > OWN_PRIORITY else 0


def tiers() -> Case:
    """Return an expression that computes `tier_of` for rows of tasks."""
    return Case(
        When(purpose=Purpose.HEALTH, then=Value(HEALTH_TIER)),
        When(
            Q(priority__gt=OWN_PRIORITY) | Q(priority__lt=-OWN_PRIORITY),
            then=F("priority"),
        ),
        default=Value(0),
        output_field=IntegerField(),
    )


#: the order of one user's tasks of one tier
OWN_ORDER = ("-priority", "submitted_at", "id")


def user_queues_of(waiting: QuerySet[Task]) -> list[UserQueue]:
    """Aggregate waiting tasks by tier and owner, in one query that returns few rows."""
    rows = waiting.order_by().annotate(tier=tiers()).values_list("tier", "owner_id")
    counts = rows.annotate(number=Count("pk"), first_at=Min("submitted_at"))
    return [UserQueue(*row) for row in counts]


def heads_of(
    waiting: QuerySet[Task], number: int, *, by_worker: bool = False
) -> list[tuple[UserQueue, list[Task]]]:
    """Return the user queues of waiting tasks, each with its first `number` tasks.

    This is one query that returns few rows.

    by_worker: one queue for each tier, user and worker
    """
    parts = ["tier", "owner_id", *(["worker_id"] if by_worker else [])]

    def over(expression: Any, order_by: Sequence[str] | None = None) -> Window:
        return Window(expression, partition_by=parts, order_by=order_by)

    rows: Any = waiting.order_by().annotate(tier=tiers())
    rows = rows.annotate(
        rank=over(RowNumber(), OWN_ORDER),
        total=over(Count("pk")),
        first_at=over(Min("submitted_at")),
    )
    partitions: dict[tuple[int, ...], list[Any]] = defaultdict(list)
    for row in rows.filter(rank__lte=number):
        partitions[tuple(getattr(row, part) for part in parts)].append(row)
    heads = list[tuple[UserQueue, list[Task]]]()
    for tasks in partitions.values():
        first = tasks[0]
        queue = UserQueue(first.tier, first.owner_id, first.total, first.first_at)
        heads.append((queue, sorted(tasks, key=attrgetter("rank"))))
    return heads


def held_s(worker: Worker, *, live_s: float) -> dict[int, float]:
    """Return the time in s that each user's attempts held this worker in the last hour, by user id.

    Health checks are not counted.

    live_s: a live attempt counts for at least this time
    """
    now = timezone.now()
    begin = now - LATELY
    time = ExpressionWrapper(
        Coalesce(F("ended_at"), Value(now)) - Greatest(F("created_at"), Value(begin)),
        output_field=DurationField(),
    )
    attempts = Attempt.objects.filter(worker=worker).exclude(task__purpose=Purpose.HEALTH)
    ended = attempts.filter(ended_at__gt=begin).order_by()
    held: dict[int, float] = defaultdict(float)
    # `+ 0`: with the plain column, SQLite would scan all tasks by its index
    by_owner = ended.annotate(owner=F("task__owner_id") + 0).values_list("owner")
    for owner, sum_ in by_owner.annotate(held=Sum(time)):
        held[owner] += sum_.total_seconds()
    live = attempts.filter(ended_at=None).values_list("task__owner_id", "created_at")
    for owner, created_at in live:
        held[owner] += max(live_s, (now - max(created_at, begin)).total_seconds())
    return dict(held)


def next_turns(
    queues: Iterable[UserQueue], held: Mapping[int, float], usual_s: float
) -> Iterator[Turn]:
    """Yield tier and user of the next task, and so on until all tasks are assigned.

    held: result of `held_s`
    usual_s: the time for which a task counts that has not run yet, s
    """
    used = defaultdict(float, held)
    by_tier: dict[int, list[UserQueue]] = defaultdict(list)
    for queue in queues:
        by_tier[queue.tier].append(queue)
    for tier in sorted(by_tier, reverse=True):
        heap = [(_mark(used[q.owner_id]), q.first_at, q.owner_id, q.number) for q in by_tier[tier]]
        heapq.heapify(heap)
        while heap:
            _, first_at, owner, left = heapq.heappop(heap)
            yield Turn(tier, owner)
            used[owner] += usual_s
            if left > 1:
                heapq.heappush(heap, (_mark(used[owner]), first_at, owner, left - 1))


def count_before(
    queues: Iterable[UserQueue], held: Mapping[int, float], usual_s: float, *, turn: Turn, own: int
) -> int:
    """Return how many tasks `next_turns` yields before one task of the user of `turn`.

    own: how many tasks of the same user and tier precede the task, which may be a new one
    """
    by_turn = {Turn(queue.tier, queue.owner_id): queue for queue in queues}
    mine = by_turn.get(turn) or UserQueue(*turn, 0, timezone.now())
    by_turn[turn] = mine._replace(number=max(mine.number, own) + 1)
    turns = enumerate(next_turns(by_turn.values(), held, usual_s))
    places = (place for place, next_turn in turns if next_turn == turn)
    return next(islice(places, own, None))


def _mark(used_s: float) -> int:
    """Round a time so that equal times compare as equal despite float errors."""
    return round(used_s / _SAME_S)
