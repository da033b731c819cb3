"""Devices and servers that go away in the middle of a run: real parts, one world for all tests."""

import signal

import pytest

from bench.chaos.tests.small_world import small_world

pytestmark = [pytest.mark.exhaustive, pytest.mark.embedded]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with small_world(tmp_path_factory.mktemp("world")) as world:
        yield world


def test_a_task_of_a_device_that_fell_silent_goes_to_another_one_that_matches(world):
    task = world.submit(3000, target={"labels": {"chaos": "simulated"}})
    world.until(lambda: world.task(task).state == "running")
    (silent,) = world.rows.devices_of(task)
    world.signal(silent, signal.SIGSTOP)
    try:
        world.until(lambda: len(world.rows.devices_of(task)) == 2)
        assert world.rows.ends_of(task)[0] == "lease_expired"
        world.until(lambda: not world.task(task).is_live)
    finally:
        world.signal(silent, signal.SIGCONT)
    assert world.task(task).outcome == "succeeded"
    # what comes back late finds its run fenced
    world.until(lambda: world.runs() == [])
    assert world.rows.doubles() == {}


def test_a_task_that_names_its_device_waits_for_it(world):
    task = world.submit(200, worker="sim-1")
    world.until(lambda: world.task(task).state == "running")
    world.signal("sim-1", signal.SIGSTOP)
    try:
        world.until(lambda: world.rows.ends_of(task) == ["lease_expired"])
        assert world.task(task).state == "waiting"
    finally:
        world.signal("sim-1", signal.SIGCONT)
    world.until(lambda: not world.task(task).is_live)
    assert world.task(task).outcome == "succeeded"


def test_a_cancelled_run_has_no_process_any_more(world):
    task = world.submit(10_000, worker="sim-2")
    world.until(world.runs)
    world.post(f"tasks/{task}/cancel/", {})
    world.until(lambda: not world.runs())
    world.until(lambda: world.task(task).outcome == "cancelled")


def test_a_result_that_is_finished_while_the_server_is_away_arrives_later(world):
    task = world.submit(500, worker="sim-2")
    world.until(lambda: world.task(task).state == "running")
    world.on_link("sim-2-web", "cut")
    try:
        world.until(lambda: not world.runs())
        assert world.task(task).state == "running"
    finally:
        world.on_link("sim-2-web", "heal")
    world.until(lambda: not world.task(task).is_live)
    assert (world.task(task).outcome, world.rows.ends_of(task)) == ("succeeded", ["exited"])
