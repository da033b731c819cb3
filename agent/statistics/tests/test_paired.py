"""Paired comparison: compared with scipy, on simulated pairs, and with bad input."""

import itertools
import math

import numpy as np
import pytest
import scipy

from agent.statistics.paired import (
    PAIRED_VERDICTS,
    Look,
    compare_operators,
    compare_pairs,
    decide,
    log_ratio_of_pair,
    look_levels,
    next_look,
)
from agent.statistics.ranks import signed_rank_cut, signed_rank_interval, signed_rank_p
from agent.statistics.tests.series import pair_values

RNG = np.random.default_rng


def looks_until(planned):
    """Return the looks of a comparison that is never stopped."""
    looks = [Look(next_look(0, planned), planned)]
    while looks[-1].pairs < planned:
        looks.append(Look(next_look(looks[-1].pairs, planned), planned))
    return looks


def final(values, margin=0.01):
    return compare_pairs(list(values), [Look(len(values), len(values))], margin=margin)


@pytest.mark.parametrize("n", [6, 9, 14, 25])
def test_bounds_are_the_values_that_scipys_signed_rank_test_accepts(n):
    values = RNG(n).normal(size=n)
    _, low, high = signed_rank_interval(values[:, None], [0.05])
    inside, outside = 1e-9, -1e-9
    for bound, sign in ((low[0, 0], 1), (high[0, 0], -1)):
        p = [
            scipy.stats.wilcoxon(values - bound - sign * step, method="exact").pvalue
            for step in (inside, outside)
        ]
        assert p[0] > 0.05
        assert p[1] <= 0.05


@pytest.mark.parametrize("n", [5, 12, 30])
def test_p_of_signed_ranks_equals_that_of_scipy(n):
    values = RNG(n).normal(0.3, 1, size=(n, 20))
    expected = scipy.stats.wilcoxon(values, method="exact").pvalue
    assert signed_rank_p(values) == pytest.approx(expected)
    many = RNG(n).normal(0.05, 1, size=(250, 5))
    expected = scipy.stats.wilcoxon(many, method="asymptotic", correction=True).pvalue
    assert signed_rank_p(many) == pytest.approx(expected)


def test_few_equal_operators_are_called_different_and_changed_ones_are_found():
    values = RNG(11).standard_t(3, size=(24, 200)) * 0.03
    values[:, :10] += 0.15
    values[3, 5] = np.nan
    values[:, 150] = np.nan
    result = compare_operators(values)
    assert result.is_different[:10].all()
    assert result.is_different[10:].sum() <= 2
    assert result.effect[5] == pytest.approx(math.expm1(0.15), abs=0.03)
    assert result.low[5] < result.effect[5] < result.high[5]
    assert np.isnan(result.effect[150])
    assert not compare_operators(values[:4]).is_different.any()


def test_the_estimate_is_the_median_of_all_averages_of_two():
    values = RNG(1).standard_t(2, size=15)
    pairs = itertools.combinations_with_replacement(values, 2)
    middle, _, _ = signed_rank_interval(values[:, None], [])
    assert middle[0] == pytest.approx(np.median([(a + b) / 2 for a, b in pairs]))


def test_exact_and_approximate_bounds_meet():
    exact, approximate = signed_rank_cut(200, 0.05), signed_rank_cut(201, 0.05)
    assert 0 < approximate - exact < 201
    assert [signed_rank_cut(n, 0.05) for n in (5, 6)] == [0, 1]
    assert signed_rank_cut(300, 0.0) == 0


@pytest.mark.parametrize("n", [6, 12, 24])
def test_intervals_contain_the_truth_in_95_of_100_series(n):
    values = RNG(n).standard_t(2, size=(n, 4000))
    _, low, high = signed_rank_interval(values, [0.05])
    assert 0.94 <= ((low[0] <= 0) & (high[0] >= 0)).mean() <= 0.975


@pytest.mark.parametrize("planned", [8, 50, 250])
def test_the_looks_spend_the_whole_error_and_no_more(planned):
    """Signs of pairs without a difference, on the boundaries of each look."""
    looks = looks_until(planned)
    wrong = np.zeros(4000, dtype=bool)
    steps = RNG(2).normal(size=(4000, planned)).cumsum(axis=1)
    for count in range(1, len(looks) + 1):
        level = look_levels(tuple(looks[:count]))[0]
        n = looks[count - 1].pairs
        wrong |= np.abs(steps[:, n - 1]) / math.sqrt(n) > scipy.stats.norm.isf(level / 2)
    assert wrong.mean() == pytest.approx(0.01, abs=0.005)


@pytest.mark.parametrize("kind", ["heavy tails", "drift", "two modes", "bursts"])
def test_equal_programs_are_rarely_called_different_however_often_one_looks(kind):
    values = pair_values(kind, RNG(3), 1000, 40, 0.02)
    looks = looks_until(40)
    different = np.zeros(values.shape[1], dtype=bool)
    for count in range(1, len(looks) + 1):
        levels = look_levels(tuple(looks[:count]))
        _, low, high = signed_rank_interval(values[: looks[count - 1].pairs], levels)
        verdict = decide(low, high, 0.01)
        different |= np.isin(verdict, [PAIRED_VERDICTS.index(w) for w in ("faster", "slower")])
    assert different.mean() <= 0.015


def test_a_difference_is_found_and_has_its_direction():
    values = RNG(4).normal(0.02, 0.01, size=40)
    slower, faster = final(values), final(-values)
    assert (slower.verdict, faster.verdict) == ("slower", "faster")
    assert slower.low < slower.effect < slower.high
    assert slower.effect == pytest.approx(0.02, abs=0.006)
    assert slower.more_pairs == 0
    assert slower.smallest_effect < 0.02


def test_one_process_that_differs_by_20_percent_changes_no_verdict():
    values = RNG(5).normal(0, 0.004, size=24)
    calm = final(values)
    values[7] = 0.2
    outlier = final(values)
    assert calm.verdict == outlier.verdict == "same"
    assert outlier.effect == pytest.approx(calm.effect, abs=0.001)


def test_an_effect_within_the_margin_is_the_same_and_the_margin_can_be_set():
    values = RNG(6).normal(0.005, 0.003, size=40)
    assert final(values).verdict == "same"
    assert final(values, margin=0.002).verdict == "slower"
    assert final(values, margin=0.0).verdict == "slower"


def test_too_few_pairs_are_not_enough_and_say_how_many_more_would_decide():
    values = RNG(7).normal(0.01, 0.02, size=60)
    early = compare_pairs(values[:12].tolist(), [Look(8, 60), Look(12, 60)])
    assert early.verdict == "not_enough"
    assert early.low < early.effect < early.high
    assert 20 < early.more_pairs < 1000
    assert 0.01 < early.smallest_effect < 0.04
    single = final([0.01])
    assert (single.verdict, single.low, single.smallest_effect) == ("not_enough", None, None)
    assert single.more_pairs == 7


def test_the_number_of_further_pairs_is_about_what_is_needed():
    rng = RNG(8)
    decided = 0
    for _ in range(100):
        first = final(rng.normal(0.01, 0.016, size=24))
        total = 24 + (first.more_pairs or 0)
        decided += final(rng.normal(0.01, 0.016, size=min(total, 400))).verdict != "not_enough"
    assert decided >= 65


def test_time_that_is_up_spends_what_is_left():
    values = RNG(9).normal(0.009, 0.012, size=20).tolist()
    looks = [Look(8, 100), Look(20, 100)]
    assert compare_pairs(values, looks).verdict == "not_enough"
    assert compare_pairs(values, [looks[0], Look(20, 20)]).verdict == "slower"
    # nothing is left for more pairs after a last look
    assert look_levels((Look(20, 20), Look(40, 40)))[0] == 0


def test_blocks_cancel_a_linear_drift():
    time = np.arange(8.0)
    base, other = [0, 3, 4, 7], [1, 2, 5, 6]  # A B B A A B B A
    drifting = np.exp(0.01 * time)
    assert log_ratio_of_pair(drifting[base], drifting[other]) == pytest.approx(0)
    assert log_ratio_of_pair(drifting[base], 1.05 * drifting[other]) == pytest.approx(
        math.log(1.05)
    )


def test_half_of_the_turns_may_be_disturbed():
    base, other = [10.0, 10.0, 10.0, 10.0], [10.1, 18.0, 10.1, 31.0]
    assert log_ratio_of_pair(base, other) == pytest.approx(math.log(1.01))


def test_looks_come_later_and_later_and_end_with_the_plan():
    assert [look.pairs for look in looks_until(50)] == [8, 10, 13, 17, 22, 28, 35, 44, 50]
    assert next_look(0, 5) == 5


@pytest.mark.parametrize(
    ("values", "looks", "margin", "message"),
    [
        ([], [Look(1, 1)], 0.01, "at least one"),
        ([0.1], [Look(2, 2)], 0.01, "the last look is at all pairs"),
        ([0.1], [Look(1, 1)], 1.0, "the margin is a ratio"),
        ([0.1] * 8, [Look(9, 50), Look(8, 50)], 0.01, "growing numbers"),
        ([0.1] * 8, [Look(8, 7)], 0.01, "at most as many as planned"),
    ],
)
def test_wrong_input_is_refused(values, looks, margin, message):
    with pytest.raises(ValueError, match=message):
        compare_pairs(values, looks, margin=margin)


def test_a_pair_without_whole_blocks_is_refused():
    for base, other in (([1.0], [1.0]), ([1.0, 1.0], [1.0]), ([], [])):
        with pytest.raises(ValueError, match="even number of turns"):
            log_ratio_of_pair(base, other)
