"""Histograms of iteration times."""

import itertools
import math

import numpy as np
import pytest

from profiles.analysis.measurement import histogram


def steady(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(10.0, 0.3, count)


@pytest.mark.parametrize("count", [2, 5, 20, 130, 5000])
def test_every_iteration_is_in_a_bin_or_above_all_bins(count):
    times = steady(count)
    bins = histogram(times)
    assert bins is not None
    assert sum(bins.counts) + bins.above == count
    assert 5 <= len(bins.counts) <= 60
    assert len(bins.edges_ms) == len(bins.counts) + 1
    assert bins.edges_ms[0] == times.min()
    assert all(low < high for low, high in itertools.pairwise(bins.edges_ms))


def test_more_iterations_give_finer_bins():
    few, many = histogram(steady(50)), histogram(steady(5000))
    assert few and many
    assert len(few.counts) < len(many.counts)


def test_a_few_very_slow_iterations_do_not_widen_the_bins():
    bins = histogram([*steady(1000), 500.0, 900.0])
    assert bins is not None
    assert bins.above == 2
    assert bins.edges_ms[-1] < 20
    assert max(bins.counts) < 200


def test_the_bins_include_p99():
    times = np.concatenate([steady(900), np.full(100, 40.0)])
    bins = histogram(times)
    assert bins is not None
    assert bins.edges_ms[-1] >= np.percentile(times, 99)
    assert bins.above == 0


@pytest.mark.parametrize("times", [[], [7.5], [7.5, 7.5, 7.5], [1.0, math.nextafter(1.0, 2.0)]])
def test_times_without_a_spread_have_no_histogram(times):
    assert histogram(times) is None
