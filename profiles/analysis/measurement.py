"""Statistics of an attempt's measurement: latency, its variation, and the overhead of profiling.

Times of iterations are those that load_and_run reports, in ms (`agent.protocol.measurement`).
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent.protocol.measurement import Disturbance, Measurement, PassRecord, used_records
from agent.statistics.processes import median_interval
from agent.statistics.steadiness import modes, steadiness
from agent.statistics.summaries import latency
from profiles.presenters.described import means, unknown

Times = NDArray[np.float64]
#: longest plausible time (11 days); longer and negative times are left out
LONGEST_MS = 1e9
#: largest plausible memory of a run
LARGEST_BYTES = 1 << 50
#: number of bins of a histogram
FEWEST_BINS, MOST_BINS = 5, 60
#: interquartile ranges above the third quartile; values beyond this are outliers by any rule
REACH = 3.0
#: the option with the number of copies of the model, whose iterations are interleaved in the log
_COPIES = re.compile(r" --thread[= ]([1-9][0-9]{0,3})(?: |$)")


@dataclass(frozen=True)
class Histogram:
    """Histogram of the iterations; the last bin includes its upper limit."""

    edges_ms: Annotated[
        tuple[float, ...], unknown("Limits of the bins, one more than there are bins, ms.")
    ]
    counts: Annotated[tuple[int, ...], means("Iterations in each bin.")]
    above: Annotated[int, means("Iterations beyond the last limit.")]


@dataclass(frozen=True)
class SteadyState:
    """Whether the clean passes reach a steady state (`agent.statistics.steadiness`)."""

    is_steady: Annotated[bool, means("Whether each clean pass reaches a steady state.")]
    start: Annotated[
        int,
        means(
            "Iterations of a pass before it, of each copy of the model, the most of all passes; "
            "without a steady state, 0."
        ),
    ]
    median_ms: Annotated[
        float | None,
        unknown("Median of the iterations from there on, ms; without a steady state."),
    ]


@dataclass(frozen=True)
class UsedPasses:
    """The kept passes of which figures are computed, and what disturbed them.

    used: their numbers, as `used_records` chooses them
    left_out: the profiles of kept passes that are not used
    disturbances: disturbances of the whole run, then of the used passes, one of each kind
    """

    used: frozenset[int]
    left_out: frozenset[str]
    disturbances: tuple[Disturbance, ...]


def used_passes(measurement: Measurement) -> UsedPasses:
    """Choose the passes of a measurement of which figures are computed."""
    used = used_records(measurement.passes)
    numbers = frozenset(record.number for record in used)
    found = [*measurement.disturbances, *(item for row in used for item in row.disturbances)]
    return UsedPasses(
        used=numbers,
        left_out=frozenset(
            record.profile
            for record in measurement.passes
            if record.kept and record.profile and record.number not in numbers
        ),
        disturbances=tuple({item.code: item for item in reversed(found)}.values())[::-1],
    )


def figures(measurement: Measurement) -> dict[str, Any]:
    """Return the statistics of a measurement, by the names of the fields of `AttemptMeasurement`.

    They are of the passes that `used_passes` chooses. The latency is of the iterations without
    profiling; its fields are missing if no clean pass was kept. `start_s` and `load_ms` are of the
    first of these passes that reports them. Rows of passes have the median over their own
    iterations, and the last iteration, which is the one that a profile holds.
    """
    used = used_passes(measurement).used
    kept = [record for record in measurement.passes if record.number in used]
    timed = [record for record in kept if record.kind in ("clean", "profiled")]
    clean, profiled = times_of(kept, "clean"), times_of(kept, "profiled")
    bins = histogram(clean)
    statistics = latency(clean)
    return {
        **(asdict(statistics) if statistics else {}),
        "histogram": asdict(bins) if bins else {},
        **_steady_figures([record for record in kept if record.kind == "clean"]),
        "profiled_iterations": len(profiled),
        "profiled_median_ms": _median(profiled),
        "overhead": overhead(clean, profiled),
        "start_s": _first(_possible(record.start_s, LONGEST_MS / 1000) for record in timed),
        "load_ms": _first(_possible(record.load_ms, LONGEST_MS) for record in timed),
        "passes": [_row(record, is_used=record.number in used) for record in measurement.passes],
    }


def _steady_figures(passes: Sequence[PassRecord]) -> dict[str, Any]:
    """Return the steady state, modes and interval of the clean passes; empty ones if unknown.

    Modes are those of the iterations in the steady state, or of all if there is none.
    """
    times = [_plausible(record.e2e_ms) for record in passes]
    states = [steadiness(own) for own in times]
    known = [state for state in states if state is not None]
    state, steady = None, times
    if known and len(known) == len(states):
        is_steady = all(state.is_steady for state in known)
        if is_steady:
            steady = [own[state.start :] for own, state in zip(times, known, strict=True)]
        state = SteadyState(
            is_steady=is_steady,
            start=max(
                _rounds(state.start, record) for state, record in zip(known, passes, strict=True)
            )
            if is_steady
            else 0,
            median_ms=_median(np.concatenate(steady)) if is_steady else None,
        )
    interval = median_interval([float(np.median(own)) for own in times if own.size])
    return {
        "steady_state": asdict(state) if state else {},
        "modes": [asdict(mode) for mode in modes(np.concatenate(steady))] if steady else [],
        "interval": asdict(interval) if interval else {},
    }


def _rounds(iterations: int, record: PassRecord) -> int:
    """Return the iterations of each copy of the model among those of all (option `thread`)."""
    copies = _COPIES.search(" ".join(record.argv))
    return math.ceil(iterations / int(copies[1])) if copies else iterations


def times_of(passes: Iterable[PassRecord], kind: str) -> Times:
    """Return (n,) float64, ms, the times of all iterations of the passes of this kind.

    Implausible times (negative, not finite, over LONGEST_MS) are left out.
    """
    return _plausible([time for record in passes if record.kind == kind for time in record.e2e_ms])


def overhead(clean_ms: ArrayLike, profiled_ms: ArrayLike) -> float | None:
    """Return the overhead of profiling: median of profiled iterations / median of clean ones - 1.

    clean_ms, profiled_ms: (n,), (m,) finite, ms

    0.05 means 5 % slower; a small negative value is noise. None if either side has no iterations.
    """
    clean, profiled = _median(clean_ms), _median(profiled_ms)
    if clean is None or profiled is None or clean <= 0:
        return None
    cost = profiled / clean - 1
    return cost if math.isfinite(cost) else None


def _row(record: PassRecord, *, is_used: bool) -> dict[str, Any]:
    times = _plausible(record.e2e_ms)
    return {
        "number": record.number,
        "kind": record.kind,
        "kept": record.kept,
        "iterations": times.size,
        "median_ms": _median(times),
        "last_ms": _possible(record.e2e_ms[-1], LONGEST_MS) if record.e2e_ms else None,
        "exit_code": record.exit_code,
        "run_s": _possible(record.run_s, LONGEST_MS / 1000),
        "profile": record.profile,
        "used": is_used,
        "waited": _share(record.waited_ms, record.watched_ms),
        "waited_in_all": _share(record.whole_waited_ms, record.whole_ms),
        "disturbed_by": [item.code for item in record.disturbances],
        "host_memory_bytes": _possible(record.host_memory_bytes, LARGEST_BYTES),
        "memory_method": record.memory_method,
        "gpu_memory_bytes": _possible(record.gpu_memory_bytes, LARGEST_BYTES),
    }


def _share(part_ms: float | None, whole_ms: float | None) -> float | None:
    part_ms, whole_ms = _possible(part_ms, LONGEST_MS), _possible(whole_ms, LONGEST_MS)
    return None if part_ms is None or not whole_ms else part_ms / whole_ms


def _plausible(times_ms: Sequence[float]) -> Times:
    times = np.array(times_ms, dtype=np.float64)
    return times[(times >= 0) & (times <= LONGEST_MS)]


def _possible(value: float | None, limit: float) -> float | None:
    return value if value is not None and 0 <= value <= limit else None


def _median(times_ms: ArrayLike) -> float | None:
    times = np.asarray(times_ms, dtype=np.float64)
    return float(np.median(times)) if times.size else None


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def histogram(times_ms: ArrayLike) -> Histogram | None:
    """Return the histogram of iterations; None without iterations, or if all are equal.

    times_ms: (n,) finite, ms

    It is useful for 20 iterations and for 20,000: the bin width follows the Freedman-Diaconis rule
    (2 x interquartile range / cube root of n), with 5 to 60 bins. A few very slow iterations would
    put all others into one bin, so the bins end at the 99th percentile, or at the last iteration
    within three interquartile ranges above the third quartile if that is later. Iterations beyond
    this are only counted.
    """
    times = np.asarray(times_ms, dtype=np.float64)
    if not times.size:
        return None
    first, third, p99 = np.percentile(times, (25, 75, 99)).tolist()
    low = float(times.min())
    reach = max(p99, third + REACH * (third - first))
    high = max(p99, float(times[times <= reach].max()))
    edges = np.linspace(low, high, _bins(times.size, third - first, high - low) + 1)
    if not (np.diff(edges) > 0).all():
        return None
    # float64 rounds the last edge, and the largest time must remain in the last bin
    edges[-1] = high
    counts, _ = np.histogram(times, edges)
    return Histogram(
        edges_ms=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        above=int((times > high).sum()),
    )


def _bins(iterations: int, quartiles_ms: float, range_ms: float) -> int:
    width = 2 * quartiles_ms / math.cbrt(iterations)
    count = range_ms / width if width > 0 else math.inf
    return int(min(max(math.ceil(min(count, MOST_BINS)), FEWEST_BINS), MOST_BINS))
