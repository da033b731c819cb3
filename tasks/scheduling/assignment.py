"""Assign waiting tasks to free slots of devices, in the order of `tasks.scheduling.fair_share`."""

import json
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, FilteredRelation, OuterRef, Q, QuerySet
from django.utils import timezone

from tasks.lifecycle.attempts import assign_attempt
from tasks.models import Attempt, Task
from tasks.scheduling.eligibility import owner_may_use, runnable, startable, takes_tasks
from tasks.scheduling.fair_share import (
    Group,
    Turn,
    heads_of,
    held_s,
    next_turns,
)
from tasks.scheduling.queue_depth import history_of, usual_s_in
from tasks.scheduling.rebinding import fits, rebind_task
from tasks.scheduling.targets import Candidate, candidates, match, pools_of, target_of
from tasks.states import TaskState
from workers.models import LONG, Worker

log = structlog.get_logger()

#: kinds of targets, and tasks of one kind, that a free device looks at in one round
TARGETS_SEEN = 200
TASKS_SEEN = 20
#: tasks whose device went away that are read at once; and how many of them that can go nowhere one
#: round of the sweep looks at
STRAYS_READ = 200
STRAYS_IN_VAIN = 400
#: columns of a task that choosing it does not need
LONG_OF_TASK = ("script", "options", "plan", "inputs", "target")
#: waiting tasks of one user in one tier, and the first of them
Head = tuple[Group, list[Task]]


def assign_waiting(worker_ids: Collection[int] | None = None) -> list[Attempt]:
    """Fill the free slots of some devices, or of all that are online; wake those that get a task.

    Choosing reads without locks; the claim itself is a compare-and-swap plus a unique constraint,
    so two dispatchers at once hand out each task and each slot at most once. A device that has no
    more tasks of its own takes over those of others whose target it matches. What somebody has
    locked is left to the next round of the sweep.
    """
    workers, free = _with_work(worker_ids)
    assigned = list(_assign([each for each in workers if each.has_own and free[each.pk]], free))
    # at last, so that no task moves whose own device is just about to take it
    takers = [each.pk for each in workers if each.may_take and free[each.pk]]
    if takers:
        assigned += _take_from_others(Worker.objects.filter(takes_tasks(), pk__in=takers))
    return assigned


def workers_with_work() -> list[int]:
    """Devices that have a free slot and perhaps something to fill it with."""
    workers, free = _with_work(None)
    return [each.pk for each in workers if free[each.pk]]


def _with_work(worker_ids: Collection[int] | None) -> tuple[list[Any], dict[int, list[int]]]:
    """Those of some devices, or of all that are online, for which something waits; free slots."""
    # two questions: each has its index, and one with OR might read all that waits
    own, movable = _waiting().filter(worker=OuterRef("pk")), _waiting().filter(target__isnull=False)
    # those that are held back too: they start health checks
    some = Worker.objects.filter(takes_tasks(checks=True)).defer(*LONG)
    some = some.annotate(has_own=Exists(own), may_take=Exists(movable))
    if worker_ids is not None:
        some = some.filter(pk__in=worker_ids)
    return _with_free_slots(some.filter(Q(has_own=True) | Q(may_take=True)))


def _with_free_slots(workers: QuerySet[Worker]) -> tuple[list[Any], dict[int, list[int]]]:
    """Devices, and the free slots of each by its id: one query, a row for each live attempt."""
    live = FilteredRelation("attempts", condition=Q(attempts__ended_at=None))
    rows: Any = workers.annotate(live=live, busy_slot=F("live__slot"))
    found = {row.pk: row for row in rows}
    free = {pk: list(range(worker.slots)) for pk, worker in found.items()}
    for row in rows:
        if row.busy_slot in free[row.pk]:
            free[row.pk].remove(row.busy_slot)
    return list(found.values()), free


def _assign(workers: Sequence[Worker], free: Mapping[int, list[int]]) -> Iterator[Attempt]:
    """Give free slots to the devices' own tasks; takes out of `free` those that are gone."""
    if not workers:
        return
    # and one more, in the place of one that cannot be assigned
    most = max(len(free[each.pk]) for each in workers) + 1
    ready = queue_of(*workers).filter(_due()).defer(*LONG_OF_TASK)
    queues: dict[int, list[Head]] = defaultdict(list)
    for group, tasks in heads_of(ready, most, by_worker=True):
        queues[tasks[0].worker_id].append((group, tasks))
    for worker in workers:
        slots, waiting = free[worker.pk], _next_of(worker, queues[worker.pk])
        for slot in slots[:]:
            for task in waiting:
                task.worker = worker
                try:
                    attempt = assign_attempt(task, slot=slot)
                except IntegrityError:
                    slots.remove(slot)  # who was faster also finds what we leave
                except Exception:  # one task must not keep the others waiting
                    log.exception("assign_failed", task=task.pk, worker=worker.name)
                    continue
                else:
                    if attempt is not None:
                        slots.remove(slot)
                        yield attempt
                break


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


def _next_of(worker: Worker, heads: Sequence[Head]) -> Iterator[Task]:
    """Waiting tasks by the turns of their owners on this device."""
    usual_s, held = 0.0, dict[int, float]()
    if len({group.owner_id for group, _ in heads}) > 1:
        usual_s = usual_s_in(history_of(worker))
        held = held_s(worker, live_s=usual_s)
    of_turn = {Turn(group.tier, group.owner_id): iter(tasks) for group, tasks in heads}
    for turn in next_turns((group for group, _ in heads), held, usual_s):
        task = next(of_turn[turn], None)
        if task is None:
            return  # only the first of each group were read
        yield task


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
    here, free = _with_free_slots(workers.prefetch_related("runtimes", "pools"))
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
    for task in islice(_next_of(worker, heads_of(rows, TASKS_SEEN)), TASKS_SEEN):
        candidate = next(each for target, each in found if target == task.target)
        if not fits(task, candidate):
            continue
        try:
            with transaction.atomic():
                attempt = None
                row = Task.objects.filter(pk=task.pk).values_list("pk")
                # what somebody else has locked is left alone
                unlocked = bool(row.select_for_update(no_key=True, skip_locked=True))
                if unlocked and rebind_task(task, to=candidate, because="slot_free"):
                    attempt = assign_attempt(task, slot=free[0])
                    transaction.set_rollback(attempt is None)  # it waits where it was
        except IntegrityError:
            attempt = None
            free.pop(0)  # another dispatcher filled this slot; the task waits where it was
        except Exception:  # as above
            attempt = None
            log.exception("assign_failed", task=task.pk, worker=worker.name)
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
    waiting = Task.objects.filter(state=TaskState.WAITING, target__isnull=False)
    for task in _in_turn(waiting.exclude(startable())):
        target = target_of(task.target or {})
        key = (task.owner_id, json.dumps(target.as_json(), sort_keys=True))
        if key not in places:
            places[key] = candidates(target, user=task.owner)
        better = [each for each in places[key] if each.worker.pk != task.worker_id]
        candidate = next((each for each in better if fits(task, each)), None)
        if candidate and rebind_task(task, to=candidate, because="worker_away"):
            moved += 1
            # the next one of the same kind goes to the next device
            places[key].remove(candidate)
            places[key].append(candidate)
        else:
            in_vain += 1
        if in_vain == STRAYS_IN_VAIN:
            break
    return moved


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
