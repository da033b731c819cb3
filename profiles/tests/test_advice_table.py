"""The exact set of rules that fire on each real profile, with the reasons."""

import pytest

from profiles.analysis.advice.finding import RunFacts
from profiles.analysis.advice.registry import RULES, advise
from profiles.tests.advice_data import recorded_profile
from profiles.tests.passes import data_of

#: rules by imported profile, without facts about the run; `single_sample` fires on all of them
IMPORTED = {
    # transposes of attention heads and copying reshapes take 9 %; the largest type takes 36 %
    "bert_tiny": "layout_changes no_memory_plan",
    # 5,314 elementwise operators on 64 numbers each: launches take nearly all of the time
    "deep_loop": "tiny_operators host_bound dominant_type no_memory_plan",
    # the output of CondTake depends on values of the mask; 60 us are too short for shares
    "dynamic_shape": "dynamic_shapes no_memory_plan too_short",
    "hostile_names": "no_memory_plan too_short",
    # one LSTM, whose steps the host issues one by one
    "lstm": "slow_to_issue dominant_operator no_memory_plan",
    # nothing is computed, so no variable lacks a plan
    "no_op": "too_short",
    # already fused by quantisation
    "quantized": "dominant_type dominant_operator no_memory_plan",
    # the largest convolution takes 14 %, so no single operator dominates
    "resnet18": "unfused_batch_norm dominant_type no_memory_plan",
    # a narrow ResNet: convolutions take only 49 %, and the device is idle for 13 %
    "resnet18_fbs1": "unfused_batch_norm host_bound no_memory_plan",
    # folded and fused; residual additions are no biases; the largest operator takes 24 %
    "resnet18_opt": "dominant_type no_memory_plan",
    "tiny": "no_memory_plan too_short",
    # 61 callbacks into Python; options that optimize inference do not apply to training
    "train_mlp": "python_callbacks training",
    # conv + bias + ReLU, but bias and ReLU take 7 us: below the resolution of the clock
    "two_inputs": "no_memory_plan too_short",
    # load_and_run itself plans memory
    "opt__lite_profile": "dominant_type dominant_operator",
    "opt__multithread": "dominant_type dominant_operator",
    "resnet18_opt__profile": "dominant_type dominant_operator",
    "tiny__profile": "too_short",
    "two_inputs__profile": "too_short",
}
#: rules by profile of `advice_profiles`
RECORDED = {
    "conv_bias": "unfused_bias dominant_operator",
    "conv_bias_fused": "dominant_operator",
    "constant_work": "constant_work dominant_operator",
    "transposes": "layout_changes dominant_type dominant_operator",
    "type_changes": "type_changes dominant_type dominant_operator",
    # results of 4 MiB are copied to the host
    "result_copy": "dominant_type copies dominant_operator",
    # copies wait 28 ms and copy for 2 us: comp nodes of a processor share memory
    "waiting_copies": "dominant_type no_memory_plan",
    "lstm_two_threads": "slow_to_issue dominant_operator",
    # with one thread the host's time includes the device's
    "lstm_one_thread": "dominant_operator",
    # all times are unusable, so no other rule about times is checked
    "first_run": "first_run",
    # one of its 24 equal products was interrupted (8.3 ms), so it does not count as dominant
    "interrupted": "interrupted",
    # 0.4 GFLOP/s
    "float16": "slow_float16 dominant_type",
    "resnet18_planned": "unfused_batch_norm dominant_type",
}


def rules_of(name: str, facts: RunFacts) -> list[str]:
    rules = [finding.rule for finding in advise(data_of(recorded_profile(name)), facts).findings]
    assert rules.count("single_sample") == 1
    rules.remove("single_sample")
    return rules


@pytest.mark.parametrize(("name", "rules"), [*IMPORTED.items(), *RECORDED.items()])
def test_rules_that_fire_on_a_profile_without_facts_about_the_run(name, rules):
    assert rules_of(name, RunFacts()) == rules.split()


@pytest.mark.parametrize("name", IMPORTED)
def test_known_options_add_untried_algorithms_and_remove_no_memory_plan(name):
    expected = set(IMPORTED[name].split()) - {"no_memory_plan"}
    # models whose convolutions are fused
    if name in ("quantized", "opt__multithread") or name.startswith(("resnet18_opt", "opt__lite")):
        expected.add("untried_algorithms")

    assert set(rules_of(name, RunFacts(options={}))) == expected


@pytest.mark.parametrize("name", [*IMPORTED, *RECORDED])
def test_findings_with_options_come_first_then_by_savings_below_the_total(name):
    advice = advise(data_of(recorded_profile(name)), RunFacts())

    gains = [finding for finding in advice.findings if finding.severity == "gain"]
    order = [finding.severity for finding in advice.findings]
    assert gains == sorted(gains, key=lambda finding: (not finding.options, -finding.saves_s))
    assert all(0 < finding.saves_s <= advice.total_s for finding in gains)
    assert order == sorted(order, key=["warning", "gain", "note"].index)


def test_every_rule_fires_on_a_recorded_profile_or_has_its_own_test():
    fired = set(" ".join([*IMPORTED.values(), *RECORDED.values()]).split())
    by_facts = {
        "disturbed",
        "unsteady",
        "far_from_roof",
        "untried_algorithms",
        "blocked_layout",
        "outside_operators",
        "slow_profiling",
        "single_sample",
        # no recorded profile has one: see test_advice_reliability
        "spike",
        # for traces only: see test_advice_traces
        "waiting",
    }

    assert {rule.name for rule in RULES} == fired | by_facts
