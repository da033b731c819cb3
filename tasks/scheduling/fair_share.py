"""Whose turn it is on a device: the rule by which waiting tasks are put in order.

1. The tier: health checks, then what an administrator raised (a priority above what users may set,
   the higher the sooner), then everybody's tasks, at last what an administrator put back.
2. Within a tier the user whose attempts held this device for the shortest time during the last
   hour; of equals the one who waits longest.
3. Among one user's tasks of a tier the user's own priority, then the time of submission.

Users therefore alternate, each task counting for the time that a task usually takes there, and
nobody gets more of a device by asking for more.
"""

import datetime
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

#: what users may set, to order their own tasks: -10 to 10; administrators -100 to 100
OWN_PRIORITY = 10
ANY_PRIORITY = 100
HEALTH_TIER = 1000
#: times that differ by less are equal: sums of floats are not exact
_SAME_S = 1e-6


class Group(NamedTuple):
    """The waiting tasks of one user in one tier."""

    tier: int
    owner_id: int
    number: int
    first_at: datetime.datetime


class Turn(NamedTuple):
    tier: int
    owner_id: int


def tier_of(purpose: str, priority: int) -> int:
    """The tier of a task, as `tiers` computes it in the database."""
    if purpose == Purpose.HEALTH:
        return HEALTH_TIER
    return priority if abs(priority) > OWN_PRIORITY else 0


def tiers() -> Case:
    """An annotation of tasks: `tier_of`."""
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


def groups_of(waiting: QuerySet[Task]) -> list[Group]:
    """Waiting tasks summed up by tier and owner: one query, few rows."""
    rows = waiting.order_by().annotate(tier=tiers()).values_list("tier", "owner_id")
    summed = rows.annotate(number=Count("pk"), first_at=Min("submitted_at"))
    return [Group(*row) for row in summed]


def heads_of(
    waiting: QuerySet[Task], number: int, *, by_worker: bool = False
) -> list[tuple[Group, list[Task]]]:
    """Groups of waiting tasks, each with its first `number`: one query, few rows.

    by_worker: a group is of one device, too
    """
    parts = ["tier", "owner_id", *(["worker_id"] if by_worker else [])]

    def over(expression: Any, order_by: Sequence[str] | None = None) -> Window:
        return Window(expression, partition_by=parts, order_by=order_by)

    rows: Any = waiting.order_by().annotate(tier=tiers())
    rows = rows.annotate(
        place=over(RowNumber(), OWN_ORDER),
        together=over(Count("pk")),
        first_at=over(Min("submitted_at")),
    )
    found: dict[tuple[int, ...], list[Any]] = defaultdict(list)
    for row in rows.filter(place__lte=number):
        found[tuple(getattr(row, part) for part in parts)].append(row)
    heads = list[tuple[Group, list[Task]]]()
    for tasks in found.values():
        first = tasks[0]
        group = Group(first.tier, first.owner_id, first.together, first.first_at)
        heads.append((group, sorted(tasks, key=attrgetter("place"))))
    return heads


def held_s(worker: Worker, *, live_s: float) -> dict[int, float]:
    """For how long each user's attempts held this device during the last hour, s, by owner's id.

    live_s: a live attempt counts for at least so long. Health checks count for nobody.
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
    # an expression, since SQLite would walk all tasks by the index of the plain column
    by_owner = ended.annotate(owner=F("task__owner_id") + 0).values_list("owner")
    for owner, sum_ in by_owner.annotate(held=Sum(time)):
        held[owner] += sum_.total_seconds()
    live = attempts.filter(ended_at=None).values_list("task__owner_id", "created_at")
    for owner, created_at in live:
        held[owner] += max(live_s, (now - max(created_at, begin)).total_seconds())
    return dict(held)


def next_turns(
    groups: Iterable[Group], held: Mapping[int, float], usual_s: float
) -> Iterator[Turn]:
    """Whose task goes next, and next, until all are gone.

    held: `held_s`; usual_s: for how long a task counts that has not run yet
    """
    used = defaultdict(float, held)
    by_tier: dict[int, list[Group]] = defaultdict(list)
    for group in groups:
        by_tier[group.tier].append(group)
    for tier in sorted(by_tier, reverse=True):
        heap = [(_mark(used[g.owner_id]), g.first_at, g.owner_id, g.number) for g in by_tier[tier]]
        heapq.heapify(heap)
        while heap:
            _, first_at, owner, left = heapq.heappop(heap)
            yield Turn(tier, owner)
            used[owner] += usual_s
            if left > 1:
                heapq.heappush(heap, (_mark(used[owner]), first_at, owner, left - 1))


def count_before(
    groups: Iterable[Group], held: Mapping[int, float], usual_s: float, *, turn: Turn, own: int
) -> int:
    """How many tasks `next_turns` names before the one of `turn` that has `own` others before it.

    Computed, not counted: the work grows with the number of users, not of tasks.
    """
    rows = list(groups)
    used = defaultdict(float, held)
    before = own
    for group in rows:
        if group.tier > turn.tier:
            used[group.owner_id] += group.number * usual_s
            before += group.number
    same = [group for group in rows if group.tier == turn.tier]
    mine = next((g for g in same if g.owner_id == turn.owner_id), None)
    # who has nothing there yet comes last among equals
    first = (mine.first_at if mine else timezone.now(), turn.owner_id)
    mark = used[turn.owner_id] + own * usual_s
    for group in same:
        if group.owner_id != turn.owner_id:
            wins_ties = (group.first_at, group.owner_id) < first
            turns = _turns_until(mark - used[group.owner_id], usual_s, wins_ties=wins_ties)
            before += min(group.number, turns)
    return before


def _turns_until(lead_s: float, usual_s: float, *, wins_ties: bool) -> int:
    """How many turns come to a user who is `lead_s` behind until both are equal."""
    if lead_s < -_SAME_S:
        return 0
    steps = round(lead_s / usual_s)
    if abs(lead_s - steps * usual_s) < _SAME_S:
        return steps + wins_ties
    return math.ceil(lead_s / usual_s)


def _mark(used_s: float) -> int:
    """A time as ties compare it."""
    return round(used_s / _SAME_S)
