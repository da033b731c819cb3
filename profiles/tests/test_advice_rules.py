"""Each rule of advice on a real profile: the operators it names and the time it could save."""

import json
from itertools import pairwise

import pytest

from profiles.analysis.advice import Finding, RunFacts, advise
from profiles.analysis.roofline import Roofs
from profiles.tests.advice_data import by_hand, recorded, total_by_hand
from profiles.tests.passes import data_of

ROOFS = Roofs({"Float32": 60e9}, 12e9, "measured")


def finding_of(rule: str, name: str, facts: RunFacts | None = None) -> Finding | None:
    findings = advise(data_of(recorded(name)), facts or RunFacts()).findings
    return next((finding for finding in findings if finding.rule == rule), None)


def names(finding: Finding, profile: str) -> list[str]:
    rows = by_hand(profile)
    return [rows[row]["name"] for row in finding.rows]


def test_folding_batch_norm_saves_the_time_of_all_twenty_of_a_resnet():
    finding = finding_of("unfused_batch_norm", "resnet18")

    norms = [row for row in by_hand("resnet18") if row["type"] == "BatchNormForward"]
    assert len(finding.rows) == len(norms) == finding.params["count"] == 20
    assert finding.saves_s == pytest.approx(sum(row["device_s"] for row in norms))
    assert finding.saves_s == pytest.approx(3.237e-3)
    assert finding.params["share"] == pytest.approx(finding.saves_s / total_by_hand("resnet18"))
    slowest = max(norms, key=lambda row: row["device_s"])
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
def test_an_option_that_was_on_is_not_advised_again(rule, name, option):
    assert finding_of(rule, name, RunFacts(options={option: False}))
    assert not finding_of(rule, name, RunFacts(options={option: True}))


def test_biases_and_activations_behind_three_convolutions_could_join_them():
    finding = finding_of("unfused_bias", "conv_bias")

    elementwise = [row for row in by_hand("conv_bias") if row["type"] == "Elemwise"]
    assert names(finding, "conv_bias") == [
        "FUSE_ADD_RELU(b.bias,b.Convolution)[50]",
        "FUSE_ADD_RELU(a.bias,a.Convolution)[41]",
        "ADD(c.bias,c.Convolution)[55]",
    ]
    assert finding.saves_s == pytest.approx(sum(row["device_s"] for row in elementwise))


def test_a_product_of_weights_is_computed_anew_and_its_use_is_not_named():
    finding = finding_of("constant_work", "constant_work")

    assert names(finding, "constant_work") == [
        "matrix_mul(const{512,512}[2],const{512,512}[4])[8]",
        "ADD(const<1>[6],MatrixMul[0])[13]",
    ]
    assert finding.saves_s == pytest.approx(6586e-6 + 19e-6)


def test_one_operator_that_takes_most_of_the_time_is_named():
    finding = finding_of("dominant_operator", "lstm")

    longest = max(by_hand("lstm"), key=lambda row: row["device_s"])
    assert names(finding, "lstm") == [longest["name"]]
    assert finding.params["type"] == longest["type"] == "LSTM"
    assert finding.saves_s == pytest.approx(longest["device_s"] / 2)


def test_an_operator_that_was_held_up_does_not_dominate():
    finding = finding_of("interrupted", "interrupted")

    slowest = max(by_hand("interrupted"), key=lambda row: row["device_s"])
    assert names(finding, "interrupted") == [slowest["name"]]
    # 76 % of the time: an operator dominates from a quarter on
    assert finding.params["share"] == pytest.approx(
        slowest["device_s"] / total_by_hand("interrupted"), abs=0.01
    )
    assert not finding_of("dominant_operator", "interrupted")
    assert not finding_of("far_from_roof", "interrupted", RunFacts(roofs=ROOFS))


def test_with_three_passes_an_operator_that_stays_slow_was_not_held_up():
    passes = [recorded("interrupted")] * 3
    rules = {finding.rule for finding in advise(data_of(*passes), RunFacts()).findings}

    assert "dominant_operator" in rules and "interrupted" not in rules


def test_shapes_that_depend_on_values_cannot_be_replayed():
    file = json.loads(recorded("lstm_two_threads"))
    assert "slow_to_issue" in {
        finding.rule for finding in advise(data_of(json.dumps(file).encode()), RunFacts()).findings
    }
    running = file["graph_exec"]["operator"][file["graph_exec"]["comp_seq"][-2]]
    for variable in running["output"]:
        file["graph_exec"]["var"][variable]["flag"].append("NO_SYS_MEM_ALLOC")

    found_rules = {
        finding.rule for finding in advise(data_of(json.dumps(file).encode()), RunFacts()).findings
    }
    assert "dynamic_shapes" in found_rules and "slow_to_issue" not in found_rules


def test_the_type_that_takes_most_of_the_time_is_named_with_its_operators():
    finding = finding_of("dominant_type", "resnet18")

    convolutions = [row for row in by_hand("resnet18") if row["type"] == "ConvolutionForward"]
    time_s = sum(row["device_s"] for row in convolutions)
    assert len(finding.rows) == len(convolutions)
    assert finding.params["share"] == pytest.approx(time_s / total_by_hand("resnet18"))
    assert finding.saves_s == pytest.approx(time_s / 2)


def test_tiny_operators_are_those_below_ten_microseconds_that_compute():
    finding = finding_of("tiny_operators", "deep_loop")

    tiny = [
        row["device_s"]
        for row in by_hand("deep_loop")
        if row["type"] == "Elemwise" and 0 < row["device_s"] < 10e-6
    ]
    assert len(finding.rows) == len(tiny) == finding.params["count"]
    assert finding.saves_s == pytest.approx(sum(tiny))
    assert finding.options == ("record_comp_seq",)


@pytest.mark.parametrize(("name", "idle_us"), [("deep_loop", 13107), ("resnet18_fbs1", 195)])
def test_a_device_that_waits_for_the_host_could_save_its_gaps(name, idle_us):
    finding = finding_of("host_bound", name)

    device = json.loads(recorded(name))["profiler"]["device"]
    times = sorted(
        (interval["start"], interval["end"])
        for nodes in device.values()
        for interval in nodes.values()
    )
    gaps = [max(after[0] - before[1], 0) for before, after in pairwise(times)]
    assert finding.saves_s == pytest.approx(sum(gaps)) == pytest.approx(idle_us * 1e-6)
    host = by_hand(name)[finding.rows[0]]["host_s"]
    glue = ("ImmutableTensor", "InputCallback", "OutputCallback")
    assert host == max(row["host_s"] for row in by_hand(name) if row["type"] not in glue)


def test_an_lstm_whose_kernels_the_host_issues_slowly_could_save_that_time():
    finding = finding_of("slow_to_issue", "lstm")

    lstm = next(row for row in by_hand("lstm") if row["type"] == "LSTM")
    assert names(finding, "lstm") == [lstm["name"]]
    assert finding.saves_s == pytest.approx(lstm["host_s"]) == pytest.approx(1504e-6)
    assert finding.params["host"] == pytest.approx(lstm["host_s"] / lstm["device_s"])


def test_a_result_that_is_copied_to_the_host_counts_as_a_copy_without_its_wait():
    finding = finding_of("copies", "result_copy")

    moving = ("Copy", "Host2DeviceCopy", "ComputingGraphImpl::CallbackCaller")
    copies = [row["work_s"] for row in by_hand("result_copy") if row["type"] in moving]
    assert finding.saves_s == pytest.approx(sum(copies))
    assert names(finding, "result_copy")[0] == "callback(ADD)[24]"


def test_transposes_and_the_reshapes_that_copy_after_them_are_layout_changes():
    finding = finding_of("layout_changes", "bert_tiny")

    changing = [
        row
        for row in by_hand("bert_tiny")
        if row["type"] == "Dimshuffle"
        or (row["type"] == "Reshape" and "in_layouts" in row["footprint"])
    ]
    assert finding.saves_s == pytest.approx(sum(row["device_s"] for row in changing))
    assert {"Reshape", "Dimshuffle"} >= {by_hand("bert_tiny")[r]["type"] for r in finding.rows}
    assert len(finding.rows) == sum(row["device_s"] > 0 for row in changing)


def test_conversions_between_dtypes_are_summed_up():
    finding = finding_of("type_changes", "type_changes")

    converting = [row for row in by_hand("type_changes") if row["type"] == "TypeCvt"]
    assert finding.params["count"] == len(converting) == 4
    assert finding.saves_s == pytest.approx(sum(row["device_s"] for row in converting))


def test_values_that_a_step_of_training_exchanges_with_python_are_summed_up():
    finding = finding_of("python_callbacks", "train_mlp")

    calling = [
        row["device_s"] for row in by_hand("train_mlp") if row["type"].endswith("putCallback")
    ]
    assert finding.saves_s == pytest.approx(sum(calling)) == pytest.approx(4745e-6)


def test_an_operator_whose_output_depends_on_values_is_named():
    finding = finding_of("dynamic_shapes", "dynamic_shape")

    assert [by_hand("dynamic_shape")[row]["type"] for row in finding.rows] == ["CondTake"]
    assert finding.saves_s is None


def test_variables_without_a_plan_are_counted_where_python_feeds_the_inputs():
    finding = finding_of("no_memory_plan", "resnet18")

    assert (finding.params["count"], finding.params["of"]) == (221, 221)
    assert [by_hand("resnet18")[row]["type"] for row in finding.rows] == ["InputCallback"]


def test_what_lies_above_the_roof_is_told_where_the_roofs_were_measured():
    finding = finding_of("far_from_roof", "resnet18", RunFacts(roofs=ROOFS))

    rows, saved = by_hand("resnet18"), {}
    for row, operator in enumerate(rows):
        foot = operator["footprint"]
        if operator["type"] == "ConvolutionForward":
            least = max(foot["computation"] / 60e9, foot["memory"] / 12e9)
        elif operator["type"] in ("BatchNormForward", "PoolingForward", "Reduce", "Elemwise"):
            least = foot["memory"] / 12e9
        else:
            continue
        if operator["device_s"] >= 20e-6 and 5e-6 <= least < operator["device_s"] / 2:
            saved[row] = operator["device_s"] - least / 0.8
    assert set(finding.rows) == set(saved)
    assert finding.saves_s == pytest.approx(sum(saved.values()))
    assert finding.params["computing"] + finding.params["moving"] == len(saved)


def test_without_measured_roofs_nothing_is_said_of_them():
    advice = advise(data_of(recorded("resnet18")), RunFacts())

    assert ("far_from_roof", "roofs") in advice.unknown
    assert "far_from_roof" not in advice.checked


def test_a_roof_that_operators_reach_gives_no_advice():
    # the profile's fastest matrix product reaches 30 GFLOP/s, its fastest copy 21 GB/s
    slow = Roofs({"Float32": 5e9}, 1e9, "measured")

    assert finding_of("far_from_roof", "resnet18", RunFacts(roofs=slow)) is None


def test_fused_convolutions_whose_algorithm_was_guessed_could_take_half_as_long():
    finding = finding_of("untried_algorithms", "resnet18_opt", RunFacts(options={}))

    fused = [row["device_s"] for row in by_hand("resnet18_opt") if row["type"] == "ConvBiasForward"]
    assert finding.params["count"] == len(fused) == 17
    assert finding.saves_s == pytest.approx(sum(fused) / 2)


@pytest.mark.parametrize(("machine", "fires"), [("aarch64", True), ("x86_64", False), ("", False)])
def test_a_blocked_layout_is_named_on_arm_only(machine, fires):
    finding = finding_of("blocked_layout", "resnet18_opt", RunFacts(options={}, machine=machine))

    assert bool(finding) is fires
    if finding:
        # all convolutions but the first, which has three channels
        assert finding.params["count"] == 19
        assert finding.saves_s is None
