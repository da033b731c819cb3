"""Detection of disturbances, with synthetic snapshots."""

import pytest

from agent.device.contamination import ContaminationCode, contaminations, gate_gave_up
from agent.device.gpu import GpuState
from agent.device.state import OtherProcess
from agent.device.tests.make import sample, snapshot


def judge(before=None, during=(), after=None):
    return contaminations(before or snapshot(), during or [sample()], after or snapshot(10.0))


def only(items):
    (one,) = items
    return one.code, one.detail


def test_a_run_that_had_the_device_to_itself_is_clean():
    assert judge() == []


def test_load_by_others_is_told_with_their_names():
    busy = OtherProcess(name="make", cpu_percent=70.0, memory_bytes=1)
    idle = OtherProcess(name="browser", cpu_percent=0.1, memory_bytes=1)
    after = snapshot(10.0, busy_s=117.0, processes=(busy, idle))
    code, detail = only(judge(after=after))
    assert code == ContaminationCode.OTHER_LOAD
    assert "70 % of a core" in detail
    assert "make (70 %)" in detail
    assert "browser" not in detail


def test_the_runs_own_time_is_not_the_others():
    after = snapshot(10.0, busy_s=117.0)
    assert only(judge(after=after))[0] == ContaminationCode.OTHER_LOAD
    assert judge(after=snapshot(10.0, busy_s=117.0, own_s=67.0)) == []


def test_a_short_disturbance_of_a_long_run_counts():
    thief = OtherProcess(name="updatedb", cpu_percent=90.0, memory_bytes=1)
    during = [*[sample()] * 20, sample(other_cores=0.9, processes=(thief,))]
    code, detail = only(judge(during=during, after=snapshot(600.0, busy_s=702.0)))
    assert code == ContaminationCode.OTHER_LOAD
    assert "at most 90 %" in detail
    assert "updatedb" in detail


def test_the_kernels_rough_counting_is_no_load():
    assert judge(after=snapshot(0.3, busy_s=100.34)) == []


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
def test_each_kind_is_told_once(after, during, code, words):
    actual, detail = only(judge(during=[sample(**during)], after=snapshot(10.0, **after)))
    assert actual == code
    assert words in detail


def test_a_gpu_at_its_power_limit_or_idle_is_as_it_should_be():
    gpu = GpuState(throttle_reasons=("sw_power_cap", "gpu_idle"), other_processes=0)
    assert judge(after=snapshot(10.0, gpus=(gpu,))) == []


def test_a_clock_that_falls_under_load_is_told_but_not_one_that_idles():
    fell = [sample(max_clock_mhz=3000.0), sample(max_clock_mhz=2000.0)]
    code, detail = only(judge(during=fell))
    assert code == ContaminationCode.CLOCK_DROPPED
    assert "from 3000 to 2000 MHz" in detail
    idle = [sample(max_clock_mhz=3000.0), sample(max_clock_mhz=800.0, own_cores=0.1)]
    assert judge(during=idle) == []


def test_what_the_platform_does_not_tell_is_no_disturbance():
    nothing = {
        "memory_available_bytes": None,
        "swapped_bytes": None,
        "throttle_counts": {},
        "temperature_c": None,
    }
    bare = {"max_clock_mhz": None, "temperature_c": None, "memory_available_bytes": None}
    result = judge(snapshot(**nothing), [sample(**bare)], snapshot(10.0, **nothing))
    assert result == []


def test_a_gate_that_gave_up_says_why():
    one = gate_gave_up(("other processes use 1.9 cores (make)",), 30.2)
    assert one.code == ContaminationCode.GATE_GAVE_UP
    assert one.detail == "not calm after 30 s: other processes use 1.9 cores (make)"
