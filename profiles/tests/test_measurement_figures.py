"""Figures of a measurement, compared with values computed by hand."""

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


def test_nan_and_infinite_times_are_left_out():
    record = make_pass(1, "clean", 1.0, float("nan"), float("inf"), 3.0)
    assert figures(Measurement(plan=Plan(), passes=(record,)))["iterations"] == 2
