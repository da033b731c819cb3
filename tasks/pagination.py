"""Keyset pagination of tasks by id, whose cost does not grow with the number of tasks.

A page reads ordered ranges of indexes. A filter that no index supports (a text, a version) examines
at most `LOOKED_AT` tasks of each strand; such a page may be short, and the next page continues
where it stopped.
"""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet

from tasks.models import Task, TaskFile
from tasks.states import LIVE, Outcome, Status, TaskState, status_of
from webprofile.integers import LARGEST_KEY

PAGE_SIZE = 50
LOOKED_AT = 1_000
MOST_COUNTED = 1_000
#: columns of a row of the list; plans and facts of devices are large and are not read
_COLUMNS = (
    "title", "kind", "state", "outcome", "runtime_version", "updated_at", "worker__name",
    "owner__email", "options", "script", "pairing", "reason", "notes", "detail",
)  # fmt: skip
_FILES = Prefetch(
    "files",
    TaskFile.objects.only("task_id", "kind", "arm", "name", "stored_at", "purged_at"),
)
#: upper bound on the difference between the clocks of two servers
_CLOCKS_DIFFER = datetime.timedelta(hours=1)

_PAIRS = [
    *((state, "") for state in TaskState if state != TaskState.FINISHED),
    *((TaskState.FINISHED, outcome) for outcome in Outcome),
]
#: the conditions of each status; each condition selects one ordered range of an index
STRANDS: dict[Status, tuple[Q, ...]] = {
    status: tuple(Q(state=s, outcome=o) for s, o in _PAIRS if status_of(s, o) == status)
    for status in Status
}


def has_status(statuses: Iterable[Status]) -> Q:
    strands = (strand for status in statuses for strand in STRANDS[status])
    return reduce(or_, strands, Q())


def has_model(text: str) -> Exists:
    models = TaskFile.objects.filter(
        task=OuterRef("pk"), kind=TaskFile.Kind.MODEL, name__icontains=text
    )
    return Exists(models)


@dataclass(frozen=True)
class TaskQuery:
    """The filters of a task list, grouped by how they are evaluated.

    within: conditions on ids, and on columns with an index that is ordered by id
    statuses: empty for all
    narrow: conditions that no index supports
    """

    within: Q = field(default_factory=Q)
    statuses: Sequence[Status] = ()
    narrow: Q = field(default_factory=Q)


@dataclass(frozen=True)
class Cursor:
    """Start of a page: tasks older than `number`, or newer ones with `newer`; 0 for the newest."""

    number: int = 0
    newer: bool = False


@dataclass(frozen=True)
class TaskPage:
    """Tasks, newest first.

    older, newer: ids at which the neighbouring pages start; None if there is no such page
    is_cut: the page is short because it examined as many tasks as a page may
    count: number of matching tasks, at most `MOST_COUNTED` + 1; None if counting would take long
    """

    tasks: list[Task]
    older: int | None
    newer: int | None
    is_cut: bool
    count: int | None


def page_of(tasks: QuerySet[Task], query: TaskQuery, start: Cursor) -> TaskPage:
    """Return one page of `tasks`, a queryset of the tasks that the user may see."""
    bare = tasks.select_related(None).prefetch_related(None).filter(query.within)
    keys, edge = _matching_keys(bare, query, start)
    is_full = len(keys) > PAGE_SIZE
    page_keys = keys[:PAGE_SIZE]
    next_key = page_keys[-1] if is_full else edge
    if start.newer and next_key is None:
        # the newest page is filled up with older tasks
        return page_of(tasks, query, Cursor())
    rows = tasks.filter(pk__in=page_keys).order_by("-pk").only(*_COLUMNS)
    rows = rows.prefetch_related(None).prefetch_related(_FILES)
    older, newer = next_key, None
    if start.number:
        newer = max(page_keys) if page_keys else start.number - 1
    if start.newer:
        older, newer = (min(page_keys) if page_keys else start.number + 1), next_key
    is_only_page = not start.number and older is None
    return TaskPage(
        tasks=list(rows),
        older=older,
        newer=newer,
        is_cut=edge is not None and not is_full,
        count=_count(bare, query, len(page_keys) if is_only_page else None),
    )


def status_counts(
    tasks: QuerySet[Task], query: TaskQuery, all_count: int | None = None
) -> dict[str, int]:
    """Return the number of matching tasks that are waiting, running and failed, and of all (`""`).

    Statuses of the query are ignored. Failed and all are at most `MOST_COUNTED` + 1. Empty if
    counting would take long.

    all_count: the number of all, if it is known
    """
    if query.narrow:
        return {}
    bare = tasks.select_related(None).prefetch_related(None).filter(query.within).order_by()
    live = bare.filter(state__in=LIVE).values_list("state").annotate(count=Count("pk"))
    counts = dict.fromkeys(["", Status.WAITING, Status.RUNNING, Status.FAILED], 0)
    for state, count in live:
        status = status_of(state, "")
        counts[status] = counts.get(status, 0) + count
    most = MOST_COUNTED + 1
    counts[Status.FAILED] = bare.filter(has_status([Status.FAILED]))[:most].count()
    counts[""] = bare[:most].count() if all_count is None else all_count
    return counts


def between(since: datetime.datetime | None, until: datetime.datetime | None) -> tuple[Q, Q]:
    """Return conditions for tasks created from `since` until before `until`.

    The first one bounds the ids roughly, for `TaskQuery.within`; the second one is exact, for
    `TaskQuery.narrow`.
    """
    exact, rough = Q(), Q()
    if since is not None:
        exact &= Q(created_at__gte=since)
        near = Task.objects.filter(created_at__gte=since - _CLOCKS_DIFFER).order_by("created_at")
        rough &= Q(pk__gte=_first(near, default=LARGEST_KEY))
    if until is not None:
        exact &= Q(created_at__lt=until)
        near = Task.objects.filter(created_at__lt=until + _CLOCKS_DIFFER).order_by("-created_at")
        rough &= Q(pk__lte=_first(near, default=0))
    return rough, exact


def _first(tasks: QuerySet[Task], *, default: int) -> int:
    return tasks.values_list("pk", flat=True).first() or default


def _strands(query: TaskQuery) -> list[Q]:
    return [strand for status in query.statuses for strand in STRANDS[status]] or [Q()]


def _matching_keys(
    tasks: QuerySet[Task], query: TaskQuery, start: Cursor
) -> tuple[list[int], int | None]:
    """Return the ids of a page in its direction, one more than fit, and where the search stopped.

    The second value is None if the search did not reach the limit `LOOKED_AT`.
    """
    order = "pk" if start.newer else "-pk"
    if start.number:
        tasks = tasks.filter(**{"pk__gt" if start.newer else "pk__lt": start.number})
    keys, edges = list[int](), list[int]()
    for strand in _strands(query):
        rows = tasks.filter(strand).order_by(order).values_list("pk", flat=True)
        if not query.narrow:
            keys += rows[: PAGE_SIZE + 1]
            continue
        examined = Task.objects.filter(query.narrow, pk__in=rows[:LOOKED_AT]).order_by(order)
        keys += examined.values_list("pk", flat=True)[: PAGE_SIZE + 1]
        edges += rows[LOOKED_AT - 1 : LOOKED_AT]
    keys.sort(reverse=not start.newer)
    if not edges:
        return keys, None
    # beyond this id a strand may have further matches that were not examined
    edge = min(edges) if start.newer else max(edges)
    return [key for key in keys if (key <= edge if start.newer else key >= edge)], edge


def _count(tasks: QuerySet[Task], query: TaskQuery, count: int | None) -> int | None:
    """Return `count` if it is known; otherwise count the matching tasks."""
    if count is not None or query.narrow:
        return count
    most = MOST_COUNTED + 1
    counts = (tasks.filter(strand).order_by()[:most].count() for strand in _strands(query))
    return min(most, sum(counts))
