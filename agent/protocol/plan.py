"""The measurement plan of an attempt: a list of passes, each of which is one process.

One process with `--profile` yields one sample per operator, taken in its last iteration. Therefore
iteration times are measured in clean passes without the profiler, and several samples per operator
require several profiled passes. The memory addresses of a process bias all its iterations, so the
interval of the latency needs several clean passes (`agent.statistics.processes`).
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_PROFILED, MOST_CLEAN = 50, 100
#: most seconds of further clean passes
MOST_BUDGET_S = 1800


class Plan(BaseModel):
    """The passes of an attempt.

    `clean`: the first `clean_passes` passes run without the profiler, to measure the iteration
    time. Each lasts at least `clean_min_s` seconds and `clean_min_iterations` iterations (and
    load_and_run's `iter`). With a `budget_s` above 0, further clean passes follow until the 95 %
    interval of the median is at most 1 ± `half_width` of its middle, or until the clean passes have
    taken `budget_s` seconds. `profiled`: the number of profiled passes that follow. A valid plan
    has a clean or a profiled pass. A request without a plan gets `DEFAULT`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    preset: Literal["quick", "standard", "thorough", "custom"] = "quick"
    clean: bool = False
    clean_passes: int = Field(default=1, ge=1, le=MOST_CLEAN)
    clean_min_s: float = Field(default=0.0, ge=0, le=60)
    clean_min_iterations: int = Field(default=0, ge=0, le=10_000)
    half_width: float = Field(default=0.01, ge=0.001, le=0.5)
    budget_s: int = Field(default=0, ge=0, le=MOST_BUDGET_S)
    profiled: int = Field(default=1, ge=0, le=MOST_PROFILED)

    @property
    def measures(self) -> bool:
        return self.clean or self.profiled > 0

    @property
    def passes(self) -> int:
        """Number of passes whose results are kept; with a budget, further clean ones may follow."""
        return self.clean_passes * self.clean + self.profiled


PRESETS: Mapping[str, Plan] = {
    plan.preset: plan
    for plan in (
        Plan(
            preset="quick",
            clean=True,
            clean_passes=2,
            clean_min_s=0.1,
            clean_min_iterations=10,
            profiled=1,
        ),
        Plan(
            preset="standard",
            clean=True,
            clean_passes=3,
            clean_min_s=0.5,
            clean_min_iterations=10,
            profiled=5,
        ),
        Plan(
            preset="thorough",
            clean=True,
            clean_passes=8,
            clean_min_s=1.0,
            clean_min_iterations=20,
            budget_s=60,
            profiled=20,
        ),
    )
}
#: plan of requests without one. The totals of six equal runs varied by 4.3 %, with `quick` by 24 %
DEFAULT = PRESETS["standard"]
