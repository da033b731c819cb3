"""The usual speed of a device, and the band of its shares."""

import numpy as np
import pytest

from agent.statistics.canary import LEAST_READINGS, own_speed

USUAL = (0.5, 1.0, 2.0)


def readings(scatter: float, count: int = 200, seed: int = 1) -> list[tuple[float, ...]]:
    random = np.random.default_rng(seed)
    factors = np.exp(random.normal(0, scatter, count))
    return [tuple(factor * time for time in USUAL) for factor in factors.tolist()]


def slower(by: float) -> tuple[float, ...]:
    return tuple(by * time for time in USUAL)


def test_a_device_with_few_readings_does_not_know_itself():
    assert own_speed(readings(0.01, LEAST_READINGS - 1)) is None
    assert own_speed(readings(0.01, LEAST_READINGS)) is not None


def test_the_share_is_the_speed_relative_to_the_usual_one():
    speed = own_speed(readings(0.0))
    assert speed.share(USUAL) == pytest.approx(1)
    assert speed.share(slower(1 / 0.972)) == pytest.approx(0.972)
    # a third of the work at half its speed
    assert speed.share((1.0, 1.0, 2.0)) == pytest.approx(0.5 ** (1 / 3))


def test_the_band_contains_nearly_all_readings_of_an_undisturbed_device():
    speed = own_speed(readings(0.02))
    later = readings(0.02, 10_000, seed=2)
    outside = sum(not speed.contains(times) for times in later)
    assert outside <= 0.02 * len(later)
    assert not speed.contains(slower(1.1))
    assert not speed.contains(slower(0.9))


def test_a_disturbed_reading_in_twenty_hardly_widens_the_band():
    calm = readings(0.01, 200)
    disturbed = [slower(10.0) if number % 25 == 0 else row for number, row in enumerate(calm)]
    assert own_speed(disturbed).low == pytest.approx(own_speed(calm).low, abs=0.015)


def test_the_band_of_a_steady_device_is_one_percent_wide():
    speed = own_speed(readings(0.0))
    assert speed.contains(slower(1.009))
    assert not speed.contains(slower(1.011))
