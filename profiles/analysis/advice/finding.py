"""The input of rules beside the profile (`RunFacts`), and their result (`Finding`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from profiles.analysis.roofline import Roofs

#: warning: other figures are unreliable until this is fixed; gain: time can be saved; note: neither
Severity = Literal["warning", "gain", "note"]

#: how `saves_s` was estimated: the operators' time if they were removed; half of it; the time above
#: 80 % of peak performance; the time in which the device waits; the time in which the host issues
#: kernels; the time of an iteration outside operators
Estimate = Literal["", "removed", "halved", "roof", "idle", "issuing", "outside"]


@dataclass(frozen=True)
class Waits:
    """How often Python waited for values of the device, and the share of the trace this took."""

    count: int
    share: float


@dataclass(frozen=True)
class RunFacts:
    """Facts about the run of a profile, with defaults where they are unknown, as for an import.

    iterations_s: the iteration, s, that each profiled pass holds, by the name of its file
    iteration_cv: standard deviation / mean of the iterations without profiling
    overhead: profiled median / clean median - 1
    disturbances: codes of disturbances during the run
    options: load_and_run's options by name, as far as they were set; None if unknown
    machine: `platform.machine()` of the device
    of_trace: whether the operators come from a trace
    waits: of a trace whose waits were read
    """

    iterations_s: Mapping[str, float] = field(default_factory=dict)
    iteration_cv: float | None = None
    overhead: float | None = None
    disturbances: tuple[str, ...] = ()
    options: Mapping[str, object] | None = None
    machine: str = ""
    roofs: Roofs | None = None
    of_trace: bool = False
    waits: Waits | None = None

    def has_option(self, *names: str) -> bool:
        """Whether any of these options is known to have been enabled."""
        return any((self.options or {}).get(name) not in (None, False, "") for name in names)


@dataclass(frozen=True)
class Finding:
    """The result of one rule.

    rows: operators concerned, rows of `ProfileColumns`, slowest first
    saves_s: the most that an iteration could save, s; None if it cannot be estimated
    params: values for the message, by the placeholder names of its text
    options: options of load_and_run that may help, the most promising first
    overlaps: rules of other findings whose savings partly cover the same time
    """

    rule: str
    severity: Severity
    rows: tuple[int, ...] = ()
    saves_s: float | None = None
    estimate: Estimate = ""
    params: Mapping[str, float | int | str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    overlaps: tuple[str, ...] = ()
