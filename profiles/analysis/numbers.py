"""Numbers as `profile_analyze` prints them."""

import math

PREFIXES = ("", "K", "M", "G", "T", "P")


def short(value: float) -> str:
    """Return three significant digits: `0.0239`, `1e-06`, `12.0`, `1.23e+02`."""
    return f"{value:.3}"


def percent(ratio: float) -> str:
    """Return a ratio as per cent with one decimal: `67.3%`, `nan%`."""
    return f"{ratio * 100:.1f}%"


def with_unit(value: float | None, units: tuple[str, str], base: int) -> tuple[str, str]:
    """Return a number and its unit: `("1.77", "MFLO")`; None gives `N/A`.

    units: the unit alone, and the unit that follows a prefix: `("byte", "iB")`
    base: 1000 or 1024

    The prefix is chosen before rounding, so 999,999 is `1000.00 K`; negative values, inf and nan
    have none. Above 1000 P, where the original crashes, the prefix stays P.
    """
    if value is None:
        return "N/A", units[0]
    step = 0
    while math.isfinite(value) and value >= base and step < len(PREFIXES) - 1:
        value /= base
        step += 1
    return f"{value:.2f}", PREFIXES[step] + units[step > 0]
