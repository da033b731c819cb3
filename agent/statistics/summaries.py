"""Summaries of samples: percentiles, and the coefficient of variation."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Latency:
    """Statistics of n iterations, ms. `cv`: standard deviation (n - 1) / mean, None for a single
    one.

    Percentiles interpolate linearly between the two nearest iterations, as numpy's default does.
    """

    iterations: int
    median_ms: float
    mean_ms: float
    p90_ms: float
    p99_ms: float
    min_ms: float
    max_ms: float
    cv: float | None


def latency(times_ms: ArrayLike) -> Latency | None:
    """Return the statistics of iterations; None if there are none.

    times_ms: (n,) finite, ms
    """
    times = np.asarray(times_ms, dtype=np.float64)
    if not times.size:
        return None
    median, p90, p99 = np.percentile(times, (50, 90, 99)).tolist()
    return Latency(
        iterations=times.size,
        median_ms=median,
        mean_ms=float(times.mean()),
        p90_ms=p90,
        p99_ms=p99,
        min_ms=float(times.min()),
        max_ms=float(times.max()),
        cv=variation(times),
    )


def variation(values: ArrayLike) -> float | None:
    """Return the coefficient of variation: standard deviation with n - 1 / mean (1 is 100 %).

    values: (n,) finite; the result is None for fewer than two, or for a mean that is not positive
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.size < 2 or not 0 < numbers.mean() < math.inf:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        cv = float(numbers.std(ddof=1) / numbers.mean())
    return cv if math.isfinite(cv) else None


def sort_samples(samples: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Sort the samples of each operator: (n, k) samples with nan last, and (n,) their number.

    samples: (k, n)
    """
    ordered = np.sort(np.ascontiguousarray(samples.T), axis=1)
    return ordered, (~np.isnan(ordered)).sum(axis=1, dtype=np.int64)


def percentile(ordered: Floats, known: NDArray[np.int64], share: float) -> Floats:
    """Return (n,) a percentile of sorted samples; without samples, the first one, which is nan."""
    place = np.maximum(known - 1, 0) * share
    low = np.floor(place).astype(np.intp)
    high = np.minimum(low + 1, np.maximum(known - 1, 0))
    rows = np.arange(len(ordered))
    below, above, part = ordered[rows, low], ordered[rows, high], place - low
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf
        step = above - below
        # like numpy, interpolate from the nearer end, so that the last digit is the same
        between = np.where(part < 0.5, below + step * part, above - step * (1 - part))
    return np.where((below == above) | (part == 0), below, between)


def variation_of_columns(samples: Floats, known: NDArray[np.int64]) -> Floats:
    """Return (n,) standard deviation (n - 1) / mean."""
    with np.errstate(all="ignore"):  # nan for too few samples and for a mean of 0 or inf
        mean = np.nansum(samples, axis=0) / known
        squares = np.nansum((samples - mean) ** 2, axis=0)
        cv = np.sqrt(squares / (known - 1)) / mean
        return np.where((known >= 2) & (mean > 0) & (mean < np.inf) & np.isfinite(cv), cv, np.nan)
