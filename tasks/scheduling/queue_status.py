"""Status of a worker's queue: position of a task, running attempts, expected wait, causes, hints.

Nothing is stored: the status is computed from the same rows and by the same rules
(`tasks.scheduling.fair_share`) that the dispatcher uses.
"""

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from django.db.models import Q, prefetch_related_objects
from django.utils import timezone

from accounts.models import User
from tasks.models import Attempt, Purpose, Task
from tasks.scheduling.assignment import queue_of
from tasks.scheduling.eligibility import (
    RUNTIME,
    Placement,
    data_of,
    find_runtime,
    meets,
    obstacles,
    placement_of,
    takes_tasks,
)
from tasks.scheduling.fair_share import Turn, count_before, held_s, tier_of, tiers, user_queues_of
from tasks.scheduling.queue_depth import history_of, loads_of, users_attempts, usual_s_in
from tasks.scheduling.rebinding import fits, runtime_to_move
from tasks.scheduling.targets import candidates, refusal_of, target_of
from tasks.states import TaskState
from tasks.submission.validation import refusal_by
from workers.models import Worker
from workers.selectors import labels_of, visible_workers

#: the least number of ended attempts for an estimate of the wait
ENOUGH_RUNS = 3
#: number of simulated queues
DRAWS = 400
#: this many of the preceding tasks are simulated slot by slot; further ones are spread evenly
DEALT = 64
MOST_HINTS = 3
#: a hint needs a wait that is shorter than this fraction of the wait on the task's own worker
MUCH_SOONER = 0.5


@dataclass(frozen=True)
class RunningNow:
    """An attempt that occupies a slot. `task_id` is None for a task that the user may not see."""

    since: datetime.datetime
    task_id: int | None = None
    is_own: bool = False
    is_check: bool = False


@dataclass(frozen=True)
class Wait:
    """Expected time until the start: 50th and 90th percentile."""

    p50_s: float
    p90_s: float
    #: number of attempts on this worker from which it was computed
    runs: int


@dataclass(frozen=True)
class Cause:
    """A cause why a task has not started; `tasks.scheduling.messages` has the message for it."""

    code: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Hint:
    """A similar worker that would start the task sooner.

    same, value: what it has in common with the task's own worker, `chip` or `cpu_model`, and which
    """

    worker: Worker
    same: str
    value: str
    is_free: bool


@dataclass(frozen=True)
class QueueFacts:
    """The queue status of a waiting task, or of a task that could be submitted.

    before: number of tasks that the worker is expected to start earlier
    wait: None if the task cannot start now, or if the worker has fewer than
        `ENOUGH_RUNS` ended attempts
    """

    worker: Worker
    before: int
    running: tuple[RunningNow, ...]
    wait: Wait | None
    causes: tuple[Cause, ...]
    hints: tuple[Hint, ...] = ()

    @property
    def position(self) -> int:
        """Position in the queue; 1 is the next task to start."""
        return self.before + 1


def queue_facts(task: Task, *, reader: User) -> QueueFacts | None:
    """Return the queue status of a task for a user who may see it; None if it does not wait."""
    if task.state != TaskState.WAITING or task.submitted_at is None:
        return None
    worker = Worker.objects.prefetch_related("runtimes").get(pk=task.worker_id)
    prefetch_related_objects([task], "files")  # once, for all workers that are examined
    turn = Turn(tier_of(task.purpose, task.priority), task.owner_id)
    queue = _Queue(worker)
    stuck = [*_causes(placement_of(task, worker), is_own=task.owner_id == reader.pk)]
    if stuck and task.target is not None:
        stuck += _target_causes(task)
    before = queue.before(turn, queue.own_before(turn, task))
    # since `task` was read, the dispatcher may have assigned it
    running = tuple(row for row in running_on(worker, reader=reader) if row.task_id != task.pk)
    wait = None if stuck else queue.wait(before, task)
    causes = [*stuck, *_pause(task)] or [_turn_cause(worker, before, running)]
    hints = _hints(
        task.owner, lambda w: refusal_by(runtime_to_move, task, w) is None, worker, wait, causes
    )
    return QueueFacts(worker, before, running, wait, tuple(causes), hints)


def outlook(
    worker: Worker, version: str, *, owner: User, priority: int = 0, is_script: bool = False
) -> QueueFacts:
    """Return the queue status that a task of `owner` would have if it was submitted now.

    The caller checks that `owner` may use the worker.
    """
    turn = Turn(tier_of(Purpose.USER, priority), owner.pk)
    queue = _Queue(worker)

    def place_on(worker: Worker) -> Placement:
        return Placement(worker, version, find_runtime(worker, version), is_script=is_script)

    stuck = [*_causes(place_on(worker))]
    before = queue.before(turn, queue.own_before(turn, priority=priority))
    running = running_on(worker, reader=owner)
    wait = None if stuck else queue.wait(before)
    causes = stuck or [_turn_cause(worker, before, running)]
    hints = _hints(owner, lambda other: meets(place_on(other), RUNTIME), worker, wait, causes)
    return QueueFacts(worker, before, running, wait, tuple(causes), hints)


def running_on(worker: Worker, *, reader: User) -> tuple[RunningNow, ...]:
    """Return what occupies the slots of a worker, oldest first; others' tasks without their ids."""
    live = Attempt.objects.filter(worker=worker, ended_at=None).order_by("created_at")
    rows = live.values_list("created_at", "task_id", "task__owner_id", "task__purpose")
    return tuple(
        RunningNow(
            since,
            task_id if reader.is_staff or owner_id == reader.pk else None,
            owner_id == reader.pk,
            purpose == Purpose.HEALTH,
        )
        for since, task_id, owner_id, purpose in rows
    )


class _Queue:
    """The waiting tasks and the history of one worker, read once."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.history = history_of(worker)
        self.usual_s = usual_s_in(self.history)
        self.waiting = queue_of(worker)
        self.user_queues = user_queues_of(self.waiting)

    def own_before(self, turn: Turn, task: Task | None = None, *, priority: int = 0) -> int:
        """Return how many of the owner's tasks of the same tier precede this one, or a new one."""
        own = self.waiting.annotate(tier=tiers()).filter(tier=turn.tier, owner=turn.owner_id)
        if task is None:
            return own.filter(priority__gte=priority).count()
        same = Q(priority=task.priority)
        sooner = same & Q(submitted_at__lt=task.submitted_at)
        tied = same & Q(submitted_at=task.submitted_at, pk__lt=task.pk)
        return own.filter(Q(priority__gt=task.priority) | sooner | tied).count()

    def before(self, turn: Turn, own: int) -> int:
        held = dict[int, float]()
        if any(queue.owner_id != turn.owner_id for queue in self.user_queues):
            held = held_s(self.worker, live_s=self.usual_s)
        return count_before(self.user_queues, held, self.usual_s, turn=turn, own=own)

    def wait(self, before: int, task: Task | None = None) -> Wait | None:
        """Estimate the time until `before` tasks have started and another slot is free.

        task: the one that waits, None before its submission
        """
        if len(self.history) < ENOUGH_RUNS:
            return None
        now = timezone.now()
        # since `task` was read, the dispatcher may have assigned it
        live = users_attempts().filter(worker=self.worker, ended_at=None).exclude(task=task)
        ran = [(now - begin).total_seconds() for begin in live.values_list("created_at", flat=True)]
        waits = wait_samples(self.history, ran, slots=self.worker.slots, before=before)
        if task is not None and task.not_before_at is not None:
            waits = np.maximum(waits, (task.not_before_at - now).total_seconds())
        p50, p90 = np.quantile(waits, [0.5, 0.9])
        return Wait(float(p50), float(p90), len(self.history))


def wait_samples(
    history: Sequence[float], ran: Sequence[float], *, slots: int, before: int
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Simulate the queue many times, with durations drawn from the history; return the waits.

    history: how long earlier attempts held a slot, s
    ran: how long the live attempts have held theirs so far, s

    Returns (DRAWS,) float64, s. A live attempt gets a duration from the history that exceeds its
    time so far; if there is none, it is assumed to be half done. The seed is fixed, so that
    repeated calls return the same result.
    """
    draw = np.random.default_rng(0)
    past = np.asarray(history, np.float64)
    free_at = np.zeros((DRAWS, slots))
    for slot, lasted in enumerate(sorted(ran, reverse=True)[:slots]):
        longer = past[past > lasted] - lasted
        free_at[:, slot] = draw.choice(longer, DRAWS) if len(longer) else lasted
    spread = max(0, before - DEALT) if slots > 1 else before
    # draw how often each duration occurs instead of single draws: the cost is independent of
    # `spread`
    sums = draw.multinomial(spread, np.full(len(past), 1 / len(past)), DRAWS) @ past
    free_at += (sums / slots)[:, None]
    rows = np.arange(DRAWS)
    for _ in range(before - spread):
        free_at[rows, free_at.argmin(axis=1)] += draw.choice(past, DRAWS)
    return np.asarray(free_at.min(axis=1))


def _causes(placement: Placement, *, is_own: bool = True) -> Iterable[Cause]:
    """Yield the obstacles that keep this worker from starting this task."""
    for rule in obstacles(placement):
        yield Cause(rule.code, data_of(rule, placement) | {"is_own": is_own})


def _target_causes(task: Task) -> Iterable[Cause]:
    """Yield why no other worker takes over a task with a target."""
    target = target_of(task.target or {})
    options = candidates(target, user=task.owner)
    if any(fits(task, option) for option in options):
        return
    if options:
        yield Cause("no_fit")
        return
    refusal = refusal_of(target, user=task.owner)
    if refusal.code == "target_away":
        yield Cause("matches_away", {"devices": refusal.data["devices"]})
    else:
        yield Cause("no_match")


def _pause(task: Task) -> Iterable[Cause]:
    if task.not_before_at is not None and task.not_before_at > timezone.now():
        yield Cause("paused", {"until": task.not_before_at})


def _turn_cause(worker: Worker, before: int, running: Sequence[RunningNow]) -> Cause:
    name = {"worker": worker.name}
    if before:
        return Cause("behind", name | {"before": before})
    return Cause("busy" if len(running) >= worker.slots else "next", name)


def _hints(
    user: User,
    can_run: Callable[[Worker], bool],
    own_worker: Worker,
    wait: Wait | None,
    causes: Sequence[Cause],
) -> tuple[Hint, ...]:
    """Return similar workers that the user may use and that would start the task much sooner.

    Similar workers have the same chip or processor. Empty if the task is the next on its own
    worker.
    """
    if causes[0].code == "next":
        return ()
    others = visible_workers(user).filter(takes_tasks()).exclude(pk=own_worker.pk)
    similar = [
        (worker, *shared)
        for worker in others.prefetch_related("runtimes__worker").order_by("name")
        if (shared := _shared(own_worker, worker))
    ]
    if not similar:
        return ()
    loads = loads_of([own_worker, *(worker for worker, _, _ in similar)])
    if wait is not None:
        limit_s = wait.p50_s * MUCH_SOONER
    elif causes[0].code in ("behind", "busy"):
        limit_s = loads[own_worker.pk].wait_s * MUCH_SOONER
    else:
        limit_s = float("inf")  # the own worker cannot start it at all
    sooner = [
        Hint(worker, same, value, loads[worker.pk].is_free)
        for worker, same, value in similar
        if loads[worker.pk].is_free or loads[worker.pk].wait_s < limit_s
    ]
    sooner.sort(key=lambda hint: loads[hint.worker.pk].wait_s)
    return tuple(islice((hint for hint in sooner if can_run(hint.worker)), MOST_HINTS))


def _shared(worker: Worker, other: Worker) -> tuple[str, str] | None:
    """Return a property that makes the times of both workers comparable, and its value."""
    chip = labels_of(worker).get("chip")
    if chip and labels_of(other).get("chip") == chip:
        return "chip", chip
    processor = worker.facts.get("cpu_model")
    if processor and other.facts.get("cpu_model") == processor:
        return "cpu_model", str(processor)
    return None
