"""Report of a run: a table by kind of fault, and a last line for programs."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos.plan import WEIGHTS, Fault

GOAL_S = 90.0


@dataclass
class Done:
    """A fault that was done. `tasks`: those that lived between its begin and its end."""

    fault: Fault
    whom: str
    tasks: set[int] = field(default_factory=set)
    settle_s: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """All that counts. `lost` and `double`: task -> what is wrong; `broken`: what else is."""

    done: list[Done]
    lost: dict[int, str]
    double: dict[int, str]
    broken: list[str]

    @property
    def slowest_settle_s(self) -> float:
        return max((done.settle_s for done in self.done), default=0.0)

    @property
    def holds(self) -> bool:
        good = self.slowest_settle_s <= GOAL_S
        return good and not (self.lost or self.double or self.broken)


def tell(text: str) -> None:
    """Print a line at once, whatever the parts say meanwhile."""
    print(text, file=sys.__stdout__, flush=True)


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send what others print, such as the supervisor of each death, to a file."""
    with (
        log.open("a", encoding="utf-8") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        yield


def show(verdict: Verdict) -> None:
    """Print it. The last line is `faults=N lost=N double=N slowest_settle_s=X`."""
    tell(f"\n{'fault':<14}{'count':>7}{'slowest settle (s)':>20}{'lost':>7}{'double':>8}")
    for kind in WEIGHTS:
        of_kind = [done for done in verdict.done if done.fault.kind == kind]
        if of_kind:
            met: set[int] = set().union(*(done.tasks for done in of_kind))
            slowest = max(done.settle_s for done in of_kind)
            lost, double = len(met & verdict.lost.keys()), len(met & verdict.double.keys())
            tell(f"{kind:<14}{len(of_kind):>7}{slowest:>20.1f}{lost:>7}{double:>8}")
    _list("Lost", (f"task {task}: {what}" for task, what in verdict.lost.items()))
    _list("Double", (f"task {task}: {what}" for task, what in verdict.double.items()))
    _list("Broken", verdict.broken)
    slow = sorted(verdict.done, key=lambda done: -done.settle_s)
    _list(
        f"Slower than {GOAL_S:.0f} s",
        (f"{_named(done)}: {done.settle_s:.1f} s" for done in slow if done.settle_s > GOAL_S),
    )
    figures = f"faults={len(verdict.done)} lost={len(verdict.lost)} double={len(verdict.double)}"
    tell(f"{figures} slowest_settle_s={verdict.slowest_settle_s:.1f}")


def _named(done: Done) -> str:
    return f"fault {done.fault.number}, {done.fault.kind} of {done.whom}"


def _list(title: str, lines: Iterable[str]) -> None:
    for number, line in enumerate(lines):
        if number == 0:
            tell(f"{title}:")
        tell(f"  {line}")
