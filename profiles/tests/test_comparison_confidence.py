"""How sure a difference is: against scipy, and where samples are few, tied or missing."""

import numpy as np
import pytest
from scipy import stats

from profiles.analysis.comparison.confidence import (
    VERDICTS,
    adjusted,
    judge,
    least_p,
    rank_test,
    shift_interval,
)
from profiles.analysis.comparison.latency import BLOCKS, block_medians, judge_latency


def words(base, other, worth=None):
    base, other = np.asarray(base, float), np.asarray(other, float)
    found = judge(
        base,
        other,
        worth=np.ones(base.shape[1], bool) if worth is None else np.asarray(worth),
        difference_s=np.nanmedian(other, axis=0) - np.nanmedian(base, axis=0),
    )
    return [VERDICTS[code] for code in found.verdict], found


@pytest.mark.parametrize(("n", "k"), [(5, 5), (4, 6), (2, 3), (3, 7), (1, 4)])
def test_few_samples_without_ties_give_the_exact_p_of_scipy(n, k):
    chance = np.random.default_rng(n * 10 + k)
    a, b = chance.normal(size=(n, 50)), chance.normal(0.5, size=(k, 50))
    expected = stats.mannwhitneyu(a, b, axis=0, method="exact").pvalue
    assert rank_test(a, b) == pytest.approx(expected, abs=1e-12)


def test_many_samples_with_ties_give_the_asymptotic_p_of_scipy():
    chance = np.random.default_rng(3)
    a, b = (chance.integers(0, 9, size=(n, 50)).astype(float) for n in (20, 18))
    expected = stats.mannwhitneyu(a, b, axis=0, method="asymptotic").pvalue
    assert rank_test(a, b) == pytest.approx(expected, abs=1e-12)


def test_few_samples_with_ties_give_the_p_over_all_permutations():
    a = np.array([[1.0, 2, 2, 3], [5, 5, 5, 5]]).T
    b = np.array([[2.0, 3, 4, 4, 5], [5, 5, 5, 5, 5]]).T

    def away(x, y):
        return abs(stats.rankdata(np.concatenate([x, y]))[: len(x)].sum() - 20)

    expected = stats.permutation_test(
        (a[:, 0], b[:, 0]), away, alternative="greater", n_resamples=np.inf
    ).pvalue
    assert rank_test(a, b) == pytest.approx([expected, 1.0])


def test_adjustment_is_that_of_benjamini_and_hochberg_and_skips_untested_rows():
    p = np.random.default_rng(1).uniform(size=30) ** 2
    assert adjusted(p) == pytest.approx(stats.false_discovery_control(p))
    gaps = np.array([0.01, np.nan, 0.02])
    assert adjusted(gaps) == pytest.approx([0.02, np.nan, 0.02], nan_ok=True)


@pytest.mark.parametrize("n", [4, 5, 8, 20])
def test_the_interval_holds_the_true_shift_about_as_often_as_it_says(n):
    chance = np.random.default_rng(n)
    a, b = chance.normal(size=(n, 3000)), chance.normal(0.7, size=(n, 3000))
    low, high = shift_interval(a, b)
    held = ((low <= 0.7) & (high >= 0.7)).mean()
    assert 0.935 <= held <= 0.99


def test_three_samples_on_each_side_can_prove_nothing():
    assert least_p(3, 3) == pytest.approx(0.1)
    verdicts, found = words([[1], [2], [3]], [[11], [12], [13]])
    assert verdicts == ["few"]
    assert np.isnan(found.low_s[0])


def test_a_single_sample_says_so_and_missing_times_are_not_compared():
    nan = np.nan
    base = np.array([[1, nan, 1], [nan, nan, 2], [nan, nan, 3], [nan, nan, 4]])
    other = np.array([[1, 1, nan], [2, 2, nan], [3, 3, nan], [4, 4, nan]])
    found = judge(base, other, worth=np.ones(3, bool), difference_s=np.full(3, nan))
    assert [VERDICTS[code] for code in found.verdict] == ["single", "absent", "absent"]


def test_a_large_difference_is_clear_and_noise_is_not():
    chance = np.random.default_rng(5)
    base = chance.normal(100, 3, size=(5, 40))
    other = chance.normal(100, 3, size=(5, 40))
    other[:, :20] += 30
    verdicts, found = words(base, other)
    assert verdicts[:20] == ["clear"] * 20
    assert "clear" not in verdicts[20:]
    assert (found.low_s[:20] > 0).all()


def test_one_difference_among_many_rows_is_only_likely():
    base = np.tile(np.arange(5.0)[:, None], (1, 100))
    other = base.copy()
    other[:, 0] += 50
    verdicts, _ = words(base, other)
    assert verdicts[0] == "likely"
    assert set(verdicts[1:]) == {"none"}
    # where it is the only row that matters, it is not one of a hundred
    assert words(base, other, worth=np.arange(100) == 0)[0][0] == "clear"


def test_a_pass_that_did_not_time_an_operator_does_not_spoil_the_others():
    base = np.array([[1.0, 1], [2, 2], [3, 3], [4, 4], [5, np.nan]])
    verdicts, _ = words(base, base + 20)
    assert verdicts == ["clear", "clear"]


def test_the_interval_holds_the_difference_that_is_shown():
    chance = np.random.default_rng(9)
    base, other = chance.exponential(size=(5, 200)), chance.exponential(size=(5, 200))
    _, found = words(base, other)
    shown = np.median(other, axis=0) - np.median(base, axis=0)
    assert ((found.low_s <= shown) & (shown <= found.high_s)).all()


def test_iterations_are_compared_by_pieces_so_that_their_number_proves_nothing():
    chance = np.random.default_rng(2)
    # slow drift: neighbours are alike, and thousands of them are no thousands of samples
    drift = np.cumsum(chance.normal(0, 0.02, size=4000)) + 10
    one, other = drift[:2000], drift[2000:] - np.median(drift[2000:]) + np.median(drift[:2000])
    assert len(block_medians(one)) == BLOCKS
    assert VERDICTS[judge_latency(one, other).verdict[0]] == "none"
    slower = judge_latency(one, one + 1)
    assert VERDICTS[slower.verdict[0]] == "clear"
    assert slower.low_s[0] < 1e-3 < slower.high_s[0]


def test_too_few_iterations_are_a_single_sample_and_none_are_absent():
    assert VERDICTS[judge_latency([1.0, 2.0], [3.0, 4.0]).verdict[0]] == "single"
    assert VERDICTS[judge_latency([], [3.0, 4.0]).verdict[0]] == "absent"
