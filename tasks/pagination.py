"""Tasks in pages that cost the same however many tasks there are: by number, never by offset.

A page reads ordered pieces of an index. What no index answers (a text, a version) looks at
`LOOKED_AT` tasks at most; the page then says how far it looked, and the next one goes on there.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Prefetch, Q, QuerySet

from tasks.models import Task, TaskFile
from tasks.states import Outcome, Status, TaskState

PAGE_SIZE = 50
LOOKED_AT = 1_000
MOST_COUNTED = 1_000
#: what a row shows; plans and facts of devices are long, and stay where they are
_COLUMNS = (
    "title", "kind", "state", "outcome", "runtime_version", "updated_at", "worker__name",
    "owner__email", "options", "script", "reason", "detail",
)  # fmt: skip
_FILES = Prefetch(
    "files", TaskFile.objects.only("task_id", "kind", "name", "stored_at", "purged_at")
)
#: two servers' clocks, or one that was set back, disagree less
_CLOCKS_DIFFER = datetime.timedelta(hours=1)

#: the rows of each word that users see; each is one ordered piece of an index
STRANDS: dict[Status, tuple[Q, ...]] = {
    Status.INITIATED: (Q(state=TaskState.INITIATED, outcome=""),),
    Status.WAITING: (
        Q(state=TaskState.WAITING, outcome=""),
        Q(state=TaskState.ASSIGNED, outcome=""),
    ),
    Status.RUNNING: (
        Q(state=TaskState.RUNNING, outcome=""),
        Q(state=TaskState.CANCELLING, outcome=""),
        Q(state=TaskState.PROCESSING, outcome=""),
    ),
    Status.SUCCEEDED: (Q(state=TaskState.FINISHED, outcome=Outcome.SUCCEEDED),),
    Status.FAILED: (
        Q(state=TaskState.FINISHED, outcome=Outcome.FAILED),
        Q(state=TaskState.FINISHED, outcome=Outcome.LOST),
    ),
    Status.CANCELLED: (Q(state=TaskState.FINISHED, outcome=Outcome.CANCELLED),),
}


@dataclass(frozen=True)
class Wanted:
    """Which tasks a list shows, told by how they are found.

    within: columns whose index holds them in order of the tasks' numbers, and these numbers
    statuses: none for all
    narrow: what no index answers
    """

    within: Q = field(default_factory=Q)
    statuses: Sequence[Status] = ()
    narrow: Q = field(default_factory=Q)


@dataclass(frozen=True)
class Place:
    """Where a page begins: after this number (`newer`: before it, upwards); 0: at the newest."""

    number: int = 0
    newer: bool = False


@dataclass(frozen=True)
class TaskPage:
    """Tasks, newest first.

    older, newer: the numbers that the neighbours begin at, None where there is none
    is_cut: fewer tasks than fit, because it looked at as many as one page may
    count: all that are wanted, up to `MOST_COUNTED` + 1 for more; None if that would take long
    """

    tasks: list[Task]
    older: int | None
    newer: int | None
    is_cut: bool
    count: int | None


def page_of(tasks: QuerySet[Task], wanted: Wanted, place: Place) -> TaskPage:
    """One page of `tasks`, which say what the reader may see."""
    bare = tasks.select_related(None).prefetch_related(None).filter(wanted.within)
    found, edge = _numbers(bare, wanted, place)
    is_full = len(found) > PAGE_SIZE
    shown = found[:PAGE_SIZE]
    further = shown[-1] if is_full else edge
    if place.newer and further is None:
        # the newest page, which is to be a full one
        return page_of(tasks, wanted, Place())
    rows = tasks.filter(pk__in=shown).order_by("-pk").only(*_COLUMNS)
    rows = rows.prefetch_related(None).prefetch_related(_FILES)
    older, newer = further, None
    if place.number:
        newer = max(shown) if shown else place.number - 1
    if place.newer:
        older, newer = (min(shown) if shown else place.number + 1), further
    return TaskPage(
        tasks=list(rows),
        older=older,
        newer=newer,
        is_cut=edge is not None and not is_full,
        count=_count(bare, wanted, len(shown) if not place.number and older is None else None),
    )


def between(since: datetime.datetime | None, until: datetime.datetime | None) -> tuple[Q, Q]:
    """Tasks asked for in a span of time, `until` not in it: roughly by number, and exactly.

    The first is for `Wanted.within`, the second for `Wanted.narrow`.
    """
    exact, rough = Q(), Q()
    if since is not None:
        exact &= Q(created_at__gte=since)
        near = Task.objects.filter(created_at__gte=since - _CLOCKS_DIFFER).order_by("created_at")
        rough &= Q(pk__gte=_first(near))
    if until is not None:
        exact &= Q(created_at__lt=until)
        near = Task.objects.filter(created_at__lt=until + _CLOCKS_DIFFER).order_by("-created_at")
        rough &= Q(pk__lte=_first(near))
    return rough, exact


def _first(tasks: QuerySet[Task]) -> int:
    return tasks.values_list("pk", flat=True).first() or 0


def _strands(wanted: Wanted) -> list[Q]:
    return [each for status in wanted.statuses for each in STRANDS[status]] or [Q()]


def _numbers(tasks: QuerySet[Task], wanted: Wanted, place: Place) -> tuple[list[int], int | None]:
    """In the page's direction, up to one more than fit; and where looking ended too early."""
    order = "pk" if place.newer else "-pk"
    if place.number:
        tasks = tasks.filter(**{"pk__gt" if place.newer else "pk__lt": place.number})
    found, edges = list[int](), list[int]()
    for strand in _strands(wanted):
        rows = tasks.filter(strand).order_by(order).values_list("pk", flat=True)
        if not wanted.narrow:
            found += rows[: PAGE_SIZE + 1]
            continue
        looked_at = Task.objects.filter(wanted.narrow, pk__in=rows[:LOOKED_AT]).order_by(order)
        found += looked_at.values_list("pk", flat=True)[: PAGE_SIZE + 1]
        edges += rows[LOOKED_AT - 1 : LOOKED_AT]
    found.sort(reverse=not place.newer)
    if not edges:
        return found, None
    # beyond it one of the strands may hold more that was not looked at
    edge = min(edges) if place.newer else max(edges)
    return [each for each in found if (each <= edge if place.newer else each >= edge)], edge


def _count(tasks: QuerySet[Task], wanted: Wanted, known: int | None) -> int | None:
    if known is not None or wanted.narrow:
        return known
    most = MOST_COUNTED + 1
    strands = (tasks.filter(strand).order_by()[:most].count() for strand in _strands(wanted))
    return min(most, sum(strands))
