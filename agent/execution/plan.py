"""The passes of an attempt as command lines: what each of them asks of load_and_run."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from agent.protocol import Start
from agent.protocol.option import Capabilities, Group
from agent.protocol.option_table import OPTIONS
from agent.protocol.options import (
    Value,
    build_arguments,
    check_options,
    clean_iterations_of,
    has_dump_pass,
    options_of_passes,
)
from agent.protocol.run_log import RunLog

Kind = Literal["inspect", "clean", "profiled", "dump"]
#: a clean pass that is too short is made anew with so many iterations more than it seems to need
_MARGIN = 1.1
#: a try of few iterations may fall into a moment in which nothing else runs: the next one has at
#: most so many times as many, and by the mean is to last at most so many times as long as it must
_MOST_GROWTH = 200
_MOST_PLANNED = 4
#: 3 s of a model that takes 15 us; the times of so many fit into `measurement.json`
_MOST_ITERATIONS = 200_000


@dataclass(frozen=True)
class Pass:
    """One process. `profile` is the name of the file it is to write, empty for none."""

    kind: Kind
    arguments: tuple[str, ...]
    profile: str = ""


class Recipe:
    """Turns an order into passes. Raises OptionError if an option must not be given."""

    def __init__(self, order: Start, runtime: Capabilities, libraries: Mapping[str, str]) -> None:
        self._order, self._libraries = order, dict(libraries)
        files = frozenset(file.option for file in order.data if file.option)
        self.options = check_options(
            order.options, runtime=runtime, files=files, profiled=order.plan.profiled > 0
        )
        self.dumps = has_dump_pass(self.options)
        self._shared = options_of_passes(self.options, order.plan)

    def inspect(self) -> Pass:
        """Loads the model and says what its inputs are; computes nothing."""
        options = {
            name: value
            for name, value in self.options.items()
            if OPTIONS[name].group in (Group.MODEL, Group.C_OPR, Group.DEVICE)
        }
        arguments = build_arguments(self._order.model.name, {}, options, libraries=self._libraries)
        return Pass("inspect", (*arguments, "--iter=0", "--warmup_iter=0", "--model_info"))

    def clean(self, inputs: Mapping[str, str], *, first: bool, iterations: int) -> Pass:
        """For the times of `iterations` iterations."""
        options = dict(self._shared)
        if "fitting" not in options:  # it counts its own
            options["iter"] = iterations
        return Pass("clean", self._arguments(inputs, options, "", first=first))

    def profiled(self, inputs: Mapping[str, str], profile: str, *, first: bool) -> Pass:
        """For one sample of each operator."""
        arguments = self._arguments(inputs, self._shared, profile, first=first)
        return Pass("profiled", arguments, profile)

    def dump(self, inputs: Mapping[str, str]) -> Pass:
        """One iteration that writes what would make timed ones slow."""
        options = {**self._shared, "iter": 1}
        arguments = build_arguments(
            self._order.model.name,
            inputs,
            options,
            first=False,
            dumps=True,
            libraries=self._libraries,
        )
        return Pass("dump", tuple(arguments))

    def promised(self) -> list[str]:
        """Options whose artifacts the passes are to leave."""
        return [name for name in self.options if OPTIONS[name].kind == "artifact"]

    @property
    def first_iterations(self) -> int:
        """How many iterations a clean pass is tried with."""
        return clean_iterations_of(self.options, self._order.plan)

    def enough_iterations(self, tried: RunLog) -> int:
        """How many the clean pass needs to last long enough; 0 if those that were tried are."""
        total_ms, wanted_ms = math.fsum(tried.e2e_ms), self._order.plan.clean_min_s * 1000
        count, usual_ms = len(tried.e2e_ms), statistics.median(tried.e2e_ms or [0])
        if total_ms >= wanted_ms or usual_ms <= 0:
            return 0
        # by the median: one slow iteration of a short try would make the next one too short
        needed = wanted_ms / usual_ms * _MARGIN
        # on a device that does much else some iterations take a thousand times as long as most
        bearable = min(_MOST_GROWTH * count, _MOST_PLANNED * wanted_ms / total_ms * count)
        return min(max(math.ceil(min(needed, bearable)), 2 * count), _MOST_ITERATIONS)

    def _arguments(
        self, inputs: Mapping[str, str], options: Mapping[str, Value], profile: str, *, first: bool
    ) -> tuple[str, ...]:
        arguments = build_arguments(
            self._order.model.name,
            inputs,
            options,
            profile,
            first=first,
            libraries=self._libraries,
        )
        return tuple(arguments)
