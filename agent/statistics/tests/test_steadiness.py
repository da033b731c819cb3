"""Steady state, modes and the interval of the median of one result."""

import numpy as np
import pytest
import scipy

from agent.statistics.processes import median_interval
from agent.statistics.steadiness import change_points, modes, steadiness
from agent.statistics.tests.series import iterations

RNG = np.random.default_rng
SHAPES = [(False, 0.0), (True, 0.0), (False, 0.8)]


@pytest.mark.parametrize(("tails", "correlation"), SHAPES)
@pytest.mark.parametrize("n", [20, 200])
def test_a_steady_process_is_steady_from_its_first_iteration(n, tails, correlation):
    times = iterations(RNG(1), 150, n, 0.02, tails=tails, correlation=correlation)
    from_first = [state.is_steady and state.start == 0 for state in map(steadiness, times)]
    assert np.mean(from_first) >= 0.95


@pytest.mark.parametrize(("tails", "correlation"), SHAPES)
def test_slow_first_iterations_are_found(tails, correlation):
    times = iterations(RNG(2), 100, 200, 0.02, tails=tails, correlation=correlation)
    times[:, :14] *= 1.5
    found = [steadiness(row) for row in times]
    assert np.mean([state.is_steady and abs(state.start - 14) <= 1 for state in found]) >= 0.95


def test_one_slow_iteration_is_no_start_up():
    times = iterations(RNG(3), 1, 100, 0.01, tails=False, correlation=0)[0]
    times[0] *= 20
    times[50] *= 20
    assert steadiness(times).start == 0


def test_a_process_that_drifts_is_never_steady():
    times = iterations(RNG(4), 50, 400, 0.01, tails=False, correlation=0.5)
    times *= np.exp(np.linspace(0, 0.2, 400))
    assert np.mean([not steadiness(row).is_steady for row in times]) >= 0.95


def test_a_burst_of_other_work_does_not_end_the_steady_state():
    times = iterations(RNG(5), 1, 300, 0.01, tails=False, correlation=0)[0]
    times[150:170] *= 1.4
    assert steadiness(times).is_steady
    times[150:280] *= 1.4
    assert not steadiness(times).is_steady


def test_few_or_equal_iterations_are_judged_without_an_error():
    assert steadiness([1.0] * 9) is None
    assert steadiness([1.0] * 50).start == 0
    assert steadiness([0.0] * 50).start == 0
    assert modes([1.0] * 29) == ()
    (only,) = modes([1.0] * 100)
    assert only.share == 1
    assert only.median_ms == pytest.approx(1)
    assert change_points(np.ones(3)) == [0]


def test_segments_start_where_the_mean_changes():
    values = RNG(6).normal(size=300)
    values[100:] += 4
    values[200:] += 4
    assert change_points(values) == pytest.approx([0, 100, 200], abs=2)


def test_two_modes_have_their_times_and_shares():
    rng = RNG(7)
    slow = rng.random(500) < 0.3
    times = np.where(slow, 12.9, 10.2) * np.exp(rng.normal(0, 0.01, 500))
    fast_mode, slow_mode = modes(times)
    assert fast_mode.median_ms == pytest.approx(10.2, rel=0.01)
    assert slow_mode.median_ms == pytest.approx(12.9, rel=0.01)
    assert fast_mode.share == pytest.approx(1 - slow.mean(), abs=0.01)
    assert fast_mode.share + slow_mode.share == pytest.approx(1)


@pytest.mark.parametrize(("tails", "correlation"), SHAPES)
def test_one_mode_is_not_taken_for_two(tails, correlation):
    times = iterations(RNG(8), 200, 200, 0.05, tails=tails, correlation=correlation)
    assert np.mean([len(modes(row)) > 1 for row in times]) <= 0.02


def test_the_resolution_of_the_clock_makes_no_modes():
    times_us = RNG(9).integers(7, 10, size=500)
    assert len(modes(times_us / 1000)) == 1


def test_the_interval_of_few_processes_is_students():
    medians = np.array([10.1, 10.3, 9.9, 10.2])
    interval = median_interval(medians.tolist())
    logs = np.log(medians)
    low, high = scipy.stats.t.interval(0.95, 3, loc=logs.mean(), scale=scipy.stats.sem(logs))
    assert (interval.low_ms, interval.high_ms) == pytest.approx((np.exp(low), np.exp(high)))
    assert interval.processes == 4
    assert median_interval([10.0]) is None
    assert median_interval([0.0, 10.0]) is None


def test_processes_that_differ_beyond_measure_have_no_interval():
    # on a device whose cores were busy: "95 % interval < 0.001 ms to 21024312425005379584 ms"
    assert median_interval([0.0093, 13.9]) is None
    assert median_interval([0.009, 7.6, 0.01]) is None
    interval = median_interval([10.0, 10.5])
    assert interval is not None
    assert 7 < interval.low_ms < interval.high_ms < 15


@pytest.mark.parametrize("processes", [2, 5, 6, 9, 12])
def test_the_interval_contains_the_median_of_all_processes(processes):
    logs = RNG(processes).normal(0, 0.02, size=(1500, processes))
    intervals = [median_interval(np.exp(row).tolist()) for row in logs]
    inside = np.mean([each.low_ms <= 1 <= each.high_ms for each in intervals])
    assert 0.935 <= inside <= 0.985
