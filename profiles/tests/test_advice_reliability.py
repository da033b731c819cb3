"""Rules of advice about the measurement itself, and advice on damaged profiles."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from profiles.analysis.advice.finding import Finding, RunFacts
from profiles.analysis.advice.registry import advise
from profiles.formats.errors import ProfileFormatError
from profiles.tests.advice_data import ALL_FACTS, findings_of, recorded_profile
from profiles.tests.make import NODE, make_profile, to_json
from profiles.tests.passes import data_of, scale_times
from testdata import DATA, bad_profile

NAN_FACTS = dataclasses.replace(ALL_FACTS, iteration_cv=math.nan, overhead=math.nan)


def test_passes_that_agree_are_neither_single_nor_unsteady():
    profile = recorded_profile("resnet18")

    findings = findings_of(profile, scale_times(profile, 1.01), scale_times(profile, 0.99))
    assert not {"single_sample", "unsteady"} & findings.keys()


def test_passes_that_differ_by_a_fifth_are_unsteady():
    profile = recorded_profile("resnet18")
    findings = advise(data_of(profile, scale_times(profile, 1.2)), RunFacts()).findings

    # 1 and 1.2: mean 1.1, standard deviation 0.1414
    assert findings[0].rule == "unsteady"
    assert findings[0].params["passes_cv"] == pytest.approx(0.2 / math.sqrt(2) / 1.1)


@pytest.mark.parametrize(
    ("rule", "facts", "fires"),
    [
        ("unsteady", RunFacts(iteration_cv=0.04), False),
        ("unsteady", RunFacts(iteration_cv=0.08), True),
        ("unsteady", RunFacts(iteration_cv=None), False),
        ("slow_profiling", RunFacts(overhead=0.1), False),
        ("slow_profiling", RunFacts(overhead=0.4), True),
        ("slow_profiling", RunFacts(overhead=math.nan), False),
    ],
)
def test_unsteady_iterations_and_a_large_overhead_are_reported(rule, facts, fires):
    assert (rule in findings_of(recorded_profile("resnet18"), facts=facts)) is fires


def test_disturbance_comes_first():
    facts = RunFacts(disturbances=("other_load",))

    assert advise(data_of(recorded_profile("resnet18")), facts).findings[0].rule == "disturbed"


def spaced(gap: float, *times_ms: float) -> bytes:
    """Return a profile of operators in a row; a pause of `gap` times its time follows each."""
    device, at = {}, 1.0
    for number, time_ms in enumerate(times_ms):
        end = at + time_ms / 1000
        device[str(number)] = {NODE: {"start": at, "kern": at, "end": end}}
        at = end + gap * time_ms / 1000
    return to_json(make_profile(device))


def outside_operators(facts: RunFacts, *passes: bytes) -> Finding | None:
    return findings_of(*passes, facts=facts).get("outside_operators")


def test_time_outside_operators_is_computed_for_each_pass_and_its_iteration():
    passes = [spaced(1.0, 1.0, 2.0, 1.0), spaced(1.0, 1.0, 2.0, 3.0)]
    iterations_s = {"profile-1.json": 0.010, "profile-2.json": 0.012}
    finding = outside_operators(RunFacts(iterations_s=iterations_s), *passes)

    # 4 of 10 ms and 6 of 12 ms; the sum of medians (5 ms) is not used
    assert finding is not None
    assert finding.saves_s == pytest.approx(0.006)
    assert finding.params == {"covered": pytest.approx(0.45)}


@pytest.mark.parametrize(
    ("gap", "iteration_s", "disturbances", "fires"),
    [
        (1.0, 0.010, (), True),
        (1.0, 0.005, (), False),  # 80 % of the iteration
        (0.05, 0.010, (), False),  # the device is busy for 96 % of its span
        (1.0, 0.010, ("other_load",), False),
    ],
)
def test_time_outside_operators_needs_an_undisturbed_run_and_an_idle_device(
    gap, iteration_s, disturbances, fires
):
    facts = RunFacts(iterations_s={"profile-1.json": iteration_s}, disturbances=disturbances)

    assert (outside_operators(facts, spaced(gap, 1.0, 2.0, 1.0)) is not None) is fires


def test_a_disturbed_run_gets_only_advice_that_does_not_depend_on_times():
    profile = recorded_profile("resnet18")
    passes = [profile, scale_times(profile, 1.6), scale_times(profile, 1.3)]
    calm = findings_of(*passes, facts=RunFacts(options={}))
    disturbed = advise(data_of(*passes), RunFacts(options={}, disturbances=("other_load",)))

    rules = [finding.rule for finding in disturbed.findings]
    assert rules == ["disturbed", "unfused_batch_norm"]
    assert {"unsteady", "dominant_type"} <= calm.keys()
    assert {"unsteady", "dominant_type", "copies"} <= set(disturbed.suppressed)
    assert not set(disturbed.suppressed) & set(disturbed.checked)
    # 3.237 ms in the recorded pass; the median pass is 1.3 times as slow
    saves_s = disturbed.findings[1].saves_s
    assert saves_s == pytest.approx(1.3 * 3.237e-3, rel=1e-3)
    assert saves_s == calm["unfused_batch_norm"].saves_s


def with_type(profile: bytes, key: str, type_name: str) -> bytes:
    file = json.loads(profile)
    file["graph_exec"]["operator"][key]["type"] = type_name
    return to_json(file)


@pytest.mark.parametrize("type_name", ["ImmutableTensor", "Host2DeviceCopy", "Copy"])
def test_a_constant_or_copy_that_dominates_a_single_sample_is_a_spike(type_name):
    findings = findings_of(with_type(spaced(0.0, 7.7, 1.0, 1.3), "0", type_name))

    assert findings["spike"].rows == (0,)
    assert findings["spike"].params == {"share": pytest.approx(0.77), "type": type_name}
    assert findings["spike"].saves_s is None
    assert "copies" not in findings
    assert all(0 not in finding.rows for rule, finding in findings.items() if rule != "spike")


def test_a_copy_that_is_long_in_all_samples_is_not_a_spike():
    profile = with_type(spaced(0.0, 7.7, 1.0, 1.3), "0", "Copy")
    findings = findings_of(profile, profile, profile)

    assert "spike" not in findings
    assert "copies" in findings


def test_findings_about_the_same_operators_overlap():
    # two of three operators have the same type, and the larger of them dominates
    findings = findings_of(with_type(spaced(0.0, 4.0, 3.0, 3.0), "2", "MatrixMul"))

    assert findings["dominant_type"].overlaps == ("dominant_operator",)
    assert findings["dominant_operator"].overlaps == ("dominant_type",)
    assert findings["single_sample"].overlaps == ()


def test_findings_about_time_without_operators_overlap_only_each_other():
    profile = json.loads(spaced(1.0, 4.0, 3.0, 3.0))
    profile["profiler"]["host"] = {"0": {"host": {"start": 1.0, "kern": 1.0, "end": 1.02}}}
    facts = RunFacts(iterations_s={"profile-1.json": 0.030})
    findings = findings_of(to_json(profile), facts=facts)

    assert findings["host_bound"].overlaps == ("outside_operators",)
    assert findings["outside_operators"].overlaps == ("host_bound",)
    assert "host_bound" not in findings["dominant_operator"].overlaps


def test_a_first_execution_disables_rules_about_times():
    advice = advise(data_of(recorded_profile("first_run")), NAN_FACTS)

    assert [finding.rule for finding in advice.findings] == ["first_run", "single_sample"]
    assert "slow_to_issue" not in advice.checked


@pytest.mark.parametrize(
    "path", sorted((DATA / "bad" / "profiles").glob("*.json")), ids=lambda path: path.stem
)
def test_advice_on_a_damaged_profile_has_finite_numbers_and_existing_rows(path: Path):
    try:
        data = data_of(path.read_bytes())
    except ProfileFormatError:
        return  # the file is refused at import
    advice = advise(data, NAN_FACTS)

    assert math.isfinite(advice.total_s)
    for finding in advice.findings:
        assert finding.saves_s is None or 0 < finding.saves_s < math.inf
        assert all(0 <= row < len(data.columns) for row in finding.rows)
        assert all(
            math.isfinite(value) for value in finding.params.values() if not isinstance(value, str)
        )


@pytest.mark.parametrize("name", ["no_operators", "empty_profiler_device", "time_all_zero"])
def test_a_profile_without_device_times_gives_no_advice(name):
    assert findings_of(bad_profile(name), facts=NAN_FACTS) == {}


def test_short_kernels_on_a_gpu_are_not_tiny_operators():
    on_cpu = recorded_profile("deep_loop")
    on_gpu = on_cpu.replace(b"xpux:0", b"gpu0:0").replace(b"cpu0:0", b"gpu0:0")
    findings = findings_of(on_gpu)

    assert "tiny_operators" in findings_of(on_cpu)
    assert "host_bound" in findings
    assert not {"tiny_operators", "too_short"} & findings.keys()
