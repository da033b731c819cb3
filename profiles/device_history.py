"""What the runs on a device say about the device itself: its speed over time, and what changed it.

The speed is that of the canary (`agent.device.canary`). A share compares a reading with the median
of all readings here, and not with those that the agent knew at that time: otherwise each change
would look like none.
"""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agent.statistics.canary import LEAST_READINGS, OwnSpeed, own_speed
from profiles.models import AttemptMeasurement
from tasks.models import Attempt
from workers.models import Worker

#: newest attempts of a device that are read
_MOST = 200
_KINDS = ("gemm_ms", "copy_ms", "small_ms")
#: parts of `Attempt.environment` whose change is marked
_MARKED = ("platform", "driver", "agent")

Times = tuple[float, ...]


@dataclass(frozen=True)
class SpeedReading:
    """One attempt: the speed before and after it, as shares of the usual one; None if unknown."""

    at: datetime.datetime
    before: float
    after: float | None
    is_disturbed: bool
    is_repeated: bool


@dataclass(frozen=True)
class EnvironmentChange:
    """What differs from the attempt before: `platform`, `driver`, `agent`; or a new `runtime`.

    place: number of the reading that is the first with the new value
    """

    at: datetime.datetime
    place: int
    kind: str
    before: str
    after: str


@dataclass(frozen=True)
class SpeedHistory:
    """The readings of a device, oldest first; `usual` is None with too few of them.

    missing: how many readings are needed until `usual` is known
    """

    readings: list[SpeedReading]
    changes: list[EnvironmentChange]
    usual: OwnSpeed | None
    missing: int


def speed_history(worker: Worker) -> SpeedHistory:
    """Return the readings of the newest attempts of a device."""
    rows = list(
        AttemptMeasurement.objects.filter(attempt__worker=worker)
        .exclude(canary={})
        .select_related("attempt__task")
        .only(
            "canary",
            "disturbances",
            "attempt__environment",
            "attempt__ended_at",
            "attempt__task__runtime_version",
        )
        .order_by("-attempt__ended_at")[:_MOST]
    )[::-1]
    known = [(row, before) for row in rows if (before := _times(row.canary.get("before")))]
    pairs = [(before, _times(row.canary.get("after"))) for row, before in known]
    usual = own_speed([times for pair in pairs for times in pair if times])
    count = sum(times is not None for pair in pairs for times in pair)
    return SpeedHistory(
        readings=[
            _reading(row, before, after, usual)
            for (row, _), (before, after) in zip(known, pairs, strict=True)
        ]
        if usual
        else [],
        changes=list(_changes([row.attempt for row, _ in known])) if usual else [],
        usual=usual,
        missing=max(LEAST_READINGS - count, 0),
    )


def speeds_since(run: AttemptMeasurement) -> tuple[float, float] | tuple[None, None]:
    """Return the speed of the device in a run and in its newest one; None if one is not known."""
    history = speed_history(run.attempt.worker)
    times = _times(run.canary.get("after")) or _times(run.canary.get("before"))
    if history.usual is None or times is None:
        return None, None
    newest = history.readings[-1]
    return history.usual.share(times), newest.after or newest.before


def _reading(
    row: AttemptMeasurement, before: Times, after: Times | None, usual: OwnSpeed
) -> SpeedReading:
    return SpeedReading(
        at=row.attempt.ended_at or row.built_at,
        before=usual.share(before),
        after=usual.share(after) if after else None,
        is_disturbed=any(item["code"] == "not_itself" for item in row.disturbances),
        is_repeated=bool(row.canary.get("repeated")),
    )


def _times(reading: Any) -> Times | None:
    """Return the times of a reading that an agent wrote; None if one is missing or implausible."""
    given = [reading.get(kind) for kind in _KINDS] if isinstance(reading, dict) else []
    times = tuple(float(time) for time in given if isinstance(time, int | float) and time > 0)
    return times if len(times) == len(_KINDS) else None


def _changes(attempts: Sequence[Attempt]) -> Iterator[EnvironmentChange]:
    """Yield what changed between attempts; a runtime that was not used before is a change, too."""
    versions: set[str] = set()
    for place, attempt in enumerate(attempts):
        version = attempt.task.runtime_version
        at = attempt.ended_at or attempt.created_at
        if versions and version not in versions:
            yield EnvironmentChange(at, place, "runtime", "", version)
        versions.add(version)
        earlier = attempts[place - 1].environment if place else attempt.environment
        for kind in _MARKED:
            before, after = (str(side.get(kind) or "") for side in (earlier, attempt.environment))
            if before != after:
                yield EnvironmentChange(at, place, kind, before, after)
