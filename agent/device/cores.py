"""Assign CPU cores to runs and to the agent, so that they do not disturb each other.

taskset(1) binds a run before its first instruction, as prlimit(1) sets its limits: all its threads
inherit the binding, it never runs on other cores, and no Python code runs between fork and exec.
Setting the affinity just after the start would save 0.6 ms, but it would race with a process that
starts threads at once; this is done only if taskset is missing.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from agent.protocol.notes import Note
from agent.protocol.options import Value

#: with fewer cores, reserving one for the agent would change the results more than the agent does
_LEAST_TO_SHARE = 4


#: options of load_and_run whose value is a number of compute threads
_THREADS = ("multithread", "multithread_default")


class CoresUnavailable(ValueError):
    """The configuration contains cores that this machine or container does not have."""


@dataclass(frozen=True)
class Cores:
    """Cores of runs (`measured`) and of the agent (`own`); an empty tuple means not bound."""

    measured: tuple[int, ...] = ()
    own: tuple[int, ...] = ()


def available_cores() -> frozenset[int]:
    """Return the cores that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def choose_cores(
    config: Literal["auto"] | tuple[int, ...], available: Iterable[int] | None = None
) -> Cores:
    """Divide the cores between runs and the agent. Raises CoresUnavailable.

    With "auto" the agent gets the last core if there are at least `_LEAST_TO_SHARE`; otherwise
    neither is bound. If the configuration assigns all cores to runs, the agent is not bound.
    """
    offered = sorted(available_cores() if available is None else available)
    if config == "auto":
        if len(offered) < _LEAST_TO_SHARE:
            return Cores()
        return Cores(tuple(offered[:-1]), tuple(offered[-1:]))
    unknown = sorted(set(config) - set(offered))
    if unknown:
        text = f"cores {unknown} are not available: this device has {offered}"
        raise CoresUnavailable(text)
    measured = tuple(sorted(set(config)))
    if not measured:
        return Cores()
    return Cores(measured, tuple(core for core in offered if core not in measured))


def oversubscription(options: Mapping[str, Value], cores: Iterable[int] = ()) -> tuple[Note, ...]:
    """Return a note for the result if a run has more threads than cores, else an empty tuple.

    `options` are load_and_run's. `cores` are the cores that the run is bound to, empty for all
    available ones.
    """
    offered = len(tuple(cores) or available_cores())
    # copies of the model, and the threads that each of them computes with
    copies = int(options.get("thread", 1))
    threads = copies * max(1, *(int(options.get(name, 1)) for name in _THREADS))
    if not 0 < offered < threads:
        return ()
    return (Note.of("oversubscribed", threads=threads, cores=offered),)


def pin_self(own: Iterable[int]) -> None:
    """Bind all threads of this process; threads and processes that it starts later inherit that.

    Processes of a run must therefore be bound to their own cores. If `own` is empty, do nothing.
    """
    allowed = frozenset(own)
    if not allowed:
        return
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), allowed)
        except ProcessLookupError:
            continue  # the thread has ended


def parse_cores(text: str) -> frozenset[int]:
    """Parse the kernel's lists of cores, such as `0-2,7`; return no cores for other text."""
    cores: set[int] = set()
    for part in text.split(",") if re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text) else ():
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return frozenset(cores)


def format_cores(cores: Iterable[int]) -> str:
    """Format cores as the kernel and taskset(1) do, such as `0-2,7`."""
    ranges: list[list[int]] = []
    for core in sorted(cores):
        if ranges and ranges[-1][1] == core - 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in ranges)
