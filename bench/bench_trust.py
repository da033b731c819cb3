"""Measure the error rates of the statistics on series whose truth is known, and on recorded pairs.

`python -m bench.bench_trust [--series 10000] [--seed 1]` simulates paired comparisons with heavy
tails, autocorrelation, drift, two modes and bursts, with planted differences of 0 to 5 %: how often
each verdict is given, after how many pairs, and how often intervals contain the truth. Then the
steady state, modes and the interval of single results.

A planted difference shifts all values of a series and the bounds of its intervals by the same
logarithm, so the intervals of a series serve all planted differences.
"""

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from agent.device.disturbance import PAIR_WAITED_PERCENT, DisturbanceCode
from agent.statistics.paired import (
    INTERVAL_ERROR,
    MARGIN,
    PAIRED_VERDICTS,
    Look,
    compare_operators,
    decide,
    log_ratio_of_pair,
    look_levels,
    next_look,
    operator_pairs,
)
from agent.statistics.processes import median_interval
from agent.statistics.ranks import signed_rank_interval
from agent.statistics.significance import student_quantile
from agent.statistics.steadiness import modes, steadiness
from agent.statistics.tests.series import PAIR_KINDS, PairKind, iterations, pair_values
from bench.record_pairs import read
from testdata import DATA

Floats = NDArray[np.float64]
PLANTED = (0.0, 0.005, 0.01, 0.02, 0.05)
#: numbers of pairs at which plain intervals are checked without any look before
FIXED = (12, 24, 48)
#: (scatter of pairs, planned pairs): 60 s, and 5 minutes, at 1.2 s a pair
SETTINGS = ((0.007, 50), (0.016, 50), (0.026, 250))
#: operators, share of the planted one, and scatter of an operator in a pair
OPERATORS, PLANTED_SHARE, OPERATOR_SCATTERS = 98, 0.03, (0.02, 0.05, 0.1, 0.15, 0.2)
#: most series that are simulated at once, because of their turns
_AT_ONCE = 1000
#: fewest recorded pairs that are resampled
LEAST_RECORDED = 40
#: limits: false verdicts of different, coverage at fixed numbers and after stopping
MOST_FALSE, LEAST_FIXED, MOST_FIXED, LEAST_STOPPED = 0.01, 0.93, 0.97, 0.93


@dataclass(frozen=True, eq=False)
class Looks:
    """The bounds of all series at each look, without a planted difference.

    pairs: (k,) pairs of each look
    low, high: (k, 4, m) bounds of the intervals of `look_levels`, and of the plain 95 % interval
    """

    pairs: NDArray[np.int64]
    low: Floats
    high: Floats


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10_000, help="of each kind (default: 10000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recorded", type=Path, default=DATA / "pairs" / "equal.jsonl")
    arguments = parser.parse_args()
    rng, begun = np.random.default_rng(arguments.seed), time.monotonic()
    missed: list[str] = []
    series: int = arguments.series
    for scatter, planned in SETTINGS:
        print(f"\n{series} series, scatter {scatter:.1%}, at most {planned} pairs")
        rows = []
        for kind in PAIR_KINDS:
            parts = [
                pair_values(kind, rng, min(_AT_ONCE, series - start), planned, scatter)
                for start in range(0, series, _AT_ONCE)
            ]
            values = np.concatenate(parts, axis=1)
            rows += paired_rows(kind, values, planned, missed)
        print(tabulate(rows, headers="keys", floatfmt=".2f"))
    for name, values in recorded(arguments.recorded):
        scatter = 1.4826 * float(np.median(np.abs(values)))
        print(f"\n{series} series of pairs recorded with {name}, scatter {scatter:.2%}")
        rows = []
        for _, planned in SETTINGS[1:]:
            # the arms are equal models, so either may be the first
            drawn = rng.choice(values, (planned, series)) * rng.choice((-1, 1), (planned, series))
            rows += paired_rows("recorded", drawn, planned, missed)
        print(tabulate(rows, headers="keys", floatfmt=".2f"))
    print("\nOne result: steady state and modes, % of series")
    print(tabulate(list(single_rows(rng, series // 10)), headers="keys", floatfmt=".1f"))
    print("\nIntervals of the median over processes: % that contain the truth, relative width")
    print(tabulate(list(process_rows(rng, series // 20)), headers="keys", floatfmt=".2f"))
    print("\nOperators: one of 3 % of the time made a sixth slower; % of series")
    print(tabulate(list(operator_rows(rng, series // 5)), headers="keys", floatfmt=".1f"))
    print(f"\n{time.monotonic() - begun:.0f} s, seed {arguments.seed}")
    for line in missed:
        print(f"missed: {line}")
    return int(bool(missed))


def recorded(path: Path) -> Iterator[tuple[str, Floats]]:
    """Yield the log ratios of undisturbed pairs of each model and hour (`bench.record_pairs`)."""
    pairs: defaultdict[str, list[float]] = defaultdict(list)
    for row in read(path):
        # by the present limit of waiting, not by that at the time of the recording
        waited = 100 * row["waited_ms"] / row["elapsed_ms"] > PAIR_WAITED_PERCENT
        if not waited and not set(row["disturbances"]) - {DisturbanceCode.WAITED}:
            times = [
                [ms for arm, ms in zip(row["order"], row["ms"], strict=True) if arm == number]
                for number in (0, 1)
            ]
            pairs[f"{row['model']}, {row['hour']} hour"].append(log_ratio_of_pair(*times))
    for name, values in pairs.items():
        if len(values) >= LEAST_RECORDED:
            yield name, np.array(values)


def paired_rows(
    kind: PairKind | Literal["recorded"], values: Floats, planned: int, missed: list[str]
) -> Iterator[dict[str, object]]:
    """Yield one row for each planted difference; add the goals that were not reached."""
    looks = all_looks(values, planned)
    fixed = {n: _coverage(signed_rank_interval(values[:n], [INTERVAL_ERROR])) for n in FIXED}
    for planted in PLANTED:
        shift = math.log1p(planted)
        verdicts = np.stack(
            [
                decide(low[:2] + shift, high[:2] + shift, MARGIN)
                for low, high in zip(looks.low, looks.high, strict=True)
            ]
        )
        decided = verdicts > 0
        last = np.where(decided.any(axis=0), decided.argmax(axis=0), len(verdicts) - 1)
        series = np.arange(values.shape[1])
        codes = verdicts[last, series]
        share = {
            word: float((codes == number).mean()) for number, word in enumerate(PAIRED_VERDICTS)
        }
        # the truth is a shift of 0 here, too
        inside = (looks.low <= 0) & (looks.high >= 0)
        stopped = {name: float(inside[last, row, series].mean()) for name, row in _REPORTED.items()}
        row: dict[str, object] = {"kind": kind, "planted %": 100 * planted}
        row |= {f"{word.replace('_', ' ')} %": 100 * share[word] for word in share}
        row |= {"pairs": float(looks.pairs[last].mean())}
        row |= {f"{name} %": 100 * inside for name, inside in stopped.items()}
        if not planted:
            row |= {f"fixed {n} %": 100 * inside for n, inside in fixed.items()}
        yield row
        if kind != "dependent":
            missed += _missed(f"{kind}, planned {planned}", planted, share, stopped, fixed)


#: intervals after stopping -> row of the bounds
_REPORTED = {"stopped": 2, "stopped, plain": 3}


def all_looks(values: Floats, planned: int) -> Looks:
    """Return the bounds at all looks of a comparison that is never stopped."""
    looks, bounds = list[Look](), list[tuple[Floats, Floats]]()
    while not looks or looks[-1].pairs < planned:
        looks.append(Look(next_look(looks[-1].pairs if looks else 0, planned), planned))
        levels = (*look_levels(tuple(looks)), INTERVAL_ERROR)
        bounds.append(signed_rank_interval(values[: looks[-1].pairs], levels)[1:])
    return Looks(
        pairs=np.array([look.pairs for look in looks]),
        low=np.stack([low for low, _ in bounds]),
        high=np.stack([high for _, high in bounds]),
    )


def _coverage(interval: tuple[Floats, Floats, Floats]) -> float:
    _, low, high = interval
    return float(((low[0] <= 0) & (high[0] >= 0)).mean())


def _missed(
    name: str,
    planted: float,
    share: dict[str, float],
    stopped: dict[str, float],
    fixed: dict[int, float],
) -> Iterator[str]:
    different = share["faster"] + share["slower"]
    if not planted and different > MOST_FALSE:
        yield f"{name}: {different:.2%} of equal pairs called different"
    if stopped["stopped"] < LEAST_STOPPED:
        yield f"{name}, {planted:.1%}: {stopped['stopped']:.1%} of intervals after stopping"
    for n, inside in {} if planted else fixed.items():
        if not LEAST_FIXED <= inside <= MOST_FIXED:
            yield f"{name}: {inside:.1%} of intervals of {n} pairs"


def single_rows(rng: np.random.Generator, series: int) -> Iterator[dict[str, object]]:
    """Yield the rates of the steady state and of modes, for three shapes of iterations."""
    for n in (20, 100, 1000):
        for name, tails, correlation in (
            ("normal", False, 0.0),
            ("heavy tails", True, 0.0),
            ("autocorrelated", False, 0.8),
        ):
            times = iterations(rng, series, n, 0.02, tails=tails, correlation=correlation)
            slow = rng.random((series, n)) < 0.3
            late, first = times.copy(), max(4, n // 10)
            late[:, :first] *= 1.3
            drifting = times * np.exp(np.linspace(0, 0.2, n))
            two_speeds = times * (1 + 0.25 * slow)
            yield {
                "iterations": n,
                "shape": name,
                "start-up where none is": _share(_start(row) not in (0, n) for row in times),
                "never steady, wrongly": _share(_start(row) == n for row in times),
                "start-up found +-1": _share(abs(_start(row) - first) <= 1 for row in late),
                "drift of 20 % never steady": _share(_start(row) == n for row in drifting),
                "two modes where one is": _share(len(modes(row)) > 1 for row in times),
                "two modes found": _share(len(modes(row)) == 2 for row in two_speeds),
            }


def _start(times_ms: Floats) -> int:
    state = steadiness(times_ms)
    return -1 if state is None else state.start


def _share(events: Iterator[bool]) -> float:
    return 100 * float(np.mean(list(events)))


def process_rows(rng: np.random.Generator, series: int) -> Iterator[dict[str, object]]:
    """Yield coverage and width of our interval, of Student's t, and of a hierarchical bootstrap.

    Processes differ by 2 %, and 50 iterations of a process by 3 % around its median.
    """
    for processes in (3, 5, 6, 10, 20):
        for shape in ("normal", "heavy tails", "one in ten slow"):
            bias = 0.02 * _of_shape(rng, shape, (series, processes))
            logs = bias[..., None] + 0.03 * rng.normal(size=(series, processes, 50))
            medians = np.median(logs, axis=-1)
            # the quantity: the median of all processes' medians, 0 for symmetric ones
            truth = float(np.median(0.02 * _of_shape(rng, shape, (400_000,))))
            ours = [median_interval(np.exp(row).tolist()) for row in medians]
            bounds = np.array([(math.log(x.low_ms), math.log(x.high_ms)) for x in ours if x])
            yield {
                "processes": processes,
                "shape": shape,
                **_judged("ours", bounds, truth),
                **_judged("t", _student(medians), truth),
                **_judged("bootstrap", _bootstrap(rng, logs), truth),
            }


def operator_rows(rng: np.random.Generator, series: int) -> Iterator[dict[str, object]]:
    """Yield one row for each scatter of an operator in a pair, in as many pairs as are needed."""
    pairs = operator_pairs(OPERATORS)
    shares = np.full(OPERATORS, (1 - PLANTED_SHARE) / (OPERATORS - 1))
    shares[0] = PLANTED_SHARE
    for scatter in OPERATOR_SCATTERS:
        first = others = equal = 0
        for _ in range(series):
            ratios = scatter * rng.standard_normal((pairs, OPERATORS))
            equal += bool(compare_operators(ratios).is_different.any())
            ratios[:, 0] += math.log(7 / 6)
            compared = compare_operators(ratios)
            deltas = np.where(compared.is_different, np.abs(compared.effect) * shares, 0.0)
            first += bool(compared.is_different[0] and deltas.argmax() == 0)
            others += bool(compared.is_different[1:].any())
        yield {
            "scatter": f"{scatter:.0%}",
            "pairs": pairs,
            "planted named first": 100 * first / series,
            "others called different": 100 * others / series,
            "equal arms: any called different": 100 * equal / series,
        }


def _of_shape(rng: np.random.Generator, shape: str, size: tuple[int, ...]) -> Floats:
    if shape == "heavy tails":
        return np.asarray(rng.standard_t(2, size=size))
    slow = 5.0 * (rng.random(size) < 0.1) if shape == "one in ten slow" else 0.0
    return np.asarray(rng.normal(size=size) + slow)


def _judged(name: str, bounds: Floats, truth: float) -> dict[str, object]:
    inside = (bounds[:, 0] <= truth) & (bounds[:, 1] >= truth)
    return {
        f"{name} %": 100 * float(inside.mean()),
        f"{name}, width %": 100 * float(np.median(bounds[:, 1] - bounds[:, 0])),
    }


def _student(medians: Floats) -> Floats:
    n = medians.shape[1]
    reach = student_quantile(0.05, n - 1) * medians.std(axis=1, ddof=1) / math.sqrt(n)
    return np.stack([medians.mean(axis=1) - reach, medians.mean(axis=1) + reach], axis=1)


def _bootstrap(rng: np.random.Generator, logs: Floats, times: int = 200) -> Floats:
    """Return percentile intervals of the median of medians (Kalibera and Jones 2013)."""
    series, processes, n = logs.shape
    results = np.empty((times, series))
    rows = np.arange(series)[:, None, None]
    for number in range(times):
        chosen = rng.integers(processes, size=(series, processes, 1))
        inner = rng.integers(n, size=(series, processes, n))
        results[number] = np.median(np.median(logs[rows, chosen, inner], axis=-1), axis=-1)
    return np.percentile(results, (2.5, 97.5), axis=0).T


if __name__ == "__main__":
    raise SystemExit(main())
