"""Build load_and_run's command lines for the passes of an attempt."""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from agent.protocol.input_rules import escaped
from agent.protocol.messages import Start
from agent.protocol.options import (
    OPTIONS,
    Capabilities,
    Value,
    build_arguments,
    check_options,
    clean_iterations_of,
    clean_passes_of,
    has_dump_pass,
    may_use_gpu,
    options_of_passes,
)
from agent.protocol.run_log import RunLog

PassKind = Literal["inspect", "clean", "profiled", "dump"]
#: name of the profile in the process's folder
MADE_PROFILE = "profile.json"
#: factor by which the estimated number of iterations is increased when a clean pass is repeated
_MARGIN = 1.1
#: a short try may underestimate the iteration time, if nothing else ran at that moment. So the next
#: try has at most _MOST_GROWTH times as many iterations, and its duration, estimated by the mean,
#: is at most _MOST_PLANNED times the required one
_MOST_GROWTH = 200
_MOST_PLANNED = 4
#: of a clean pass: 3 s of a model that takes 15 us
_MOST_ITERATIONS = 200_000
#: of all clean passes together: the times of so many, and of tries, fit into `measurement.json`
MOST_CLEAN_ITERATIONS = 800_000


@dataclass(frozen=True)
class Pass:
    """One process of load_and_run. Only a profiled pass writes a profile, to MADE_PROFILE."""

    kind: PassKind
    arguments: tuple[str, ...]


class PassBuilder:
    """Builds the passes of an order. Raises OptionError for an invalid option."""

    def __init__(self, order: Start, runtime: Capabilities, libraries: Mapping[str, str]) -> None:
        self._order, self._libraries = order, dict(libraries)
        self._written: Callable[[str], str] = escaped if runtime.kind == "wheel" else str
        files = frozenset(file.option for file in order.data if file.option)
        self.options = check_options(
            order.options, runtime=runtime, files=files, profiled=order.plan.profiled > 0
        )
        self.dumps = has_dump_pass(self.options)
        self.may_use_gpu = may_use_gpu(self.options, runtime)
        self._shared = options_of_passes(self.options, order.plan)

    def inspect(self) -> Pass:
        """Return a pass that loads the model and prints its inputs, without running it."""
        options = {
            name: value
            for name, value in self.options.items()
            if OPTIONS[name].group in ("model", "c_opr", "device")
        }
        arguments = self._arguments({}, options)
        return Pass("inspect", (*arguments, "--iter=0", "--warmup_iter=0", "--model_info"))

    def clean(self, inputs: Mapping[str, str], *, first: bool, iterations: int) -> Pass:
        """Return a pass that measures the times of `iterations` iterations without the profiler."""
        options = dict(self._shared)
        if "fitting" not in options:  # fitting chooses its own number of iterations
            options["iter"] = iterations
        return Pass("clean", self._arguments(inputs, options, first=first))

    def profiled(
        self, inputs: Mapping[str, str], *, first: bool, iterations: int | None = None
    ) -> Pass:
        """Return a profiled pass, which yields one sample per operator: its last iteration."""
        options = dict(self._shared)
        if iterations is not None:
            options["iter"] = iterations
        return Pass("profiled", self._arguments(inputs, options, MADE_PROFILE, first=first))

    def dump(self, inputs: Mapping[str, str], **more: Value) -> Pass:
        """Return a pass of one iteration that writes the files that would disturb a measurement.

        more: options beyond those of the order
        """
        options = {**self._shared, "iter": 1, **more}
        return Pass("dump", self._arguments(inputs, options, first=False, dumps=True))

    def promised(self) -> list[str]:
        """Return the options whose artifacts the passes must write."""
        return [name for name in self.options if OPTIONS[name].kind == "artifact"]

    @property
    def clean_passes(self) -> int:
        """Number of clean passes, without those that the plan's budget adds."""
        return clean_passes_of(self.options, self._order.plan)

    @property
    def first_iterations(self) -> int:
        """Number of iterations of the first try of the clean pass."""
        return clean_iterations_of(self.options, self._order.plan)

    @property
    def copies(self) -> int:
        """Number of copies of the model that run at once; the log has the iterations of all."""
        return int(self.options.get("thread", 1))

    def enough_iterations(self, previous: RunLog) -> int:
        """Return how many iterations the next clean pass needs; 0 if `previous` was long enough.

        The iterations are those of each copy of the model.
        """
        times_ms, copies = previous.e2e_ms, self.copies
        total_ms, wanted_ms = math.fsum(times_ms) / copies, self._order.plan.clean_min_s * 1000
        count, usual_ms = len(times_ms) / copies, statistics.median(times_ms or [0])
        if total_ms >= wanted_ms or usual_ms <= 0:
            return 0
        # use the median, since one slow iteration of a short try would make the next try too short
        needed = wanted_ms / usual_ms * _MARGIN
        # on a busy device some iterations take a thousand times as long as most
        bearable = min(_MOST_GROWTH * count, _MOST_PLANNED * wanted_ms / total_ms * count)
        most = min(_MOST_ITERATIONS, MOST_CLEAN_ITERATIONS // self.clean_passes) // copies
        return min(math.ceil(max(min(needed, bearable), 2 * count)), most)

    def _arguments(
        self,
        inputs: Mapping[str, str],
        options: Mapping[str, Value],
        profile: str = "",
        *,
        first: bool = True,
        dumps: bool = False,
    ) -> tuple[str, ...]:
        arguments = build_arguments(
            self._order.model.name,
            {self._written(name): file for name, file in inputs.items()},
            options,
            profile,
            first=first,
            dumps=dumps,
            libraries=self._libraries,
        )
        return tuple(arguments)
