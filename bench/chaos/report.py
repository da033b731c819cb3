"""Print the report of a run: a table by kind of fault, and a last line for programs."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos.plan import WEIGHTS, Fault

GOAL_S = 90.0


@dataclass
class FaultResult:
    """An injected fault.

    whom: the part that it affected
    tasks: ids of the tasks that were live between its start and its end
    settle_s: how long the site took to make progress again
    """

    fault: Fault
    whom: str
    tasks: set[int] = field(default_factory=set)
    settle_s: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """Result of a run. `lost` and `double`: task -> description; `broken`: all other problems."""

    results: list[FaultResult]
    lost: dict[int, str]
    double: dict[int, str]
    broken: list[str]

    @property
    def slowest_settle_s(self) -> float:
        return max((result.settle_s for result in self.results), default=0.0)

    @property
    def holds(self) -> bool:
        good = self.slowest_settle_s <= GOAL_S
        return good and not (self.lost or self.double or self.broken)


def log_line(text: str) -> None:
    """Print a line to the real stdout, which `quiet` does not redirect."""
    print(text, file=sys.__stdout__, flush=True)


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Redirect stdout and stderr to a file, for example the supervisor's messages."""
    with (
        log.open("a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        yield


def show(verdict: Verdict) -> None:
    """Print the report. The last line is `faults=N lost=N double=N slowest_settle_s=X`."""
    log_line(f"\n{'fault':<14}{'count':>7}{'slowest settle (s)':>20}{'lost':>7}{'double':>8}")
    for kind in WEIGHTS:
        of_kind = [result for result in verdict.results if result.fault.kind == kind]
        if of_kind:
            met: set[int] = set().union(*(result.tasks for result in of_kind))
            slowest = max(result.settle_s for result in of_kind)
            lost, double = len(met & verdict.lost.keys()), len(met & verdict.double.keys())
            log_line(f"{kind:<14}{len(of_kind):>7}{slowest:>20.1f}{lost:>7}{double:>8}")
    _list("Lost", (f"task {task}: {what}" for task, what in verdict.lost.items()))
    _list("Double", (f"task {task}: {what}" for task, what in verdict.double.items()))
    _list("Broken", verdict.broken)
    slow = sorted(verdict.results, key=lambda result: -result.settle_s)
    _list(
        f"Slower than {GOAL_S:.0f} s",
        (
            f"{_named(result)}: {result.settle_s:.1f} s"
            for result in slow
            if result.settle_s > GOAL_S
        ),
    )
    figures = f"faults={len(verdict.results)} lost={len(verdict.lost)} double={len(verdict.double)}"
    log_line(f"{figures} slowest_settle_s={verdict.slowest_settle_s:.1f}")


def _named(result: FaultResult) -> str:
    return f"fault {result.fault.number}, {result.fault.kind} of {result.whom}"


def _list(title: str, lines: Iterable[str]) -> None:
    for number, line in enumerate(lines):
        if number == 0:
            log_line(f"{title}:")
        log_line(f"  {line}")
