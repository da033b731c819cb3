"""Numbers of operations as pages call them; `profile_analyze` says FLO and FLOPS instead."""

from profiles.analysis.numbers import with_unit


def operations(count: float | None) -> str:
    """A number of operations: `1.77 MFLOP`; `N/A` for None."""
    return " ".join(with_unit(count, ("FLOP", "FLOP"), 1000))


def rate(per_second: float | None) -> str:
    """Operations per second: `72.98 GFLOP/s`; `N/A` for None."""
    return " ".join(with_unit(per_second, ("FLOP/s", "FLOP/s"), 1000))
