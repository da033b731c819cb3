"""Rules about the measurement itself, and profiles that are odd."""

import json
import math
from pathlib import Path

import pytest

from profiles.analysis.advice import Facts, advise
from profiles.analysis.roofline import Roofs
from profiles.parsers.errors import ProfileFormatError
from profiles.tests.advice_data import data_of, recorded, total_by_hand
from testdata import DATA

EVERYTHING = Facts(
    iteration_s=1.0,
    iteration_cv=math.nan,
    overhead=math.nan,
    options={},
    machine="aarch64",
    roofs=Roofs({"Float32": 60e9}, 12e9, "measured"),
)


def slower(profile: bytes, factor: float) -> bytes:
    """The profile with all times on the device longer."""
    file = json.loads(profile)
    for nodes in file["profiler"]["device"].values():
        for times in nodes.values():
            times["end"] = times["start"] + (times["end"] - times["start"]) * factor
    return json.dumps(file).encode()


def rules(*passes: bytes, facts: Facts | None = None) -> set[str]:
    return {finding.rule for finding in advise(data_of(*passes), facts or Facts()).findings}


def test_several_passes_that_agree_are_neither_single_nor_unsteady():
    one = recorded("resnet18")

    assert not {"single_sample", "unsteady"} & rules(one, slower(one, 1.01), slower(one, 0.99))


def test_passes_that_differ_by_a_fifth_are_unsteady():
    one = recorded("resnet18")
    findings = advise(data_of(one, slower(one, 1.2)), Facts()).findings

    # 1 and 1.2: mean 1.1, standard deviation 0.1414
    assert findings[0].rule == "unsteady"
    assert findings[0].params["passes_cv"] == pytest.approx(0.2 / math.sqrt(2) / 1.1)


@pytest.mark.parametrize(("cv", "fires"), [(0.04, False), (0.08, True), (None, False)])
def test_iterations_that_differ_are_unsteady_too(cv, fires):
    assert ("unsteady" in rules(recorded("resnet18"), facts=Facts(iteration_cv=cv))) is fires


def test_a_contaminated_run_is_told_first():
    facts = Facts(contaminations=("other_load",))

    assert advise(data_of(recorded("resnet18")), facts).findings[0].rule == "contaminated"


@pytest.mark.parametrize(("times", "fires"), [(2.0, True), (1.2, False)])
def test_time_outside_of_operators_is_the_rest_of_a_clean_iteration(times, fires):
    total_s = total_by_hand("resnet18")
    findings = advise(data_of(recorded("resnet18")), Facts(iteration_s=total_s * times)).findings

    found = [each for each in findings if each.rule == "outside_operators"]
    assert bool(found) is fires
    if found:
        assert found[0].saves_s == pytest.approx(total_s)
        assert found[0].params["covered"] == pytest.approx(0.5)


@pytest.mark.parametrize(("overhead", "fires"), [(0.1, False), (0.4, True), (math.nan, False)])
def test_profiling_that_costs_much_is_told(overhead, fires):
    assert (
        "slow_profiling" in rules(recorded("resnet18"), facts=Facts(overhead=overhead))
    ) is fires


def test_a_first_execution_silences_the_rules_that_go_by_times():
    advice = advise(data_of(recorded("first_run")), EVERYTHING)

    assert [each.rule for each in advice.findings] == ["first_run", "single_sample"]
    assert "slow_to_issue" not in advice.checked


def test_the_same_model_after_a_warm_up_is_not_taken_for_a_first_execution():
    assert "first_run" not in rules(recorded("lstm_two_threads"))


@pytest.mark.parametrize(
    "path", sorted((DATA / "bad" / "profiles").glob("*.json")), ids=lambda path: path.stem
)
def test_a_damaged_profile_gives_no_nonsense(path: Path):
    try:
        data = data_of(path.read_bytes())
    except ProfileFormatError:
        return  # it cannot be opened at all
    advice = advise(data, EVERYTHING)

    assert math.isfinite(advice.total_s)
    for finding in advice.findings:
        assert finding.saves_s is None or 0 < finding.saves_s < math.inf
        assert all(0 <= row < len(data.columns) for row in finding.rows)
        assert all(
            math.isfinite(value) for value in finding.params.values() if not isinstance(value, str)
        )


@pytest.mark.parametrize("name", ["no_operators", "empty_profiler_device", "time_all_zero"])
def test_a_profile_without_time_on_the_device_gives_no_advice(name):
    profile = (DATA / "bad" / "profiles" / f"{name}.json").read_bytes()

    assert rules(profile, facts=EVERYTHING) == set()


def test_on_a_gpu_short_kernels_are_no_launches_but_its_idle_time_is_told():
    renamed = recorded("deep_loop").replace(b"xpux:0", b"gpu0:0").replace(b"cpu0:0", b"gpu0:0")

    assert "tiny_operators" in rules(recorded("deep_loop"))
    assert "host_bound" in rules(renamed)
    assert not {"tiny_operators", "too_short"} & rules(renamed)
