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
from tasks.lifecycle.cancel import cancel_task
from tasks.models import Attempt, Purpose, Task
from tasks.scheduling.eligibility import owner_may_use, runnable, startable, takes_tasks
from tasks.scheduling.fair_share import (
    Turn,
    UserQueue,
    heads_of,
    held_s,
    next_turns,
)
from tasks.scheduling.queue_depth import history_of, usual_s_in
from tasks.scheduling.rebinding import fits, rebind_task
from tasks.scheduling.targets import candidates, match, pools_of, target_of
from tasks.states import LIVE, TaskState
from workers.models import LONG, MEASURING, HealthCheck, Runtime, Worker

log = structlog.get_logger()

#: limits of one round for one device: distinct targets, and tasks of other devices that it examines
TARGETS_SEEN = 200
TASKS_SEEN = 20
#: orphaned tasks (their device takes none any more) that are read per query, and how many of them
#: one round of the sweep examines without finding another device
ORPHANS_READ = 200
ORPHANS_IN_VAIN = 400
#: large columns of a task that scheduling does not need
LONG_OF_TASK = ("script", "options", "plan", "inputs", "target")
#: a pending run that measures the device
_MEASURING = {"result": "", "cause__in": MEASURING}
#: the waiting tasks of one user in one tier, and the first of them
Head = tuple[UserQueue, list[Task]]


def assign_waiting(worker_ids: Collection[int] | None = None) -> list[Attempt]:
    """Assign waiting tasks to free slots of the given workers, or of all online ones.

    Wakes the agents of the workers that get a task. Tasks are chosen without locks; the claim
    itself is a compare-and-swap plus a unique constraint, so that concurrent dispatchers assign
    each task and each slot at most once. A worker without further tasks of its own takes over tasks
    from other workers if it matches their target. Locked tasks are left to the next round of the
    sweep.
    """
    workers, free = _load_workers_with_work(worker_ids)
    if measuring := [worker.pk for worker in workers if worker.has_own and worker.is_measuring]:
        _yield_to_tasks(measuring)
    assigned = list(_assign([w for w in workers if w.has_own and free[w.pk]], free))
    # after their own workers had the chance to take them, so that no task moves needlessly
    takers = [worker.pk for worker in workers if worker.may_take and free[worker.pk]]
    if takers:
        assigned += _take_from_others(Worker.objects.filter(takes_tasks(), pk__in=takers))
    return assigned


def _yield_to_tasks(worker_ids: Collection[int]) -> None:
    """Cancel runs that measure the device on workers for which a user's task is waiting."""
    waiting = _waiting().filter(worker=OuterRef("worker"), purpose=Purpose.USER)
    pending = HealthCheck.objects.filter(Exists(waiting), worker__in=worker_ids, **_MEASURING)
    ids = [task_id for task_id in pending.values_list("task_id", flat=True) if task_id]
    for task in Task.objects.filter(pk__in=ids, state__in=LIVE):
        cancel_task(task)


def workers_with_work() -> list[int]:
    """Return the ids of workers with a free slot for which tasks may be waiting."""
    workers, free = _load_workers_with_work(None)
    return [worker.pk for worker in workers if free[worker.pk]]


def _load_workers_with_work(
    worker_ids: Collection[int] | None,
) -> tuple[list[Any], dict[int, list[int]]]:
    """Return the workers for which tasks may be waiting, and the free slots of each by its id.

    worker_ids: the workers to consider; None for all that are online
    """
    # two subqueries, each with its own index: with OR in one, the planner might read all tasks
    own, movable = _waiting().filter(worker=OuterRef("pk")), _waiting().filter(target__isnull=False)
    # including workers that are quarantined, since they start health checks
    rows = Worker.objects.filter(takes_tasks(checks=True)).defer(*LONG)
    measuring = HealthCheck.objects.filter(worker=OuterRef("pk"), **_MEASURING)
    rows = rows.annotate(
        has_own=Exists(own), may_take=Exists(movable), is_measuring=Exists(measuring)
    )
    if worker_ids is not None:
        rows = rows.filter(pk__in=worker_ids)
    return _with_free_slots(rows.filter(Q(has_own=True) | Q(may_take=True)))


def _with_free_slots(workers: QuerySet[Worker]) -> tuple[list[Any], dict[int, list[int]]]:
    """Return the workers and the free slots of each by its id.

    This is one query with a row for each live attempt.
    """
    live = FilteredRelation("attempts", condition=Q(attempts__ended_at=None))
    rows: Any = workers.annotate(live=live, busy_slot=F("live__slot"))
    by_id = {row.pk: row for row in rows}
    free = {pk: list(range(worker.slots)) for pk, worker in by_id.items()}
    for row in rows:
        if row.busy_slot in free[row.pk]:
            free[row.pk].remove(row.busy_slot)
    return list(by_id.values()), free


def _assign(workers: Sequence[Worker], free: Mapping[int, list[int]]) -> Iterator[Attempt]:
    """Assign the workers' own tasks to their free slots; remove the slots used from `free`."""
    if not workers:
        return
    # one more than there are slots, in case a task cannot be assigned
    most = max(len(free[worker.pk]) for worker in workers) + 1
    ready = queue_of(*workers).filter(_due()).defer(*LONG_OF_TASK)
    queues: dict[int, list[Head]] = defaultdict(list)
    for queue, tasks in heads_of(ready, most, by_worker=True):
        queues[tasks[0].worker_id].append((queue, tasks))
    for worker in workers:
        slots, waiting = free[worker.pk], _next_of(worker, queues[worker.pk])
        for slot in slots[:]:
            for task in waiting:
                task.worker = worker
                try:
                    attempt = assign_attempt(task, slot=slot)
                except IntegrityError:
                    # the slot is taken: the faster dispatcher also assigns the remaining tasks
                    slots.remove(slot)
                except Exception:  # one task must not block the others
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
    """Return the waiting tasks that these workers can and may run.

    Includes tasks that pause after a failed attempt. A quarantined worker runs health checks
    only; health checks need no permission.
    """
    return Task.objects.filter(
        runnable(), state=TaskState.WAITING, worker__in=[worker.pk for worker in workers]
    )


def _next_of(worker: Worker, heads: Sequence[Head]) -> Iterator[Task]:
    """Yield waiting tasks in the order of fair share on this worker."""
    usual_s, held = 0.0, dict[int, float]()
    if len({queue.owner_id for queue, _ in heads}) > 1:
        usual_s = usual_s_in(history_of(worker))
        held = held_s(worker, live_s=usual_s)
    of_turn = {Turn(queue.tier, queue.owner_id): iter(tasks) for queue, tasks in heads}
    for turn in next_turns((queue for queue, _ in heads), held, usual_s):
        task = next(of_turn[turn], None)
        if task is None:
            return  # `heads` holds only the first tasks of each queue
        yield task


# -- targets --------------------------------------------------------------------------------------


def _targets() -> list[dict[str, Any]]:
    """Return the distinct targets of the waiting tasks, at most `TARGETS_SEEN`."""
    targets = _waiting().filter(target__isnull=False).values_list("target", flat=True)
    return [target for target in targets.order_by().distinct()[:TARGETS_SEEN] if target is not None]


def _take_from_others(workers: QuerySet[Worker]) -> Iterator[Attempt]:
    """Fill the free slots of these workers with tasks that wait for other workers.

    Only tasks with a target can move.
    """
    targets = _targets()
    if not targets:
        return
    # only targets look at runtimes and pools
    rows, free = _with_free_slots(workers.prefetch_related("runtimes", "pools"))
    for worker in rows:
        if free[worker.pk]:
            yield from _take_over(worker, free[worker.pk], targets)


def _take_over(worker: Worker, free: list[int], targets: list[dict[str, Any]]) -> Iterator[Attempt]:
    """Start tasks of other workers whose target this worker matches, in the order of fair share."""
    pools = pools_of(worker)
    matches = [
        (target, runtime)
        for target in targets
        if (runtime := match(target_of(target), worker, pools))
    ]
    waiting = _waiting().filter(owner_may_use(worker), target__in=[target for target, _ in matches])
    if not matches:
        return
    elsewhere = waiting.exclude(worker=worker)
    rows = elsewhere.select_related("worker").prefetch_related("files")
    for task in islice(_next_of(worker, heads_of(rows, TASKS_SEEN)), TASKS_SEEN):
        runtime = next(option for target, option in matches if target == task.target)
        if not fits(task, runtime):
            continue
        try:
            with transaction.atomic():
                attempt = None
                row = Task.objects.filter(pk=task.pk).values_list("pk")
                unlocked = bool(row.select_for_update(no_key=True, skip_locked=True))
                if unlocked and rebind_task(task, to=runtime, because="slot_free"):
                    attempt = assign_attempt(task, slot=free[0])
                    # without an attempt the task stays with its own worker
                    transaction.set_rollback(attempt is None)
        except IntegrityError:
            attempt = None
            free.pop(0)  # another dispatcher filled this slot; the task stays with its own worker
        except Exception:  # one task must not block the others
            attempt = None
            log.exception("assign_failed", task=task.pk, worker=worker.name)
        if attempt is not None:
            free.pop(0)
            yield attempt
        if not free:
            return


def rebind_orphans() -> int:
    """Move tasks with a target away from workers that can no longer start them; return how many.

    Such workers went offline, were drained, quarantined or retired, lost the MegEngine version, or
    may no longer be used by the task's owner. A task for which no other worker matches stays. One
    round moves all tasks that can move, unless it meets `ORPHANS_IN_VAIN` tasks that cannot.
    """
    candidates_by_key: dict[tuple[int, str], list[Runtime]] = {}
    moved = in_vain = 0
    waiting = Task.objects.filter(state=TaskState.WAITING, target__isnull=False)
    for task in _movable_orphans(waiting.exclude(startable())):
        target = target_of(task.target or {})
        key = (task.owner_id, json.dumps(target.as_json(), sort_keys=True))
        if key not in candidates_by_key:
            candidates_by_key[key] = candidates(target, user=task.owner)
        options = candidates_by_key[key]
        others = (option for option in options if option.worker_id != task.worker_id)
        runtime = next((option for option in others if fits(task, option)), None)
        if runtime and rebind_task(task, to=runtime, because="worker_away"):
            moved += 1
            # round robin: the next task with this target tries the next worker first
            options.remove(runtime)
            options.append(runtime)
        else:
            in_vain += 1
        if in_vain == ORPHANS_IN_VAIN:
            break
    return moved


def _movable_orphans(orphans: QuerySet[Task]) -> Iterator[Task]:
    """Yield the orphaned tasks whose target some worker matches, in chunks of `ORPHANS_READ`.

    Each call starts at a random task, so that tasks that fit no worker for other reasons do not
    block the others forever.
    """
    targets = list(orphans.order_by().values_list("target", flat=True).distinct())
    if not targets:
        return
    takers = list(Worker.objects.filter(takes_tasks()).prefetch_related("pools", "runtimes"))
    workers = [(worker, pools_of(worker)) for worker in takers]
    matched = [
        t for t in targets if t is not None and any(match(target_of(t), *w) for w in workers)
    ]
    sample = random.sample(matched, min(len(matched), TARGETS_SEEN))
    keys = list(orphans.filter(target__in=sample).order_by("pk").values_list("pk", flat=True))
    begin = random.randrange(len(keys)) if keys else 0
    keys = keys[begin:] + keys[:begin]
    rows = orphans.select_related("owner", "worker").prefetch_related("files").order_by("pk")
    for start in range(0, len(keys), ORPHANS_READ):
        yield from rows.filter(pk__in=keys[start : start + ORPHANS_READ])
