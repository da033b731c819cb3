"""Figures of tasks in lists: latency, device time, difference to the baseline, earlier times.

They are read from the rows of results, with a fixed number of queries; no profile is loaded.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from profiles.analysis.stability import Noise, noise_of
from tasks.models import Attempt, Baseline, Task, TaskFile
from tasks.states import Outcome, TaskState

#: times in the history of a task
MOST_TIMES = 20
#: newest tasks that are searched for them, of all models on a page together
_SEARCHED = 200

#: owner, device and file name of the model
_Key = tuple[int, int, str]


@dataclass(frozen=True)
class PinnedFigures:
    """The pinned baseline of a task. `profile` is the number of its profile, None without one."""

    task: int
    profile: int | None = None
    device_s: float | None = None


@dataclass(frozen=True)
class TaskFigures:
    """Figures of a task; None if they are unknown, as all are without an attempt.

    latency_ms: median iteration of the clean pass
    device_s: total device time
    noise: scatter of the passes; None for a single pass
    host_memory_bytes, gpu_memory_bytes: peak memory of the last attempt
    started_at, ended_at: of the last attempt
    profile: number of the profile
    verdicts: of a paired comparison, as in `PairedResult`
    baseline: of the task's owner, model and device; may be the task itself
    history_s: device times of this model on this device, oldest first; the last one is of the task
    """

    latency_ms: float | None = None
    device_s: float | None = None
    noise: Noise | None = None
    host_memory_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    profile: int | None = None
    verdicts: Sequence[dict[str, Any]] = ()
    baseline: PinnedFigures | None = None
    history_s: tuple[float, ...] = ()

    @property
    def run_s(self) -> float | None:
        """Duration of the last attempt, from its first process to its end."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def difference(self) -> float | None:
        """Device time / device time of the baseline - 1; None for the baseline itself."""
        if self.baseline is None or self.profile == self.baseline.profile:
            return None
        if self.device_s is None or not self.baseline.device_s:
            return None
        return self.device_s / self.baseline.device_s - 1


def figures_of(tasks: Sequence[Task]) -> dict[int, TaskFigures]:
    """Return the figures of tasks by their numbers, with at most five queries."""
    if not tasks:
        return {}
    keys: dict[int, _Key] = {
        task.pk: (task.owner_id, task.worker_id, task.model_name) for task in tasks
    }
    attempts = _last_attempts(list(keys))
    baselines = _baselines(set(keys.values()))
    times = _times(set(keys.values()), last=max(keys))
    return {
        number: TaskFigures(
            **attempts.get(number, {}),
            baseline=baselines.get(key),
            history_s=_history(times[key], number, attempts.get(number, {}).get("device_s")),
        )
        for number, key in keys.items()
    }


def _last_attempts(numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the fields of `TaskFigures` that are of the last attempt, by task."""
    rows = (
        Attempt.objects.filter(task__in=numbers)
        .order_by("number")
        .values_list(
            "task_id", "started_at", "ended_at", "profile__pk", "profile__device_total_s",
            "measurement__median_ms", "measurement__device_cv", "measurement__disturbances",
            "host_memory_bytes", "gpu_memory_bytes", "paired__verdicts",
        )
    )  # fmt: skip
    return {
        number: {
            "started_at": started_at,
            "ended_at": ended_at,
            "profile": profile,
            "device_s": device_s,
            "latency_ms": latency_ms,
            "noise": noise_of(cv, is_disturbed=bool(disturbances)),
            "host_memory_bytes": host_bytes,
            "gpu_memory_bytes": gpu_bytes,
            "verdicts": verdicts or (),
        }
        for (
            number, started_at, ended_at, profile, device_s, latency_ms, cv, disturbances,
            host_bytes, gpu_bytes, verdicts,
        ) in rows
    }  # fmt: skip


def _baselines(keys: set[_Key]) -> dict[_Key, PinnedFigures]:
    owners, workers, names = map(set, zip(*keys, strict=True))
    rows = (
        Baseline.objects.filter(owner__in=owners, worker__in=workers, model_name__in=names)
        # of several attempts, the last one succeeded
        .order_by("task__attempts__number")
        .values_list(
            "owner_id", "worker_id", "model_name", "task_id", "task__attempts__profile__pk",
            "task__attempts__profile__device_total_s",
        )
    )  # fmt: skip
    return {
        (owner, worker, name): PinnedFigures(task, profile, device_s)
        for owner, worker, name, task, profile, device_s in rows
    }


def _times(keys: set[_Key], *, last: int) -> defaultdict[_Key, list[tuple[int, float]]]:
    """Return (number of the task, device time, s) of tasks up to number `last`, oldest first."""
    owners, workers, _names = map(set, zip(*keys, strict=True))
    searched = Task.objects.filter(
        owner__in=owners,
        worker__in=workers,
        state=TaskState.FINISHED,
        outcome=Outcome.SUCCEEDED,
        pairing__isnull=True,
        pk__lte=last,
    ).order_by("-pk")
    places = {
        number: (owner, worker)
        for number, owner, worker in searched.values_list("pk", "owner_id", "worker_id")[:_SEARCHED]
    }
    # by numbers instead of joins, for which PostgreSQL would read whole tables
    models = TaskFile.objects.filter(task__in=list(places), kind=TaskFile.Kind.MODEL).order_by()
    found = {
        number: (*places[number], name)
        for number, name in models.values_list("task_id", "name")
        if (*places[number], name) in keys
    }
    rows = (
        Attempt.objects.filter(task__in=list(found))
        .order_by("task_id")
        .values_list("task_id", "profile__device_total_s")
    )
    times = defaultdict[_Key, list[tuple[int, float]]](list)
    for number, device_s in rows:
        if device_s is not None:
            times[found[number]].append((number, device_s))
    return times


def _history(
    times: Sequence[tuple[int, float]], number: int, device_s: float | None
) -> tuple[float, ...]:
    """Return the newest times of earlier tasks, oldest first, and that of task `number`."""
    if device_s is None:
        return ()
    earlier = [time_s for other, time_s in times if other < number]
    return (*earlier[1 - MOST_TIMES :], device_s)
