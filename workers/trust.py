"""How far a device can be trusted, from its A/A runs: paired comparisons of a model with itself.

Both arms are equal, so every FASTER or SLOWER is a false alarm, and every interval should contain
0. The design allows 1 false alarm in 100 comparisons, and 95 of 100 intervals contain the truth.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

from workers.models import HealthCheck, Worker

#: measuring time for which the smallest visible difference is given
SPAN_S = 120.0
#: runs at either end of the history whose medians show the drift, and fewest runs for it
_END, _LEAST = 5, 10


class AaFigures(TypedDict):
    """`HealthCheck.samples` of an A/A run, as in `agent.protocol.pairs`.

    usual_ms: median iteration before the pairs
    """

    verdict: str
    effect: float
    low: float | None
    high: float | None
    smallest: float | None
    pairs: int
    measuring_s: float
    usual_ms: float


@dataclass(frozen=True)
class Trust:
    """What the A/A runs of one device, or of several, show.

    runs: those with at least one undisturbed pair
    false_alarms: those that called equal arms different
    intervals, covered: those with an interval, and those whose interval contains 0
    smallest: the smallest difference that SPAN_S of measuring show, as a ratio; None if unknown.
        The median over the runs; the error of a mean shrinks with the square root of the time
    drift: change of the iteration time from the oldest to the newest runs since kernel, agent or
        runtime changed last, as a ratio; None with too few runs
    """

    runs: int = 0
    false_alarms: int = 0
    intervals: int = 0
    covered: int = 0
    smallest: float | None = None
    drift: float | None = None

    @property
    def coverage(self) -> float | None:
        """Share of the intervals that contain 0."""
        return self.covered / self.intervals if self.intervals else None


def trust_of(workers: Collection[Worker]) -> dict[int, Trust]:
    """Return what the A/A runs of each worker show, by its id."""
    checks = HealthCheck.objects.filter(worker__in=workers, cause=HealthCheck.Cause.AA)
    columns = ("worker_id", "environment", "samples")
    runs: defaultdict[int, list[tuple[str, AaFigures]]] = defaultdict(list)
    for worker_id, environment, figures in (
        checks.exclude(samples={}).order_by("id").values_list(*columns)
    ):
        runs[worker_id].append((environment, figures))
    return {worker.pk: _trust(runs[worker.pk]) for worker in workers}


def total_of(trusts: Iterable[Trust]) -> Trust:
    """Return the counts over several devices; differences and drift belong to one device."""
    rows = list(trusts)
    return Trust(
        runs=sum(row.runs for row in rows),
        false_alarms=sum(row.false_alarms for row in rows),
        intervals=sum(row.intervals for row in rows),
        covered=sum(row.covered for row in rows),
    )


def _trust(history: Sequence[tuple[str, AaFigures]]) -> Trust:
    """Return what the runs of one device, each with its environment, oldest first, show."""
    runs = [figures for _, figures in history]
    present = [figures for environment, figures in history if environment == history[-1][0]]
    bounds = [
        (run["low"], run["high"])
        for run in runs
        if run["low"] is not None and run["high"] is not None
    ]
    smallest = [
        run["smallest"] * math.sqrt(run["measuring_s"] / SPAN_S)
        for run in runs
        # an agent may report anything
        if run["smallest"] is not None and run["measuring_s"] > 0
    ]
    return Trust(
        runs=len(runs),
        false_alarms=sum(run["verdict"] in ("faster", "slower") for run in runs),
        intervals=len(bounds),
        covered=sum(low <= 0 <= high for low, high in bounds),
        smallest=statistics.median(smallest) if smallest else None,
        drift=_drift([run["usual_ms"] for run in present]),
    )


def _drift(times_ms: Sequence[float]) -> float | None:
    if len(times_ms) < _LEAST or min(times_ms) <= 0:
        return None
    return statistics.median(times_ms[-_END:]) / statistics.median(times_ms[:_END]) - 1
