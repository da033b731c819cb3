"""Which rules fire on which real profile: exactly these, and why."""

import pytest

from profiles.analysis.advice import RULES, RunFacts, advise
from profiles.tests.advice_data import recorded
from profiles.tests.passes import data_of

#: opened profiles, of which nothing else is known; `single_sample` fires on all of them
SHARED = {
    # transposes of heads and the reshapes that copy after them take 9 %; its largest type has 36 %
    "bert_tiny": "layout_changes no_memory_plan",
    # 5,314 elementwise operators on 64 numbers each: nothing but launches
    "deep_loop": "tiny_operators host_bound dominant_type no_memory_plan",
    # CondTake's output has as many elements as the mask has ones; 60 us are too short for shares
    "dynamic_shape": "dynamic_shapes no_memory_plan too_short",
    "hostile_names": "no_memory_plan too_short",
    # one LSTM, whose steps the host issues one after the other
    "lstm": "slow_to_issue dominant_operator no_memory_plan",
    # nothing is computed, so no variable lacks a plan
    "no_op": "too_short",
    # already fused by quantisation
    "quantized": "dominant_type dominant_operator no_memory_plan",
    # the largest convolution has 14 %, so none dominates alone
    "resnet18": "unfused_batch_norm dominant_type no_memory_plan",
    # a narrow one: convolutions have 49 % only, and the device is idle for 13 %
    "resnet18_fbs1": "unfused_batch_norm host_bound no_memory_plan",
    # folded and fused: the residual additions behind it are no biases; the first has 24 %
    "resnet18_opt": "dominant_type no_memory_plan",
    "tiny": "no_memory_plan too_short",
    # 61 callbacks into Python; what optimizes inference is not named
    "train_mlp": "python_callbacks training",
    # conv + bias + ReLU, but both take 7 us together: less than the clock can tell
    "two_inputs": "no_memory_plan too_short",
    # load_and_run itself plans memory
    "opt__lite_profile": "dominant_type dominant_operator",
    "opt__multithread": "dominant_type dominant_operator",
    "resnet18_opt__profile": "dominant_type dominant_operator",
    "tiny__profile": "too_short",
    "two_inputs__profile": "too_short",
}
OWN = {
    "conv_bias": "unfused_bias dominant_operator",
    "conv_bias_fused": "dominant_operator",
    "constant_work": "constant_work dominant_operator",
    "transposes": "layout_changes dominant_type dominant_operator",
    "type_changes": "type_changes dominant_type dominant_operator",
    # results of 4 MiB are copied to the host
    "result_copy": "dominant_type copies dominant_operator",
    # its copies wait 28 ms and copy for 2 us: on processors, comp nodes share memory
    "waiting_copies": "dominant_type no_memory_plan",
    "lstm_two_threads": "slow_to_issue dominant_operator",
    # the host's time holds the device's here, and says nothing
    "lstm_one_thread": "dominant_operator",
    # all times are wrong, so no other rule that goes by times is asked
    "first_run": "first_run",
    # one of its 24 equal products took 8.3 ms, so that it does not dominate
    "interrupted": "interrupted",
    # 0.4 GFLOP/s
    "float16": "slow_float16 dominant_type",
    "resnet18_planned": "unfused_batch_norm dominant_type",
}


def rules_of(name: str, facts: RunFacts) -> list[str]:
    rules = [finding.rule for finding in advise(data_of(recorded(name)), facts).findings]
    assert rules.count("single_sample") == 1
    rules.remove("single_sample")
    return rules


@pytest.mark.parametrize("name", SHARED)
def test_exactly_these_rules_fire_on_a_profile_that_was_opened(name):
    assert rules_of(name, RunFacts()) == SHARED[name].split()


@pytest.mark.parametrize("name", OWN)
def test_exactly_these_rules_fire_on_a_profile_made_for_one_of_them(name):
    assert rules_of(name, RunFacts()) == OWN[name].split()


@pytest.mark.parametrize("name", SHARED)
def test_of_a_run_on_the_site_its_options_are_known_and_memory_is_planned(name):
    expected = set(SHARED[name].split()) - {"no_memory_plan"}
    # the models whose convolutions are fused
    if name in ("quantized", "opt__multithread") or name.startswith(("resnet18_opt", "opt__lite")):
        expected.add("untried_algorithms")

    assert set(rules_of(name, RunFacts(options={}))) == expected


@pytest.mark.parametrize("name", [*SHARED, *OWN])
def test_options_to_try_stand_first_then_what_saves_most_and_never_more_than_there_is(name):
    advice = advise(data_of(recorded(name)), RunFacts())

    gains = [finding for finding in advice.findings if finding.severity == "gain"]
    order = [finding.severity for finding in advice.findings]
    assert gains == sorted(gains, key=lambda finding: (not finding.options, -finding.saves_s))
    assert all(0 < finding.saves_s <= advice.total_s for finding in gains)
    assert order == sorted(order, key=["warning", "gain", "note"].index)


def test_each_rule_fires_on_some_real_profile_or_has_a_test_of_its_own():
    fired = set(" ".join([*SHARED.values(), *OWN.values()]).split())
    by_facts = {
        "contaminated",
        "unsteady",
        "far_from_roof",
        "untried_algorithms",
        "blocked_layout",
        "outside_operators",
        "slow_profiling",
        "single_sample",
        # of recorded profiles none has it: test_advice_trust
        "spike",
        # of traces alone: test_advice_traces
        "waiting",
    }

    assert {rule.name for rule in RULES} == fired | by_facts
