"""Detection of disturbances, with synthetic snapshots."""

import pytest

from agent.device.contamination import ContaminationCode, contaminations, gate_gave_up
from agent.device.gpu import GpuState
from agent.device.state import OtherProcess
from agent.device.tests.make import sample, snapshot


def find_contaminations(before=None, during=(), after=None):
    return contaminations(before or snapshot(), during or [sample()], after or snapshot(10.0))


def single(items):
    (one,) = items
    return one.code, one.detail


@pytest.mark.parametrize(
    "after",
    [
        snapshot(10.0),
        snapshot(0.3, busy_s=100.34),
        snapshot(
            10.0,
            gpus=(GpuState(throttle_reasons=("sw_power_cap", "gpu_idle"), other_processes=0),),
        ),
    ],
    ids=["idle device", "rounding of CPU time by the kernel", "GPU at its power limit or idle"],
)
def test_an_undisturbed_run_has_no_contaminations(after):
    assert find_contaminations(after=after) == []


def test_load_of_other_processes_is_reported_with_their_names():
    busy = OtherProcess(name="make", cpu_percent=70.0, memory_bytes=1)
    idle = OtherProcess(name="browser", cpu_percent=0.1, memory_bytes=1)
    after = snapshot(10.0, busy_s=117.0, processes=(busy, idle))
    code, detail = single(find_contaminations(after=after))
    assert code == ContaminationCode.OTHER_LOAD
    assert "70 % of a core" in detail
    assert "make (70 %)" in detail
    assert "browser" not in detail


def test_cpu_time_of_the_run_is_not_load_of_others():
    after = snapshot(10.0, busy_s=117.0)
    assert single(find_contaminations(after=after))[0] == ContaminationCode.OTHER_LOAD
    assert find_contaminations(after=snapshot(10.0, busy_s=117.0, own_s=67.0)) == []


def test_a_short_disturbance_of_a_long_run_is_reported():
    thief = OtherProcess(name="updatedb", cpu_percent=90.0, memory_bytes=1)
    during = [*[sample()] * 20, sample(other_cores=0.9, processes=(thief,))]
    code, detail = single(find_contaminations(during=during, after=snapshot(600.0, busy_s=702.0)))
    assert code == ContaminationCode.OTHER_LOAD
    assert "at most 90 %" in detail
    assert "updatedb" in detail


@pytest.mark.parametrize(
    ("after", "during", "code", "words"),
    [
        ({"throttle_counts": {"core": 9, "package": 7}}, {}, "throttled", "4 times"),
        (
            {"gpus": (GpuState(throttle_reasons=("hw_thermal_slowdown",)),)},
            {},
            "throttled",
            "hw_thermal_slowdown",
        ),
        ({}, {"gpus": (GpuState(throttle_reasons=("hw_slowdown",)),)}, "throttled", "hw_slowdown"),
        ({}, {"temperature_c": 96.0}, "hot", "96 degrees"),
        ({"temperature_c": 91.0}, {}, "hot", "91 degrees"),
        ({}, {"memory_available_bytes": 9 << 20}, "memory_low", "9 MiB"),
        ({"swapped_bytes": 30 << 20}, {}, "swapped", "30 MiB"),
        ({"stolen_s": 2.0}, {}, "stolen", "20 % of a core"),
        ({"gpus": (GpuState(other_processes=2),)}, {}, "gpu_shared", "2 other processes"),
    ],
)
def test_each_kind_of_contamination_is_reported_once(after, during, code, words):
    actual, detail = single(
        find_contaminations(during=[sample(**during)], after=snapshot(10.0, **after))
    )
    assert actual == code
    assert words in detail


def test_a_clock_drop_is_reported_only_under_load():
    fell = [sample(max_clock_mhz=3000.0), sample(max_clock_mhz=2000.0)]
    code, detail = single(find_contaminations(during=fell))
    assert code == ContaminationCode.CLOCK_DROPPED
    assert "from 3000 to 2000 MHz" in detail
    idle = [sample(max_clock_mhz=3000.0), sample(max_clock_mhz=800.0, own_cores=0.1)]
    assert find_contaminations(during=idle) == []


def test_missing_readings_are_no_contamination():
    nothing = {
        "memory_available_bytes": None,
        "swapped_bytes": None,
        "throttle_counts": {},
        "temperature_c": None,
    }
    bare = {"max_clock_mhz": None, "temperature_c": None, "memory_available_bytes": None}
    result = find_contaminations(snapshot(**nothing), [sample(**bare)], snapshot(10.0, **nothing))
    assert result == []


def test_a_gate_that_gave_up_reports_its_reasons():
    one = gate_gave_up(("other processes use 1.9 cores (make)",), 30.2)
    assert one.code == ContaminationCode.GATE_GAVE_UP
    assert one.detail == "not calm after 30 s: other processes use 1.9 cores (make)"
