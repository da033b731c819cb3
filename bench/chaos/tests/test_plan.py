"""Tests of the faults that are drawn from a seed."""

from bench.chaos.plan import MOST_AT_ONCE, WEIGHTS, draw_faults


def test_the_same_seed_gives_the_same_plan():
    assert draw_faults(7, 50) == draw_faults(7, 50)
    assert draw_faults(7, 50) != draw_faults(8, 50)


def test_a_longer_plan_begins_with_the_shorter_one():
    assert draw_faults(7, 200)[:50] == draw_faults(7, 50)


def test_a_short_plan_has_every_kind_of_fault():
    for seed in range(20):
        assert {fault.kind for fault in draw_faults(seed, 60)} == set(WEIGHTS)


def test_a_thousand_faults_fit_into_an_hour():
    for seed in range(5):
        faults = draw_faults(seed, 1000)
        assert faults[-1].begin_s < 1800
        assert sum(fault.lasts_s for fault in faults) / MOST_AT_ONCE < 2400
