"""What an attempt measures: a plan of passes, each a process of its own.

One process with `--profile` yields one sample of each operator, that of its last iteration. So the
times of iterations come from a clean pass, and several samples come from several profiled ones.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_PROFILED = 50


class Plan(BaseModel):
    """`clean`: a pass without profiling comes first, for the time of an iteration.

    It lasts at least `clean_min_s` and `clean_min_iterations` (and load_and_run's `iter`).
    `profiled` processes follow. A plan measures something: it has a clean or a profiled pass.
    Without fields it is `quick`, which is what a server from before plans means; requests that
    ask for no plan get `DEFAULT`.
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
        """How many passes are kept."""
        return int(self.clean) + self.profiled


PRESETS: Mapping[str, Plan] = {
    plan.preset: plan
    for plan in (
        Plan(preset="quick"),
        Plan(preset="standard", clean=True, clean_min_s=1.0, clean_min_iterations=20, profiled=5),
        Plan(preset="thorough", clean=True, clean_min_s=3.0, clean_min_iterations=50, profiled=20),
    )
}
#: of whoever asks for none. Totals of six equal runs scattered by 4.3 %, those of `quick` by 24 %
DEFAULT = PRESETS["standard"]
