"""What a rule is told beside the profile, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from profiles.analysis.roofline import Roofs

#: warning: other figures are wrong as long as this is so; gain: time can be saved; note: neither
Severity = Literal["warning", "gain", "note"]

#: how `saves_s` was estimated: the operators' time if they went away; half of it; what lies above
#: 80 % of the measured roofs; time in which the device waits; time in which the host issues
#: kernels; time of an iteration that belongs to no operator
Estimate = Literal["", "removed", "halved", "roof", "idle", "issuing", "outside"]


@dataclass(frozen=True)
class Waits:
    """How often Python waited for values of the device, and for which share of the trace."""

    count: int
    share: float


@dataclass(frozen=True)
class Facts:
    """What is known of a profile's run. An opened profile has none of it.

    iterations_s: the iteration, s, that each profiled pass holds, by the name of its file
    iteration_cv: standard deviation / mean of the iterations without profiling
    overhead: profiled median / clean median - 1
    contaminations: codes of what disturbed the run
    options: load_and_run's options by name, those that were given; None if unknown
    machine: of the device, as `platform.machine()` says it
    of_trace: the operators are those of a trace
    waits: of a trace that was read with its waits
    """

    iterations_s: Mapping[str, float] = field(default_factory=dict)
    iteration_cv: float | None = None
    overhead: float | None = None
    contaminations: tuple[str, ...] = ()
    options: Mapping[str, object] | None = None
    machine: str = ""
    roofs: Roofs | None = None
    of_trace: bool = False
    waits: Waits | None = None

    @property
    def is_disturbed(self) -> bool:
        """Whether something else used the device, so that times are not those of the model."""
        return bool(self.contaminations)

    def has_option(self, *names: str) -> bool:
        """Whether any of these options is known to have been on."""
        return any((self.options or {}).get(name) not in (None, False, "") for name in names)


@dataclass(frozen=True)
class Finding:
    """One thing worth doing.

    rows: operators that it is about, rows of `ProfileColumns`, the one with most time first
    saves_s: the most that an iteration could save, s; None where nothing tells
    params: what the sentence names, by the names that its words use
    options: options of load_and_run that may help, the likeliest first
    overlaps: rules of other findings whose savings are, in part, the same time
    """

    rule: str
    severity: Severity
    rows: tuple[int, ...] = ()
    saves_s: float | None = None
    estimate: Estimate = ""
    params: Mapping[str, float | int | str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    overlaps: tuple[str, ...] = ()
