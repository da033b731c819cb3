"""Format numbers as `profile_analyze` prints them, and as pages show them."""

import math

from profiles.analysis.durations import ABSENT, finite

PREFIXES = ("", "K", "M", "G", "T", "P")


def short(value: float) -> str:
    """Return three significant digits: `0.0239`, `1e-06`, `12.0`, `1.23e+02`."""
    return f"{value:.3}"


def percent(ratio: float) -> str:
    """Return a ratio as per cent with one decimal: `67.3%`, `nan%`."""
    return f"{ratio * 100:.1f}%"


def share(ratio: float | None, absent: str = ABSENT) -> str:
    """Return a ratio as per cent in the format of the pages: `12.3 %`.

    absent: text for None, inf and nan
    """
    number = finite(ratio)
    return absent if number is None else f"{number * 100:.1f} %"


def ratio(part: float, whole: float) -> float | None:
    """Return part / whole; None if the whole is not positive."""
    return part / whole if whole > 0 else None


def three_digits(value: float) -> str:
    """Return a number of at least 1 with three significant digits, and all before the point."""
    whole = len(str(int(abs(value))))
    return f"{value:.{max(0, 3 - whole)}f}"


def amount(size_bytes: float) -> str:
    """Format a size: `1.50 MiB`."""
    return _scale(size_bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def operations(count: float) -> str:
    """Format a number of operations: `7.23 MFLOP`."""
    return _scale(count, 1000, ("FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP"))


def rate(per_second: float) -> str:
    """Format operations per second: `7.23 GFLOP/s`."""
    text = operations(per_second)
    return text if text == ABSENT else f"{text}/s"


def _scale(value: float, base: int, units: tuple[str, ...]) -> str:
    if not math.isfinite(value):
        return ABSENT
    step = 0
    while abs(value) >= base and step < len(units) - 1:
        value /= base
        step += 1
    return f"{three_digits(value) if step else f'{value:.0f}'} {units[step]}"


def computation(operations: float | None) -> tuple[str, str]:
    """Return a number of operations and its unit: `("1.77", "MFLO")`."""
    return with_unit(operations, ("FLO", "FLO"), 1000)


def flops(per_second: float | None) -> tuple[str, str]:
    """Return operations per second and their unit: `("72.98", "GFLOPS")`."""
    return with_unit(per_second, ("FLOPS", "FLOPS"), 1000)


def memory(size_bytes: float | None) -> tuple[str, str]:
    """Return a number of bytes and its unit: `("1.50", "KiB")`."""
    return with_unit(size_bytes, ("byte", "iB"), 1024)


def bandwidth(bytes_per_s: float | None) -> tuple[str, str]:
    """Return bytes per second and their unit: `("1.50", "KiB/s")`."""
    return with_unit(bytes_per_s, ("byte/s", "iB/s"), 1024)


def page_operations(count: float | None) -> str:
    """Return a number of operations in the format of the pages: `1.77 MFLOP`; `N/A` for None."""
    return " ".join(with_unit(count, ("FLOP", "FLOP"), 1000))


def page_rate(per_second: float | None) -> str:
    """Return operations per second in the format of the pages: `72.98 GFLOP/s`; `N/A` for None."""
    return " ".join(with_unit(per_second, ("FLOP/s", "FLOP/s"), 1000))


def with_unit(value: float | None, units: tuple[str, str], base: int) -> tuple[str, str]:
    """Return a number and its unit: `("1.77", "MFLO")`; None gives `N/A`.

    units: the unit alone, and the unit that follows a prefix: `("byte", "iB")`
    base: 1000 or 1024

    The prefix is chosen before rounding, so 999,999 is `1000.00 K`; negative values, inf and nan
    have no prefix. From 1000 P, where `profile_analyze` crashes, the prefix remains P.
    """
    if value is None:
        return "N/A", units[0]
    step = 0
    while math.isfinite(value) and value >= base and step < len(PREFIXES) - 1:
        value /= base
        step += 1
    return f"{value:.2f}", PREFIXES[step] + units[step > 0]
