"""Figures of a measurement, compared with values computed by hand."""

import numpy as np
import pytest

from agent.protocol.measurement import Measurement, PassRecord
from agent.protocol.plan import Plan
from agent.statistics.summaries import latency, variation
from profiles.analysis.measurement import figures, overhead


def make_pass(number: int, kind: str, *times: float, **more) -> PassRecord:
    return PassRecord(number=number, kind=kind, e2e_ms=times, **more)


def test_latency_has_mean_median_percentiles_and_cv():
    result = latency([4.0, 1.0, 3.0, 2.0, 10.0])
    assert (result.iterations, result.median_ms, result.mean_ms) == (5, 3.0, 4.0)
    assert (result.min_ms, result.max_ms) == (1.0, 10.0)
    assert result.p90_ms == pytest.approx(4 + 0.6 * 6)
    assert result.p99_ms == pytest.approx(4 + 0.96 * 6)
    # sqrt((0 + 9 + 1 + 4 + 36) / 4) / 4
    assert result.cv == pytest.approx(12.5**0.5 / 4)


def test_no_iterations_have_no_latency_and_one_iteration_has_no_cv():
    assert latency([]) is None
    assert latency([2.0]).cv is None
    assert variation([0.0, 0.0]) is None


def test_overhead_compares_medians_and_is_none_without_both():
    assert overhead([10.0, 10.0, 90.0], [10.5]) == pytest.approx(0.05)
    assert overhead([], [1.0]) is None
    assert overhead([1.0], []) is None
    assert overhead([0.0], [1.0]) is None


def test_figures_exclude_trial_passes():
    result = figures(
        Measurement(
            plan=Plan(clean=True),
            passes=(
                make_pass(1, "clean", 100.0, kept=False, start_s=9.0),
                make_pass(2, "clean", 10.0, 12.0, start_s=0.5, load_ms=25.0),
                make_pass(3, "profiled", 11.0, 13.2, start_s=0.6),
                make_pass(4, "profiled", 12.1),
                make_pass(5, "dump", 500.0),
            ),
        )
    )
    assert (result["iterations"], result["median_ms"]) == (2, 11.0)
    assert (result["profiled_iterations"], result["profiled_median_ms"]) == (3, 12.1)
    assert result["overhead"] == pytest.approx(0.1)
    assert (result["start_s"], result["load_ms"]) == (0.5, 25.0)
    assert [row["median_ms"] for row in result["passes"]] == [100.0, 11.0, 12.1, 12.1, 500.0]


def slow_start(seed: int, start: int = 14, n: int = 100) -> list[float]:
    """Return iterations of 10 ms, of which the first are slower."""
    times = 10 * np.exp(np.random.default_rng(seed).normal(0, 0.005, n))
    times[:start] *= 1.5
    return times.tolist()


def test_the_steady_state_is_told_and_the_median_stays_that_of_all_iterations():
    times = slow_start(1)
    result = figures(Measurement(plan=Plan(clean=True), passes=(make_pass(1, "clean", *times),)))
    assert result["steady_state"]["is_steady"]
    assert result["steady_state"]["start"] == pytest.approx(14, abs=1)
    assert result["median_ms"] == pytest.approx(np.median(times))
    assert result["steady_state"]["median_ms"] == pytest.approx(np.median(times[14:]), rel=1e-3)
    assert [mode["share"] for mode in result["modes"]] == [1.0]
    assert result["interval"] == {}


def test_the_steady_state_of_several_copies_is_told_in_iterations_of_each():
    """The log has the iterations of all copies, in the order in which they end."""
    times = np.repeat(slow_start(1), 4)
    argv = ("load_and_run", "model.mge", "--iter=100", "--thread=4")
    record = make_pass(1, "clean", *times, argv=argv)
    result = figures(Measurement(plan=Plan(clean=True), passes=(record,)))
    assert result["steady_state"]["start"] == pytest.approx(14, abs=1)


def test_a_pass_that_drifts_is_never_steady():
    times = np.linspace(10, 15, 200) * np.exp(np.random.default_rng(2).normal(0, 0.002, 200))
    result = figures(Measurement(plan=Plan(clean=True), passes=(make_pass(1, "clean", *times),)))
    assert result["steady_state"] == {"is_steady": False, "start": 0, "median_ms": None}


def test_several_clean_passes_have_an_interval_and_the_latest_steady_start():
    passes = tuple(make_pass(n, "clean", *slow_start(n, start=4 * n)) for n in range(1, 5))
    result = figures(Measurement(plan=Plan(clean=True), passes=passes))
    assert result["steady_state"]["start"] == pytest.approx(16, abs=1)
    interval = result["interval"]
    assert interval["processes"] == 4
    assert interval["low_ms"] < 10 < interval["high_ms"] < 11


def test_few_iterations_have_no_steady_state():
    result = figures(Measurement(plan=Plan(), passes=(make_pass(1, "clean", 1.0, 2.0),)))
    assert (result["steady_state"], result["modes"]) == ({}, [])
    without = figures(Measurement(plan=Plan(), passes=()))
    assert (without["steady_state"], without["modes"], without["interval"]) == ({}, [], {})


def test_nan_and_infinite_times_are_left_out():
    record = make_pass(1, "clean", 1.0, float("nan"), float("inf"), 3.0)
    assert figures(Measurement(plan=Plan(), passes=(record,)))["iterations"] == 2
