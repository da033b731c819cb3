"""Which waiting task goes to which device next; whose turn it is says `tasks.queue.turns`."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from tasks.attempts import attempt_assign, attempts_assign
from tasks.models import Attempt, Task
from tasks.queue.eligibility import HELD, owner_may_use, runnable, startable, takes_tasks
from tasks.queue.loads import usual_s_of
from tasks.queue.rebinding import fits, task_rebind
from tasks.queue.targets import Candidate, candidates, match, pools_of, target_of
from tasks.queue.turns import (
    Group,
    Turn,
    groups_by_worker,
    groups_in,
    groups_of,
    held_s,
    in_own_order,
    next_turns,
    sorted_by_turn,
    tiers,
)
from tasks.states import TaskState
from tasks.transitions import tasks_lock
from workers.models import LONG, Worker

#: kinds of targets, and tasks of one kind, that a free device looks at in one round
TARGETS_SEEN = 200
TASKS_SEEN = 20
#: tasks to a device that are read, all of them, where no more wait
SHORT_QUEUE = 4
#: devices that get their next task in one transaction; one that is served meanwhile undoes it
ASSIGNED_TOGETHER = 100
#: tasks whose device went away that are read at once; and how many of them that can go nowhere one
#: round of the sweep looks at
STRAYS_READ = 200
STRAYS_IN_VAIN = 400
#: the first so many tasks of a turn, in their owner's order
First = Callable[[Turn, int], Iterator[Task]]
#: what waits for a device
Queue = tuple[Sequence[Group], First]


def assign_waiting(worker_ids: Collection[int] | None = None) -> list[Attempt]:
    """Fill the free slots of some devices, or of all that are online; wake those that get a task.

    Choosing reads without locks; the claim itself is a compare-and-swap plus a unique constraint,
    so two dispatchers at once hand out each task and each slot at most once. A device that has no
    more tasks of its own takes over those of others whose target it matches. What somebody has
    locked is left to the next round of the sweep.
    """
    if worker_ids is not None:
        worker_ids = _those_with_work(worker_ids)
        if not worker_ids:
            return []
    own = Task.objects.filter(state=TaskState.WAITING, worker=OuterRef("pk"))
    # those that are held back too: they start health checks
    online = Worker.objects.filter(takes_tasks(checks=True))
    if worker_ids is not None:
        online = online.filter(pk__in=worker_ids)
    workers = list(online.filter(Exists(own)).defer(*LONG))
    free = _free_slots(workers)
    assigned = list[Attempt]()
    ready = [worker for worker in workers if free[worker.pk]]
    for begin in range(0, len(ready), ASSIGNED_TOGETHER):
        assigned += _assign(ready[begin : begin + ASSIGNED_TOGETHER], free)
    # at last, so that no task moves whose own device is just about to take it
    full = {pk for pk, slots in free.items() if not slots}
    if worker_ids is None or not full.issuperset(worker_ids):
        assigned += _take_from_others(online.exclude(pk__in=full))
    return assigned


def _those_with_work(worker_ids: Collection[int]) -> list[int]:
    """Those for which a task waits that they might start: most often nothing waits when a slot
    becomes free, and this one query says so.
    """
    # two questions in one: each has its index, and one with OR might read all that waits
    own, movable = _waiting().filter(worker=OuterRef("pk")), _waiting().filter(target__isnull=False)
    some = Worker.objects.filter(Exists(own) | Exists(movable), pk__in=worker_ids)
    return list(some.order_by().values_list("pk", flat=True))


def _free_slots(workers: Sequence[Worker]) -> dict[int, list[int]]:
    """The free slots of each device by its id."""
    free = {worker.pk: list(range(worker.slots)) for worker in workers}
    live = Attempt.objects.filter(worker__in=free, ended_at=None)
    for pk, slot in live.values_list("worker_id", "slot"):
        if slot in free[pk]:
            free[pk].remove(slot)
    return free


def _assign(workers: Sequence[Worker], free: Mapping[int, list[int]]) -> list[Attempt]:
    """Give free slots to the devices' own tasks; takes out of `free` those that are gone."""
    places = _places(workers, free)
    homes = {task.pk: task.worker_id for task, _ in places}
    try:
        attempts = attempts_assign(places, may_wait=False) if places else []
    except (IntegrityError, OperationalError):
        # another dispatcher was faster somewhere; a task that it moved is read again by then
        left = [(task, slot) for task, slot in places if task.worker_id == homes[task.pk]]
        attempts = list(_assign_singly(left, free))
    for attempt in attempts:
        free[attempt.worker_id].remove(attempt.slot)
    return attempts


def _assign_singly(
    places: Iterable[tuple[Task, int]], free: Mapping[int, list[int]]
) -> Iterator[Attempt]:
    for task, slot in places:
        try:
            attempt = attempt_assign(task, slot=slot, may_wait=False)
        except IntegrityError:
            free[task.worker_id].remove(slot)  # who was faster also finds what we leave
            continue
        if attempt is not None:
            yield attempt


def _places(workers: Sequence[Worker], free: Mapping[int, Sequence[int]]) -> list[tuple[Task, int]]:
    """The next of the tasks that wait for each of these devices, with the slots that they get."""
    if not workers:
        return []
    ready = queue_of(*workers).filter(_due())
    most = len(workers) * SHORT_QUEUE
    some = list(ready.order_by()[: most + 1])
    queues = _read_queues(workers, some) if len(some) <= most else _queues(workers, ready, free)
    places = list[tuple[Task, int]]()
    for worker, (groups, first) in zip(workers, queues, strict=True):
        own = _next_of(worker, groups, first, len(free[worker.pk]))
        for task, slot in zip(own, free[worker.pk], strict=False):
            task.worker = worker
            places.append((task, slot))
    return places


def _read_queues(workers: Sequence[Worker], tasks: Iterable[Task]) -> Iterator[Queue]:
    """What waits for each of these devices, of tasks that were read."""
    by_worker: dict[int, list[Task]] = defaultdict(list)
    for task in tasks:
        by_worker[task.worker_id].append(task)
    for worker in workers:
        by_turn = sorted_by_turn(by_worker[worker.pk])
        yield groups_in(by_turn), _first_read(by_turn)


def _queues(
    workers: Sequence[Worker], ready: QuerySet[Task], free: Mapping[int, Sequence[int]]
) -> Iterator[Queue]:
    """The same where much waits: of each device's queue no more is read than it has slots for."""
    groups = groups_by_worker(ready)
    # nearly all: nobody is to be preferred, and one task is wanted
    plain = [w for w in workers if len(groups.get(w.pk, ())) == 1 and len(free[w.pk]) == 1]
    firsts = _firsts(plain, ready) if len(plain) > 1 else {}
    for worker in workers:
        mine, by_turn = groups.get(worker.pk, ()), sorted_by_turn(firsts.get(worker.pk, ()))
        # what changed its place since its group was read is asked for
        is_read = bool(by_turn) and by_turn.keys() == {Turn(g.tier, g.owner_id) for g in mine}
        yield mine, _first_read(by_turn) if is_read else _first_of(ready.filter(worker=worker))


def _firsts(workers: Sequence[Worker], ready: QuerySet[Task]) -> dict[int, list[Task]]:
    """The first of the tasks that wait for each of these devices, all of one user in one tier."""
    first = in_own_order(ready.filter(worker=OuterRef("pk"))).values("pk")[:1]
    here = Worker.objects.filter(pk__in=[worker.pk for worker in workers]).order_by()
    keys = list(here.values_list(Subquery(first), flat=True))
    found: dict[int, list[Task]] = {worker.pk: [] for worker in workers}
    for task in ready.filter(pk__in=keys):
        found[task.worker_id].append(task)
    return found


def _first_read(by_turn: Mapping[Turn, Sequence[Task]]) -> First:
    return lambda turn, number: iter(by_turn.get(turn, ())[:number])


def _first_of(ready: QuerySet[Task]) -> First:
    ready = ready.annotate(tier=tiers())

    def first(turn: Turn, number: int) -> Iterator[Task]:
        # a query that is made when its first task is wanted, which may be never
        yield from in_own_order(ready.filter(tier=turn.tier, owner=turn.owner_id))[:number]

    return first


def _due() -> Q:
    return Q(not_before_at=None) | Q(not_before_at__lte=timezone.now())


def _waiting() -> QuerySet[Task]:
    return Task.objects.filter(_due(), state=TaskState.WAITING)


def queue_of(*workers: Worker) -> QuerySet[Task]:
    """What waits for these devices, for a version that they can run, and may run there.

    What pauses after a failed attempt is among it. A device that is held back runs health checks
    only; those run wherever they are sent.
    """
    return Task.objects.filter(
        runnable(), state=TaskState.WAITING, worker__in=[each.pk for each in workers]
    )


def _next_of(worker: Worker, groups: Sequence[Group], first: First, number: int) -> Iterator[Task]:
    """The next `number` of some waiting tasks, by the turns of their owners on this device.

    groups: those of the tasks, of which `first` tells a turn's
    """
    usual_s, held = 0.0, dict[int, float]()
    if len({group.owner_id for group in groups}) > 1:
        usual_s = usual_s_of(worker)
        held = held_s(worker, live_s=usual_s)
    turns = list(islice(next_turns(groups, held, usual_s), number))
    of_turn = {turn: first(turn, wanted) for turn, wanted in Counter(turns).items()}
    for turn in turns:
        # one that went meanwhile leaves its turn to nobody: the next round sees to it
        yield from islice(of_turn[turn], 1)


# -- targets --------------------------------------------------------------------------------------


def _targets() -> list[dict[str, Any]]:
    """The different targets of all waiting tasks."""
    targets = _waiting().filter(target__isnull=False).values_list("target", flat=True)
    return [target for target in targets.order_by().distinct()[:TARGETS_SEEN] if target is not None]


def _take_from_others(workers: QuerySet[Worker]) -> Iterator[Attempt]:
    """Fill what is free on these devices with tasks that wait elsewhere for their target."""
    targets = _targets()
    if not targets:
        return
    # what a device is, has and belongs to is asked by targets alone
    here = list(workers.filter(HELD.rows("")).prefetch_related("runtimes", "pools"))
    free = _free_slots(here)
    for worker in here:
        if free[worker.pk]:
            yield from _take_over(worker, free[worker.pk], targets)


def _take_over(worker: Worker, free: list[int], targets: list[dict[str, Any]]) -> Iterator[Attempt]:
    """Start tasks that wait elsewhere and may come here, by the turns of their owners here."""
    pools = pools_of(worker)
    found = [
        (target, candidate)
        for target in targets
        if (candidate := match(target_of(target), worker, pools))
    ]
    waiting = _waiting().filter(owner_may_use(worker), target__in=[target for target, _ in found])
    if not found:
        return
    there = waiting.exclude(worker=worker)
    rows = there.select_related("worker").prefetch_related("files")
    for task in _next_of(worker, groups_of(there), _first_of(rows), TASKS_SEEN):
        candidate = next(each for target, each in found if target == task.target)
        if not fits(task, candidate):
            continue
        try:
            with transaction.atomic():
                attempt = None
                is_free = bool(tasks_lock([task.pk], may_wait=False))
                if is_free and task_rebind(task, to=candidate, because="slot_free"):
                    attempt = attempt_assign(task, slot=free[0])
        except IntegrityError:
            attempt = None
            free.pop(0)  # another dispatcher filled this slot; the task waits where it was
        if attempt is not None:
            free.pop(0)
            yield attempt
        if not free:
            return


def rebind_strays() -> int:
    """Move tasks with a target from devices that take none any more; returns how many.

    Those are devices that went offline, were drained, held back or retired, that lost the version
    or whose use was taken from the owner. Where no other device matches, a task stays. All that
    can go somewhere go in one round, but for what more than `STRAYS_IN_VAIN` others hide.
    """
    places: dict[tuple[int, str], list[Candidate]] = {}
    moved = in_vain = 0
    for task in _in_turn(_strays()):
        target = target_of(task.target or {})
        key = (task.owner_id, json.dumps(target.as_json(), sort_keys=True))
        if key not in places:
            places[key] = candidates(target, user=task.owner)
        better = [each for each in places[key] if each.worker.pk != task.worker_id]
        candidate = next((each for each in better if fits(task, each)), None)
        if candidate and task_rebind(task, to=candidate, because="worker_away"):
            moved += 1
            # the next one of the same kind goes to the next device
            places[key].remove(candidate)
            places[key].append(candidate)
        else:
            in_vain += 1
        if in_vain == STRAYS_IN_VAIN:
            break
    return moved


def _strays() -> QuerySet[Task]:
    """Waiting tasks with a target that their device does not start."""
    waiting = Task.objects.filter(state=TaskState.WAITING, target__isnull=False)
    return waiting.exclude(startable())


def _in_turn(strays: QuerySet[Task]) -> Iterator[Task]:
    """Those for whose target there is a device, in pieces, from another place in each round.

    So those that nevertheless fit nowhere keep no other waiting for ever.
    """
    asked = list(strays.order_by().values_list("target", flat=True).distinct())
    if not asked:
        return
    takers = list(Worker.objects.filter(takes_tasks()).prefetch_related("pools", "runtimes"))
    places = [(worker, pools_of(worker)) for worker in takers]
    had = [t for t in asked if t is not None and any(match(target_of(t), *p) for p in places)]
    some = random.sample(had, min(len(had), TARGETS_SEEN))
    keys = list(strays.filter(target__in=some).order_by("pk").values_list("pk", flat=True))
    begin = random.randrange(len(keys)) if keys else 0
    keys = keys[begin:] + keys[:begin]
    rows = strays.select_related("owner", "worker").prefetch_related("files").order_by("pk")
    for place in range(0, len(keys), STRAYS_READ):
        yield from rows.filter(pk__in=keys[place : place + STRAYS_READ])
