"""How much of an iteration the operators explain."""

import math
from dataclasses import dataclass
from typing import Literal

#: where the time of an iteration is from: the clean pass, the profiled ones, or the log of a
#: profiled run alone
Basis = Literal["clean", "profiled", "log"]


@dataclass(frozen=True)
class Coverage:
    """share: `operators_s` / `iteration_s`; above 1 where operators overlap.

    operators_s: sum of the medians of all operators on the device
    iteration_s: median of the clean pass, else the best that there is, as `basis` says
    """

    share: float
    operators_s: float
    iteration_s: float
    basis: Basis


def coverage(
    operators_s: float | None,
    *,
    clean_ms: float | None,
    profiled_ms: float | None = None,
    log_ms: float | None = None,
) -> Coverage | None:
    """Compare the sum of operators with the first iteration time that is known; None without."""
    iterations: tuple[tuple[Basis, float | None], ...] = (
        ("clean", clean_ms),
        ("profiled", profiled_ms),
        ("log", log_ms),
    )
    if operators_s is None or not math.isfinite(operators_s) or operators_s < 0:
        return None
    for basis, time_ms in iterations:
        if time_ms is not None and 0 < time_ms < math.inf:
            iteration_s = time_ms / 1000
            return Coverage(operators_s / iteration_s, operators_s, iteration_s, basis)
    return None
