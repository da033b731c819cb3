"""Verdicts on differences: compared with scipy, on simulated devices, and with few samples."""

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from agent.statistics.ranks import least_p, shift_interval
from agent.statistics.significance import benjamini_hochberg, student_p, student_quantile
from agent.statistics.unpaired import (
    LEAST_DOF,
    VERDICTS,
    Basis,
    Scatter,
    judge_rows,
    judge_total,
    logarithms,
    scatter_of,
)
from profiles.comparison import messages

STEADY = Scatter(sd=0.005, dof=19, largest=0.015)
BASIS = Basis(STEADY, STEADY)


def verdicts(result):
    return [VERDICTS[code] for code in result.verdict]


def rows(base, other, *, worth=None, basis=BASIS):
    base, other = np.asarray(base, float), np.asarray(other, float)
    worth = np.ones(base.shape[1], bool) if worth is None else np.asarray(worth)
    # nanmedian takes as long as the verdicts
    median = np.nanmedian if np.isnan(base).any() or np.isnan(other).any() else np.median
    ratios = median(other, axis=0) / median(base, axis=0)
    return judge_rows(base, other, worth=worth, displayed=ratios, basis=basis)


def total(base, other, *, basis=BASIS):
    base, other = np.asarray(base, float), np.asarray(other, float)
    ratio = float(np.median(other) / np.median(base))
    return judge_total(base, other, displayed=ratio, basis=basis)


@pytest.mark.parametrize("dof", [1, 2, 3, 8, 13, 42])
def test_student_p_and_quantile_equal_those_of_scipy(dof):
    t = np.linspace(0, 12, 50)
    assert student_p(t, dof) == pytest.approx(2 * scipy.stats.t.sf(t, dof), abs=1e-13)
    assert student_quantile(0.01, dof) == pytest.approx(scipy.stats.t.isf(0.005, dof))


def test_benjamini_hochberg_equals_scipy_and_skips_untested_rows():
    p = np.random.default_rng(1).uniform(size=30) ** 2
    assert benjamini_hochberg(p) == pytest.approx(scipy.stats.false_discovery_control(p))
    gaps = np.array([0.01, np.nan, 0.02])
    assert benjamini_hochberg(gaps) == pytest.approx([0.02, np.nan, 0.02], nan_ok=True)


@pytest.mark.parametrize("n", [4, 5, 8, 20])
def test_the_shift_interval_has_its_nominal_coverage(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=(n, 3000)), rng.normal(0.7, size=(n, 3000))
    middle, low, high = shift_interval(a, b)
    coverage = ((low <= 0.7) & (high >= 0.7)).mean()
    assert 0.935 <= coverage <= 0.99
    assert abs(np.median(middle) - 0.7) < 0.05


def test_intervals_of_ratios_stay_above_minus_100_percent():
    rng = np.random.default_rng(4)
    base, other = (np.exp(rng.normal(0, 3, size=(5, 500))) * 1e-6 for _ in range(2))
    base[0] *= 1e4  # a spike in one pass
    result = rows(base, other)
    assert (result.low > -1).all()
    assert (result.low <= result.change).all()
    assert (result.change <= result.high).all()
    twice = total([10, 10.1, 10.2, 9.9, 10], [20, 20.2, 20.4, 19.8, 20])
    assert twice.change[0] == pytest.approx(1.0)
    assert 0 < twice.low[0] < 1 < twice.high[0]


def test_the_verdict_is_none_if_and_only_if_the_interval_contains_zero():
    rng = np.random.default_rng(8)
    for _ in range(200):
        base, other = rng.lognormal(0, 0.03, 5), rng.lognormal(0.03, 0.03, 5)
        result = total(base, other)
        contains_zero = result.low[0] <= 0 <= result.high[0]
        assert (verdicts(result) == ["none"]) == bool(contains_zero)


@st.composite
def passes_of_two_runs(draw):
    """Draw the passes of some operators in two runs, on a clock of whole microseconds."""
    rows = draw(st.integers(1, 4))
    ticks = st.one_of(st.just(5), st.integers(0, 12), st.integers(0, 10**7))
    run = st.integers(1, 7).flatmap(
        lambda n: st.lists(
            st.lists(st.one_of(ticks, st.none()), min_size=rows, max_size=rows),
            min_size=n,
            max_size=n,
        )
    )
    return [1e-6 * np.array(draw(run), dtype=float) for _ in range(2)]


@given(
    runs=passes_of_two_runs(),
    basis=st.sampled_from([BASIS, Basis(), Basis(disturbed=True), Basis(STEADY, None)]),
)
def test_an_estimate_is_inside_its_interval_and_the_verdict_agrees_with_the_displayed_times(
    runs, basis
):
    base, other = runs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # operators without times
        medians = [np.nanmedian(side, axis=0) for side in runs]
        with np.errstate(divide="ignore", invalid="ignore"):
            displayed = medians[1] / medians[0]
    result = judge_rows(
        base, other, worth=np.ones(base.shape[1], bool), displayed=displayed, basis=basis
    )
    has = ~np.isnan(result.low)
    assert (has == ~np.isnan(result.high)).all()
    assert (result.low < result.change)[has].all()
    assert (result.change < result.high)[has].all()
    counts = [(~np.isnan(side)).sum(axis=0) for side in runs]
    few = np.array([least_p(*pair) > 0.05 for pair in zip(*counts, strict=True)])
    assert not has[few].any()
    for row in np.flatnonzero(has):
        texts = messages.change_texts(result.change[row], result.low[row], result.high[row])
        estimate, low, high = (float(text.replace("\u2212", "-")) for text in texts)
        assert low < estimate < high
    for row, word in enumerate(verdicts(result)):
        assert word != "faster" or displayed[row] < 1
        assert word != "slower" or displayed[row] > 1


def test_a_difference_within_the_scatter_of_equal_runs_gets_no_verdict():
    base, other = [10, 10.01, 10.02, 9.99, 10], [11, 11.01, 11.02, 10.99, 11]
    assert verdicts(total(base, other)) == ["slower"]
    restless = Scatter(sd=0.01, dof=19, largest=0.12)
    for basis in (Basis(restless, STEADY), Basis(STEADY, restless)):
        result = total(base, other, basis=basis)
        assert verdicts(result) == ["none"]
        assert result.low[0] < 0 < result.high[0]


def test_fewer_equal_runs_give_a_larger_allowance():
    few, many = (Basis(s, s) for s in (Scatter(0.01, 4, 0.02), Scatter(0.01, 19, 0.02)))
    assert few.allowance == pytest.approx(scipy.stats.t.isf(0.005, 4) * math.sqrt(2) * 0.01)
    assert few.allowance > many.allowance


def test_without_equal_runs_a_difference_gets_no_verdict():
    for basis in (Basis(), Basis(STEADY, None), Basis(None, STEADY)):
        result = total([10, 11, 10, 11, 10], [20, 21, 20, 21, 20], basis=basis)
        assert verdicts(result) == ["unknown"]
        assert result.change[0] == pytest.approx(1.0, abs=0.1)
        assert result.low[0] < result.change[0] < result.high[0]
        result = rows([[1], [1], [1], [1]], [[9], [9], [9], [9]], basis=basis)
        assert verdicts(result) == ["unknown"]


def test_a_disturbed_run_gets_no_verdict():
    disturbed = Basis(STEADY, STEADY, disturbed=True)
    base = np.full((5, 30), 1e-3)
    assert set(verdicts(rows(base, base * 3, basis=disturbed))) == {"disturbed"}
    assert verdicts(total(base[:, 0], base[:, 0] * 3, basis=disturbed)) == ["disturbed"]
    assert total(base[:, 0], base[:, 0] * 3, basis=disturbed).change[0] == pytest.approx(2)


def test_three_samples_on_each_side_are_too_few():
    assert least_p(3, 3) == pytest.approx(0.1)
    result = rows([[1], [2], [3]], [[11], [12], [13]])
    assert verdicts(result) == ["few"]
    assert np.isnan(result.low[0])


def test_single_samples_and_missing_times_have_their_own_verdicts():
    nan = np.nan
    base = np.array([[1, nan, 1], [nan, nan, 2], [nan, nan, 3], [nan, nan, 4]])
    other = np.array([[1, 1, nan], [2, 2, nan], [3, 3, nan], [4, 4, nan]])
    result = judge_rows(base, other, worth=np.ones(3, bool), displayed=np.full(3, nan), basis=BASIS)
    assert verdicts(result) == ["single", "absent", "absent"]


def test_a_time_missing_in_one_pass_does_not_prevent_a_verdict():
    base = np.array([[1.0, 1], [1.1, 1.1], [1, 1], [1, 1], [1, np.nan]])
    assert verdicts(rows(base, base * 2)) == ["slower", "slower"]


def test_invalid_times_are_ignored_and_zero_is_half_a_clock_tick():
    logs = logarithms(np.array([0.0, -1.0, np.inf, np.nan, 1.0]))
    assert logs == pytest.approx([math.log(5e-7), np.nan, np.nan, np.nan, 0.0], nan_ok=True)
    zeros = np.zeros((5, 1))
    result = judge_rows(
        zeros, zeros, worth=np.ones(1, bool), displayed=np.full(1, np.nan), basis=BASIS
    )
    assert verdicts(result) == ["none"]


def test_one_changed_operator_among_a_hundred_gets_a_verdict():
    rng = np.random.default_rng(5)
    base, other = (rng.lognormal(0, 0.08, size=(5, 100)) * 1e-3 for _ in range(2))
    other[:, 7] *= 2
    words = verdicts(rows(base, other))
    assert words[7] == "slower"
    assert words.count("none") >= 98


def test_operators_that_change_by_different_factors_get_verdicts():
    rng = np.random.default_rng(6)
    base, other = (rng.lognormal(0, 0.05, size=(5, 60)) * 1e-3 for _ in range(2))
    factors = np.linspace(0.2, 0.8, 40)
    other[:, :40] *= factors
    words = verdicts(rows(base, other))
    assert words[:36] == ["faster"] * 36
    assert words[40:].count("none") >= 19


class SimulatedDevice:
    """Simulates runs: passes scatter, a whole run is biased, and single operators have spikes."""

    def __init__(self, seed: int, *, run_sd: float, pass_sd: float, operators: int = 80) -> None:
        self.rng = np.random.default_rng(seed)
        self.run_sd, self.pass_sd = run_sd, pass_sd
        self.times_s = self.rng.lognormal(-9, 1.2, operators)
        #: relative scatter of each operator; short operators scatter more
        self.scatter = 0.05 + 0.3 / np.sqrt(self.times_s / self.times_s.min())

    def run(self, factor: float = 1.0) -> np.ndarray:
        """Return the times of a run, s; shape (5, operators)."""
        n, rng = len(self.times_s), self.rng
        bias = rng.normal(0, self.run_sd) + rng.normal(0, self.run_sd, n)
        passes = rng.normal(0, self.pass_sd, (5, 1)) + rng.normal(0, self.scatter, (5, n))
        spikes = (rng.random((5, n)) < 0.01) * rng.exponential(0.5, (5, n))
        times_s = factor * self.times_s * np.exp(bias + passes + spikes)
        return np.round(times_s * 1e6) / 1e6  # the clock has a resolution of 1 us


def basis_of(runs, others=None):
    scatters = [
        scatter_of([[logarithms(run.sum(axis=1)) for run in group]])
        for group in (runs, others)
        if group is not None
    ]
    return Basis(scatters[0], scatters[-1])


def basis_of_logs(logs):
    scatter = scatter_of([list(logs)])
    return Basis(scatter, scatter)


CALM, RESTLESS = {"run_sd": 0.01, "pass_sd": 0.02}, {"run_sd": 0.03, "pass_sd": 0.05}


@pytest.mark.exhaustive
@pytest.mark.parametrize("scatter", [CALM, RESTLESS])
def test_equal_runs_rarely_get_a_verdict(scatter):
    differing, tested, operators = 0, 0, [0, 0]
    for seed in range(5):
        device = SimulatedDevice(seed, **scatter)
        runs = [device.run() for _ in range(20)]
        basis = basis_of(runs)
        assert basis.base.dof == 19
        differing_pairs = 0
        for a, b in itertools.combinations(runs, 2):
            result = total(a.sum(axis=1), b.sum(axis=1), basis=basis)
            differing_pairs += verdicts(result) != ["none"]
            words = verdicts(rows(a, b, basis=basis))
            operators[0] += len(words) - words.count("none")
            operators[1] += len(words)
        assert differing_pairs <= 2
        differing, tested = differing + differing_pairs, tested + 190
    assert differing / tested <= 0.01
    assert operators[0] / operators[1] <= 1 / 200


@pytest.mark.parametrize("scatter", [CALM, RESTLESS])
def test_equal_runs_outside_the_history_rarely_get_a_verdict(scatter):
    """The compared runs are not part of the history."""
    differing = 0
    for seed in range(300):
        device = SimulatedDevice(seed, **scatter, operators=20)
        basis = basis_of([device.run() for _ in range(8)])
        a, b = device.run(), device.run()
        differing += verdicts(total(a.sum(axis=1), b.sum(axis=1), basis=basis)) != ["none"]
    assert differing / 300 <= 0.01


def test_latencies_of_equal_runs_rarely_get_a_verdict_and_slower_ones_do():
    """One process is one sample, so the scatter of equal runs alone decides."""
    rng = np.random.default_rng(12)
    words, planted = [], []
    for _ in range(400):
        runs = rng.lognormal(0, 0.01, size=(12, 1))
        basis = basis_of_logs(np.log(runs[2:]))
        for factor, found in ((1.0, words), (1.1, planted)):
            other = runs[1] * factor
            ratio = float(other[0] / runs[0, 0])
            result = judge_total(runs[0], other, displayed=ratio, basis=basis, is_latency=True)
            assert result.low[0] < result.change[0] < result.high[0]
            found += verdicts(result)
    assert words.count("none") >= 0.985 * len(words)
    assert planted.count("slower") >= 0.99 * len(planted)
    unknown = judge_total(runs[0], runs[1], displayed=1.0, basis=Basis(), is_latency=True)
    assert verdicts(unknown) == ["unknown"]


def test_a_run_that_is_slower_by_20_percent_gets_a_verdict():
    words = []
    for seed in range(10):
        device = SimulatedDevice(seed, **CALM)
        runs, slower = [device.run() for _ in range(20)], [device.run(1.2) for _ in range(20)]
        basis = basis_of(runs, slower)
        for a, b in zip(runs, slower, strict=True):
            words += verdicts(total(a.sum(axis=1), b.sum(axis=1), basis=basis))
    assert words.count("slower") >= 0.9 * len(words)
    assert "faster" not in words


def test_scatter_needs_enough_equal_runs():
    passes = [np.log(np.full(5, 10.0 + n)) for n in range(LEAST_DOF + 1)]
    assert scatter_of([passes[:-1]]) is None
    assert scatter_of([passes]).dof == LEAST_DOF
    # several groups count together, even if each is too small
    assert scatter_of([passes[:3], passes[:3]]).dof == LEAST_DOF
    assert scatter_of([passes[:1]] * 20) is None
    assert scatter_of([passes]).largest == pytest.approx(math.log(14 / 10))
