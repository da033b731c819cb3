"""The measurement plan of an attempt: a list of passes, each of which is one process.

One process with `--profile` yields one sample per operator, taken in its last iteration. Therefore
iteration times are measured in a clean pass without the profiler, and several samples per operator
require several profiled passes.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_PROFILED = 50


class Plan(BaseModel):
    """The passes of an attempt.

    `clean`: the first pass runs without the profiler, to measure the iteration time. It lasts at
    least `clean_min_s` seconds and `clean_min_iterations` iterations (and load_and_run's `iter`).
    `profiled`: the number of profiled passes that follow. A valid plan has a clean or a profiled
    pass. The field defaults are those of `quick`; a request without a plan gets `DEFAULT`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    preset: Literal["quick", "standard", "thorough", "custom"] = "quick"
    clean: bool = False
    clean_min_s: float = Field(default=0.0, ge=0, le=60)
    clean_min_iterations: int = Field(default=0, ge=0, le=10_000)
    profiled: int = Field(default=1, ge=0, le=MOST_PROFILED)

    @property
    def measures(self) -> bool:
        return self.clean or self.profiled > 0

    @property
    def passes(self) -> int:
        """Number of passes whose results are kept."""
        return int(self.clean) + self.profiled


PRESETS: Mapping[str, Plan] = {
    plan.preset: plan
    for plan in (
        Plan(preset="quick"),
        Plan(preset="standard", clean=True, clean_min_s=1.0, clean_min_iterations=20, profiled=5),
        Plan(preset="thorough", clean=True, clean_min_s=3.0, clean_min_iterations=50, profiled=20),
    )
}
#: plan of requests without one. The totals of six equal runs varied by 4.3 %, with `quick` by 24 %
DEFAULT = PRESETS["standard"]
