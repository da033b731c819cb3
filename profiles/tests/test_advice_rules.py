"""Each rule of advice on a real profile: the operators it names and the time it could save."""

import json
from itertools import pairwise

import pytest

from profiles.analysis.advice.finding import Finding, RunFacts
from profiles.analysis.advice.registry import advise
from profiles.analysis.roofline import Roofs
from profiles.tests.advice_data import (
    ROOFS,
    expected_rows,
    expected_total_s,
    findings_of,
    recorded_profile,
)
from profiles.tests.make import to_json
from profiles.tests.passes import data_of


def finding_of(rule: str, name: str, facts: RunFacts | None = None) -> Finding | None:
    return findings_of(recorded_profile(name), facts=facts).get(rule)


def names(finding: Finding, profile: str) -> list[str]:
    rows = expected_rows(profile)
    return [rows[row]["name"] for row in finding.rows]


def types(finding: Finding, profile: str) -> list[str]:
    rows = expected_rows(profile)
    return [rows[row]["type"] for row in finding.rows]


def times_s(profile: str, *operator_types: str, key: str = "device_s") -> list[float]:
    """Return the expected times of all operators of these types, s."""
    return [row[key] for row in expected_rows(profile) if row["type"] in operator_types]


def test_unfused_batch_norm_saves_the_time_of_all_twenty_batch_norms():
    finding = finding_of("unfused_batch_norm", "resnet18")

    rows = [row for row in expected_rows("resnet18") if row["type"] == "BatchNormForward"]
    assert len(finding.rows) == len(rows) == finding.params["count"] == 20
    assert finding.saves_s == pytest.approx(sum(row["device_s"] for row in rows))
    assert finding.saves_s == pytest.approx(3.237e-3)
    assert finding.params["share"] == pytest.approx(finding.saves_s / expected_total_s("resnet18"))
    slowest = max(rows, key=lambda row: row["device_s"])
    assert names(finding, "resnet18")[0] == slowest["name"]
    assert finding.options == ("optimize_for_inference",)


@pytest.mark.parametrize(
    ("rule", "name", "option"),
    [
        ("unfused_batch_norm", "resnet18", "optimize_for_inference"),
        ("unfused_bias", "conv_bias", "enable_fuse_conv_bias_nonlinearity"),
        ("constant_work", "constant_work", "optimize_for_inference"),
        ("untried_algorithms", "resnet18_opt", "fast_run"),
        ("untried_algorithms", "resnet18_opt", "full_run"),
    ],
)
def test_an_option_that_the_run_used_is_not_advised(rule, name, option):
    assert finding_of(rule, name, RunFacts(options={option: False}))
    assert not finding_of(rule, name, RunFacts(options={option: True}))


def test_unfused_bias_names_biases_and_activations_after_convolutions():
    finding = finding_of("unfused_bias", "conv_bias")

    assert names(finding, "conv_bias") == [
        "FUSE_ADD_RELU(b.bias,b.Convolution)[50]",
        "FUSE_ADD_RELU(a.bias,a.Convolution)[41]",
        "ADD(c.bias,c.Convolution)[55]",
    ]
    assert finding.saves_s == pytest.approx(sum(times_s("conv_bias", "Elemwise")))


def test_constant_work_names_operators_of_constants_but_not_their_readers():
    finding = finding_of("constant_work", "constant_work")

    assert names(finding, "constant_work") == [
        "matrix_mul(const{512,512}[2],const{512,512}[4])[8]",
        "ADD(const<1>[6],MatrixMul[0])[13]",
    ]
    assert finding.saves_s == pytest.approx(6586e-6 + 19e-6)


def test_dominant_operator_names_the_operator_that_takes_most_of_the_time():
    finding = finding_of("dominant_operator", "lstm")

    longest = max(expected_rows("lstm"), key=lambda row: row["device_s"])
    assert names(finding, "lstm") == [longest["name"]]
    assert finding.params["type"] == longest["type"] == "LSTM"
    assert finding.saves_s == pytest.approx(longest["device_s"] / 2)


def test_an_interrupted_operator_does_not_dominate():
    finding = finding_of("interrupted", "interrupted")

    slowest = max(expected_rows("interrupted"), key=lambda row: row["device_s"])
    assert names(finding, "interrupted") == [slowest["name"]]
    # 76 % of the time: an operator dominates from a quarter on
    assert finding.params["share"] == pytest.approx(
        slowest["device_s"] / expected_total_s("interrupted"), abs=0.01
    )
    assert not finding_of("dominant_operator", "interrupted")
    assert not finding_of("far_from_roof", "interrupted", RunFacts(roofs=ROOFS))


def test_an_operator_that_is_slow_in_three_passes_was_not_interrupted():
    findings = findings_of(*[recorded_profile("interrupted")] * 3)

    assert "dominant_operator" in findings
    assert "interrupted" not in findings


def test_dynamic_shapes_replace_the_advice_to_record_the_sequence():
    assert "slow_to_issue" in findings_of(recorded_profile("lstm_two_threads"))
    file = json.loads(recorded_profile("lstm_two_threads"))
    operator = file["graph_exec"]["operator"][file["graph_exec"]["comp_seq"][-2]]
    for variable in operator["output"]:
        file["graph_exec"]["var"][variable]["flag"].append("NO_SYS_MEM_ALLOC")

    findings = findings_of(to_json(file))
    assert "dynamic_shapes" in findings
    assert "slow_to_issue" not in findings


@pytest.mark.parametrize("rule", ["tiny_operators", "host_bound"])
def test_kernels_are_not_recorded_with_dynamic_shapes(rule):
    assert "record_comp_seq" in finding_of(rule, "deep_loop").options
    file = json.loads(recorded_profile("deep_loop"))
    operator = file["graph_exec"]["operator"][file["graph_exec"]["comp_seq"][-2]]
    for variable in operator["output"]:
        file["graph_exec"]["var"][variable]["flag"].append("NO_SYS_MEM_ALLOC")

    findings = findings_of(to_json(file))
    assert "dynamic_shapes" in findings
    assert "record_comp_seq" not in findings[rule].options


def test_dominant_type_lists_all_operators_of_the_type():
    finding = finding_of("dominant_type", "resnet18")

    convolutions_s = times_s("resnet18", "ConvolutionForward")
    share = sum(convolutions_s) / expected_total_s("resnet18")
    assert len(finding.rows) == len(convolutions_s)
    assert finding.params["share"] == pytest.approx(share)
    assert finding.saves_s == pytest.approx(sum(convolutions_s) / 2)


def test_tiny_operators_lists_computing_operators_below_ten_microseconds():
    finding = finding_of("tiny_operators", "deep_loop")

    tiny_s = [time_s for time_s in times_s("deep_loop", "Elemwise") if 0 < time_s < 10e-6]
    assert len(finding.rows) == len(tiny_s) == finding.params["count"]
    assert finding.saves_s == pytest.approx(sum(tiny_s))
    assert finding.options == ("record_comp_seq",)


@pytest.mark.parametrize(("name", "idle_us"), [("deep_loop", 13107), ("resnet18_fbs1", 195)])
def test_host_bound_saves_the_gaps_between_operators(name, idle_us):
    finding = finding_of("host_bound", name)

    device = json.loads(recorded_profile(name))["profiler"]["device"]
    times = sorted(
        (interval["start"], interval["end"])
        for nodes in device.values()
        for interval in nodes.values()
    )
    gaps = [max(following[0] - interval[1], 0) for interval, following in pairwise(times)]
    assert finding.saves_s == pytest.approx(sum(gaps)) == pytest.approx(idle_us * 1e-6)
    host = expected_rows(name)[finding.rows[0]]["host_s"]
    glue_types = ("ImmutableTensor", "InputCallback", "OutputCallback")
    assert host == max(
        row["host_s"] for row in expected_rows(name) if row["type"] not in glue_types
    )


def test_slow_to_issue_saves_the_host_time_of_an_lstm():
    finding = finding_of("slow_to_issue", "lstm")

    lstm = next(row for row in expected_rows("lstm") if row["type"] == "LSTM")
    assert names(finding, "lstm") == [lstm["name"]]
    assert finding.saves_s == pytest.approx(lstm["host_s"]) == pytest.approx(1504e-6)
    assert finding.params["host"] == pytest.approx(lstm["host_s"] / lstm["device_s"])


def test_copies_include_results_copied_to_the_host_without_their_waits():
    finding = finding_of("copies", "result_copy")

    copy_types = ("Copy", "Host2DeviceCopy", "ComputingGraphImpl::CallbackCaller")
    copies_s = times_s("result_copy", *copy_types, key="work_s")
    assert finding.saves_s == pytest.approx(sum(copies_s))
    assert names(finding, "result_copy")[0] == "callback(ADD)[24]"


def test_layout_changes_are_transposes_and_reshapes_that_copy():
    finding = finding_of("layout_changes", "bert_tiny")

    layout_changes = [
        row
        for row in expected_rows("bert_tiny")
        if row["type"] == "Dimshuffle"
        or (row["type"] == "Reshape" and "in_layouts" in row["footprint"])
    ]
    assert finding.saves_s == pytest.approx(sum(row["device_s"] for row in layout_changes))
    assert {"Reshape", "Dimshuffle"}.issuperset(types(finding, "bert_tiny"))
    assert len(finding.rows) == sum(row["device_s"] > 0 for row in layout_changes)


def test_type_changes_saves_the_time_of_all_dtype_conversions():
    finding = finding_of("type_changes", "type_changes")

    conversions_s = times_s("type_changes", "TypeCvt")
    assert finding.params["count"] == len(conversions_s) == 4
    assert finding.saves_s == pytest.approx(sum(conversions_s))


def test_python_callbacks_saves_the_time_of_all_callbacks():
    finding = finding_of("python_callbacks", "train_mlp")

    callbacks = [
        row["device_s"] for row in expected_rows("train_mlp") if row["type"].endswith("putCallback")
    ]
    assert finding.saves_s == pytest.approx(sum(callbacks)) == pytest.approx(4745e-6)


def test_dynamic_shapes_names_operators_whose_output_shape_depends_on_values():
    finding = finding_of("dynamic_shapes", "dynamic_shape")

    assert types(finding, "dynamic_shape") == ["CondTake"]
    assert finding.saves_s is None


def test_no_memory_plan_counts_variables_without_a_plan():
    finding = finding_of("no_memory_plan", "resnet18")

    assert (finding.params["count"], finding.params["of"]) == (221, 221)
    assert types(finding, "resnet18") == ["InputCallback"]


def test_far_from_roof_saves_the_time_above_the_measured_peak():
    finding = finding_of("far_from_roof", "resnet18", RunFacts(roofs=ROOFS))

    rows, savings_s = expected_rows("resnet18"), {}
    for row, operator in enumerate(rows):
        footprint = operator["footprint"]
        if operator["type"] == "ConvolutionForward":
            least_s = max(footprint["computation"] / 60e9, footprint["memory"] / 12e9)
        elif operator["type"] in ("BatchNormForward", "PoolingForward", "Reduce", "Elemwise"):
            least_s = footprint["memory"] / 12e9
        else:
            continue
        if operator["device_s"] >= 20e-6 and 5e-6 <= least_s < operator["device_s"] / 2:
            savings_s[row] = operator["device_s"] - least_s / 0.8
    assert set(finding.rows) == set(savings_s)
    assert finding.saves_s == pytest.approx(sum(savings_s.values()))
    assert finding.params["computing"] + finding.params["moving"] == len(savings_s)


def test_far_from_roof_is_not_checked_without_measured_peaks():
    advice = advise(data_of(recorded_profile("resnet18")), RunFacts())

    assert ("far_from_roof", "roofs") in advice.unknown
    assert "far_from_roof" not in advice.checked


def test_operators_that_reach_the_peak_get_no_advice():
    # the profile's fastest matrix product reaches 30 GFLOP/s, its fastest copy 21 GB/s
    slow = Roofs({"Float32": 5e9}, 1e9, "measured")

    assert finding_of("far_from_roof", "resnet18", RunFacts(roofs=slow)) is None


def test_untried_algorithms_saves_half_the_time_of_fused_convolutions():
    finding = finding_of("untried_algorithms", "resnet18_opt", RunFacts(options={}))

    convolutions_s = times_s("resnet18_opt", "ConvBiasForward")
    assert finding.params["count"] == len(convolutions_s) == 17
    assert finding.saves_s == pytest.approx(sum(convolutions_s) / 2)


@pytest.mark.parametrize(("machine", "fires"), [("aarch64", True), ("x86_64", False), ("", False)])
def test_blocked_layout_is_advised_on_arm_only(machine, fires):
    finding = finding_of("blocked_layout", "resnet18_opt", RunFacts(options={}, machine=machine))

    assert bool(finding) is fires
    if finding:
        # all convolutions but the first, which has three channels
        assert finding.params["count"] == 19
        assert finding.saves_s is None
