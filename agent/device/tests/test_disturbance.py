"""Detection of disturbances, with synthetic snapshots."""

import pytest

from agent.device.disturbance import (
    DisturbanceCode,
    other_load,
    pass_disturbances,
    run_disturbances,
)
from agent.device.gpu import GpuState
from agent.device.state import Counters, OtherProcess
from agent.device.tests.make import sample, snapshot
from agent.protocol.run_log import CoreWaits


def find_disturbances(before=None, during=(), after=None):
    return run_disturbances(before or snapshot(), during or [sample()], after or snapshot(10.0))


def single(items):
    (one,) = items
    return one.code, "; ".join(map(str, one.details))


@pytest.mark.parametrize(
    "after",
    [
        snapshot(10.0),
        snapshot(
            10.0,
            gpus=(GpuState(throttle_reasons=("sw_power_cap", "gpu_idle"), other_processes=0),),
        ),
    ],
    ids=["idle device", "GPU at its power limit or idle"],
)
def test_an_undisturbed_run_has_no_disturbances(after):
    assert find_disturbances(after=after) == []


def counters(at_s=0.0, *, busy=(0.0, 0.0), stolen=(0.0, 0.0), own_s=0.0, limited_s=0.0):
    return Counters(at_s, dict(enumerate(busy)), dict(enumerate(stolen)), own_s, limited_s)


def in_pass(waited_ms, *, stolen_ms=None, after=None, cores=()):
    """Return the disturbances of a pass of one second, of which 400 ms were timed."""
    waits = None if waited_ms is None else CoreWaits(waited_ms, 400.0, stolen_ms=stolen_ms)
    return pass_disturbances(waits, counters(), after or counters(1.0), cores)


def test_a_pass_whose_threads_waited_for_a_core_is_disturbed():
    load = counters(1.0, busy=(1.0, 0.4), own_s=1.0)
    code, detail = single(in_pass(60.0, after=load))
    assert code == DisturbanceCode.WAITED
    assert "15 % of the time" in detail
    assert "other processes used 35 % of a core" in detail


def test_a_cpu_limit_is_named_as_the_cause_of_waiting():
    limited = counters(1.0, busy=(0.5, 0.0), own_s=0.5, limited_s=0.5)
    code, detail = single(in_pass(60.0, after=limited))
    assert code == DisturbanceCode.WAITED
    assert "CPU limit (control group) withheld 50 % of a core" in detail
    assert "other processes" not in detail
    both = counters(1.0, busy=(0.9, 0.0), own_s=0.5, limited_s=0.5)
    assert "other processes used 35 % of a core" in single(in_pass(60.0, after=both))[1]
    # it slowed iterations down, but not in the faster half, whose waiting is counted
    assert "withheld 50 % of a core" in single(in_pass(2.0, after=limited))[1]


def test_a_cpu_limit_counts_where_the_kernel_does_not_count_waiting():
    code, detail = single(in_pass(None, after=counters(1.0, limited_s=0.2)))
    assert (code, "20 % of a core" in detail) == (DisturbanceCode.WAITED, True)
    assert in_pass(None, after=counters(1.0, limited_s=0.01)) == []


def test_load_that_cost_the_run_nothing_is_no_disturbance():
    assert in_pass(2.0, after=counters(1.0, busy=(1.0, 0.9), own_s=1.0)) == []


def test_load_counts_where_the_kernel_does_not_count_waiting():
    code, detail = single(in_pass(None, after=counters(1.0, busy=(1.0, 0.4), own_s=1.0)))
    assert (code, detail) == (DisturbanceCode.OTHER_LOAD, "other processes used 35 % of a core")
    assert in_pass(None, after=counters(1.0, busy=(1.0, 0.1), own_s=1.0)) == []


def test_only_load_on_the_cores_of_the_run_counts():
    load = counters(1.0, busy=(0.9, 0.9), own_s=0.9)
    assert in_pass(None, after=load, cores=(0,)) == []
    assert in_pass(None, after=load)


def test_time_that_the_host_gave_to_other_machines_disturbs_a_pass():
    code, detail = single(in_pass(0.0, after=counters(1.0, stolen=(0.2, 0.0))))
    assert (code, "18 % of a core" in detail) == (DisturbanceCode.STOLEN, True)
    assert in_pass(0.0, after=counters(1.0, stolen=(0.2, 0.0)), cores=(1,)) == []


def test_time_that_was_stolen_while_a_pass_started_does_not_disturb_it():
    loading = counters(1.0, stolen=(0.3, 0.0))
    assert in_pass(0.0, stolen_ms=20.0, after=loading) == []
    code, detail = single(in_pass(0.0, stolen_ms=100.0, after=loading))
    assert (code, "20 % of a core" in detail) == (DisturbanceCode.STOLEN, True)


def test_the_load_of_other_processes_is_described_with_their_names():
    busy = OtherProcess(name="make", cpu_percent=70.0, memory_bytes=1)
    idle = OtherProcess(name="browser", cpu_percent=0.1, memory_bytes=1)
    after = snapshot(10.0, busy_s=117.0, processes=(busy, idle))
    load = other_load(snapshot(), [sample()], after)
    assert (load.percent, load.processes) == (pytest.approx(70), ("make (70 %)",))
    # CPU time of the run is not load of others
    assert other_load(snapshot(), [sample()], snapshot(10.0, busy_s=117.0, own_s=67.0)).percent == 0


def test_a_short_load_during_a_long_run_is_described():
    thief = OtherProcess(name="updatedb", cpu_percent=90.0, memory_bytes=1)
    during = [*[sample()] * 20, sample(other_cores=0.9, processes=(thief,))]
    load = other_load(snapshot(), during, snapshot(600.0, busy_s=702.0))
    assert (load.most_percent, load.processes) == (90, ("updatedb (90 %)",))


@pytest.mark.parametrize(
    ("after", "during", "code", "words"),
    [
        ({"throttle_counts": {"core": 9, "package": 7}}, {}, "throttled", "events: 4"),
        (
            {"gpus": (GpuState(throttle_reasons=("hw_thermal_slowdown",)),)},
            {},
            "throttled",
            "hw_thermal_slowdown",
        ),
        ({}, {"gpus": (GpuState(throttle_reasons=("hw_slowdown",)),)}, "throttled", "hw_slowdown"),
        ({}, {"temperature_c": 96.0}, "hot", "96 °C"),
        ({"temperature_c": 91.0}, {}, "hot", "91 °C"),
        ({}, {"memory_available_bytes": 9 << 20}, "memory_low", "9 MiB"),
        ({"swapped_bytes": 30 << 20}, {}, "swapped", "30 MiB"),
        ({"gpus": (GpuState(other_processes=2),)}, {}, "gpu_shared", "number: 2"),
    ],
)
def test_each_kind_of_disturbance_is_reported_once(after, during, code, words):
    actual, detail = single(
        find_disturbances(during=[sample(**during)], after=snapshot(10.0, **after))
    )
    assert actual == code
    assert words in detail


def test_a_clock_drop_is_reported_only_under_load():
    fell = [sample(max_clock_mhz=3000.0), sample(max_clock_mhz=2000.0)]
    code, detail = single(find_disturbances(during=fell))
    assert code == DisturbanceCode.CLOCK_DROPPED
    assert "from 3000 to 2000 MHz" in detail
    idle = [sample(max_clock_mhz=3000.0), sample(max_clock_mhz=800.0, own_cores=0.1)]
    assert find_disturbances(during=idle) == []


def test_missing_readings_are_no_disturbance():
    nothing = {
        "memory_available_bytes": None,
        "swapped_bytes": None,
        "throttle_counts": {},
        "temperature_c": None,
    }
    bare = {"max_clock_mhz": None, "temperature_c": None, "memory_available_bytes": None}
    result = find_disturbances(snapshot(**nothing), [sample(**bare)], snapshot(10.0, **nothing))
    assert result == []
