"""Alignment of operators on real profiles, and on edits whose correct alignment is known."""

import random
from collections import Counter

import pytest

from profiles.analysis.advice.operator_types import CONSTANTS
from profiles.comparison.align import align
from profiles.comparison.classify import status_of
from profiles.comparison.nodes import Nodes
from profiles.comparison.regions import OperatorGroup, groups_of
from profiles.formats.columns import MISSING
from profiles.tests.advice_data import recorded
from profiles.tests.graph_edits import (
    chains,
    compiled_profile,
    fused,
    profile_of,
    read_nodes,
    relabelled,
    to_bytes,
    with_copy_after,
    without,
)
from testdata import DATA, good_profile

REAL = sorted(path.stem for path in (DATA / "profiles").glob("*.json"))
#: similar operators, shared constants, operators that never run, generated names
EDITED = ["resnet18", "resnet18_opt", "resnet18_fbs1", "bert_tiny", "train_mlp", "quantized"]


def classify_groups(
    a: bytes, b: bytes
) -> tuple[Nodes, Nodes, list[tuple[OperatorGroup, str, tuple[str, ...]]]]:
    """Return both sides and their groups with status and reasons."""
    one, other = read_nodes(a), read_nodes(b)
    groups = groups_of(align(one, other))
    return one, other, [(group, *status_of(group, one, other)) for group in groups]


def counted(a: bytes, b: bytes) -> Counter[str]:
    """Count the groups of each status; groups of constants are left out."""
    one, other, classified = classify_groups(a, b)
    return Counter(
        status
        for group, status, _ in classified
        if not all(map(one.is_constant, group.a)) or not all(map(other.is_constant, group.b))
    )


@pytest.mark.parametrize("name", REAL)
def test_a_profile_is_the_same_as_itself(name):
    a = read_nodes(good_profile(name))
    alignment = align(a, read_nodes(good_profile(name)))
    assert alignment.of_a == list(range(len(a)))
    assert {
        status for _, status, _ in classify_groups(good_profile(name), good_profile(name))[2]
    } == {"same"}


@pytest.mark.parametrize("name", EDITED)
@pytest.mark.parametrize("seed", range(3))
def test_another_dump_of_the_same_model_is_the_same(name, seed):
    one, _, classified = classify_groups(
        good_profile(name), to_bytes(relabelled(profile_of(name), random.Random(seed)))
    )
    assert {status for _, status, _ in classified} == {"same"}
    assert all(len(group.a) == len(group.b) == 1 for group, _, _ in classified)
    assert len(classified) == len(one)


@pytest.mark.parametrize("name", ["resnet18", "bert_tiny", "resnet18_fbs1"])
def test_relabelled_operators_find_their_own_counterparts(name):
    profile = profile_of(name)
    renamed = relabelled(profile, random.Random(7))
    a, b = read_nodes(to_bytes(profile)), read_nodes(to_bytes(renamed))
    # both have the same order of execution, which the alignment does not use
    alignment = align(a, b)
    wrong = [
        (a.short_names[x], b.short_names[alignment.of_a[x]])
        for x, y in zip(a.order, b.order, strict=True)
        if a.place[x] < len(profile["graph_exec"]["comp_seq"]) and alignment.of_a[x] != y
    ]
    # operators of equal type, shapes and neighbours may be exchanged
    assert len(wrong) <= len(a) // 20
    for x, y in enumerate(alignment.of_a):
        assert a.kinds[x] == b.kinds[y]
        assert (a.in_shapes[x], a.out_shapes[x]) == (b.in_shapes[y], b.out_shapes[y])


def test_the_order_of_the_arguments_does_not_change_the_pairs():
    a, b = read_nodes(good_profile("resnet18")), read_nodes(good_profile("resnet18_fbs1"))
    forward, backward = align(a, b), align(b, a)
    assert forward.of_a == backward.of_b


@pytest.mark.parametrize("name", ["resnet18", "bert_tiny"])
def test_a_removed_operator_alone_is_gone(name):
    profile = profile_of(name)
    for chain in random.Random(3).sample(chains(profile, 2), 8):
        one, _, classified = classify_groups(
            to_bytes(profile), to_bytes(without(profile, chain[0]))
        )
        statuses = Counter(status for _, status, _ in classified)
        gone = [group.a for group, status, _ in classified if status == "gone"]
        assert (statuses["gone"], statuses["new"]) == (1, 0)
        assert one.kinds[gone[0][0]].startswith(profile["graph_exec"]["operator"][chain[0]]["type"])


@pytest.mark.parametrize("name", ["resnet18", "resnet18_opt", "bert_tiny"])
def test_an_inserted_operator_alone_is_new(name):
    profile = profile_of(name)
    for seed, chain in enumerate(random.Random(5).sample(chains(profile, 2), 8)):
        edited = relabelled(with_copy_after(profile, chain[0]), random.Random(seed))
        _, other, classified = classify_groups(to_bytes(profile), to_bytes(edited))
        new = [other.kinds[group.b[0]] for group, status, _ in classified if status == "new"]
        assert new == ["Inserted"]
        assert Counter(status for _, status, _ in classified)["gone"] == 0


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("name", ["resnet18", "bert_tiny"])
def test_a_chain_that_became_one_operator_is_fused_and_nothing_else_changes(name, length):
    profile = profile_of(name)
    for seed, chain in enumerate(random.Random(11).sample(chains(profile, length), 8)):
        edited = relabelled(fused(profile, chain), random.Random(seed))
        one, other, classified = classify_groups(to_bytes(profile), to_bytes(edited))
        groups = [group for group, status, _ in classified if status == "fused"]
        assert len(groups) == 1
        computing = [x for x in groups[0].a if not one.is_constant(x)]
        assert len(computing) == length
        assert [other.kinds[y] for y in groups[0].b if not other.is_constant(y)] == ["Fused"]
        assert {status for _, status, _ in classified} <= {"fused", "same"}


def test_a_fusion_compared_backwards_is_a_split():
    profile = profile_of("resnet18")
    chain = chains(profile, 3)[0]
    counts = counted(to_bytes(fused(profile, chain)), to_bytes(profile))
    assert (counts["split"], counts["fused"], counts["new"], counts["gone"]) == (1, 0, 0, 0)


def test_folded_batch_normalization_is_found_as_fusion():
    """resnet18_opt is resnet18 with fuse_conv_bias_nonlinearity.

    By hand: 17 of its 20 convolutions became ConvBias together with the operators behind them;
    3 convolutions on the shortcuts did not.
    """
    one, other, classified = classify_groups(good_profile("resnet18"), good_profile("resnet18_opt"))
    fusions = {
        tuple(one.kinds[x] for x in group.a if not one.is_constant(x)): tuple(
            other.kinds[y] for y in group.b if not other.is_constant(y)
        )
        for group, status, _ in classified
        if status == "fused"
    }
    assert fusions[("ConvolutionForward", "BatchNormForward", "Elemwise RELU")] == (
        "ConvBiasForward",
    )
    assert fusions[
        ("Identity", "ConvolutionForward", "BatchNormForward", "Elemwise ADD", "Elemwise RELU")
    ] == ("ConvBiasForward", "Elemwise FUSE_ADD_RELU")
    counts = counted(good_profile("resnet18"), good_profile("resnet18_opt"))
    assert (counts["fused"], counts["gone"], counts["new"], counts["changed"]) == (17, 0, 0, 0)
    shortcuts = [
        one.value_names[group.a[0]][0]
        for group, status, _ in classified
        if status == "same" and one.kinds[group.a[0]] == "ConvolutionForward"
    ]
    assert sorted(shortcuts) == [f"layer{n}.0.downsample.0.Convolution" for n in (2, 3, 4)]


def test_a_batch_norm_of_which_an_addition_is_left_is_fused():
    """optimize_for_inference moves the scale of the BatchNorm into the convolution's weights."""
    profile = profile_of("resnet18")
    operators = profile["graph_exec"]["operator"]
    key = next(
        key for key, operator in operators.items() if operator["type"].startswith("BatchNorm")
    )
    folded = to_bytes(fused(profile, [key], "Elemwise"))
    unfolded = good_profile("resnet18")
    for pair, expected in (((unfolded, folded), "fused"), ((folded, unfolded), "split")):
        assert counted(*pair)[expected] == 1
        assert counted(*pair)["changed"] == 0


def test_a_convolution_that_took_over_a_sum_with_its_shortcut_is_fused_with_both_norms():
    """At layers 2, 3 and 4 a ConvBias adds the convolution of the shortcut.

    The constants that both BatchNorms add became one constant of the FUSE_ADD_RELU behind it.
    """
    before, after = recorded("resnet18_planned"), compiled_profile("resnet18_opt__profile")
    one, _, classified = classify_groups(before, after)
    fusions = {
        one.value_names[x][0]: sorted(
            one.kinds[member] for member in group.a if one.computes(member)
        )
        for group, status, _ in classified
        if status == "fused"
        for x in group.a
    }
    for n in (2, 3, 4):
        assert fusions[f"layer{n}.0.downsample.1.BatchNorm:o5"] == [
            "BatchNormForward",
            "BatchNormForward",
            "ConvolutionForward",
        ]
        assert f"layer{n}.0.conv2.Convolution" in fusions
    gone = [one.kinds[group.a[0]] for group, status, _ in classified if status == "gone"]
    computing = [kind for kind in gone if kind not in CONSTANTS]
    # the wheel returns results through a callback, the compiled program does not
    assert computing == ["ComputingGraphImpl::CallbackCaller"]
    counts = counted(before, after)
    assert (counts["fused"], counts["new"]) == (17, 0)


def test_the_same_network_with_other_shapes_is_changed_throughout():
    """resnet18_fbs1 has half the channels, a smaller input and generated names."""
    _, _, classified = classify_groups(good_profile("resnet18"), good_profile("resnet18_fbs1"))
    one = read_nodes(good_profile("resnet18"))
    computing = [
        (status, reasons)
        for group, status, reasons in classified
        if group.a and one.inputs[group.a[0]] and one.kinds[group.a[0]] == "ConvolutionForward"
    ]
    assert len(computing) == 20
    assert {status for status, _ in computing} == {"changed"}
    assert all("shapes" in reasons for _, reasons in computing)


def test_a_compiled_load_and_run_executes_the_same_model_alike():
    one, _, classified = classify_groups(
        good_profile("resnet18_opt"), compiled_profile("resnet18_opt__profile")
    )
    others = [
        (one.kinds[group.a[0]], status, reasons)
        for group, status, reasons in classified
        if status != "same"
    ]
    assert sorted(others) == [
        ("InputCallback", "changed", ("type",)),
        ("OutputCallback", "gone", ()),
    ]


def test_two_elementwise_operators_that_became_one_are_fused():
    one, other, classified = classify_groups(
        good_profile("two_inputs"), compiled_profile("two_inputs__profile")
    )
    became = [
        ([one.kinds[x] for x in group.a], [other.kinds[y] for y in group.b])
        for group, status, _ in classified
        if status == "fused"
    ]
    assert became == [(["Elemwise ADD", "Elemwise RELU"], ["Elemwise FUSE_ADD_RELU"])]


@pytest.mark.parametrize(
    ("a", "b"), [("bert_tiny", "tiny"), ("bert_tiny", "deep_loop"), ("tiny", "lstm")]
)
def test_models_that_have_nothing_in_common_are_not_forced_together(a, b):
    counts = counted(good_profile(a), good_profile(b))
    assert counts["same"] + counts["changed"] <= 1  # both may have an input called “data”
    assert counts["fused"] == counts["split"] == 0


@pytest.mark.parametrize("name", ["resnet18", "bert_tiny", "deep_loop"])
def test_every_operator_stands_in_one_group_and_types_are_never_mixed(name):
    one, other, classified = classify_groups(good_profile(name), good_profile("resnet18_opt"))
    assert sorted(x for group, _, _ in classified for x in group.a) == list(range(len(one)))
    assert sorted(y for group, _, _ in classified for y in group.b) == list(range(len(other)))
    for group, _, _ in classified:
        if group.a and group.b and group.how != "region":
            assert one.kinds[group.a[0]] == other.kinds[group.b[0]]


def test_operators_without_a_graph_are_aligned_by_name():
    profile = profile_of("tiny")
    profile["graph_exec"]["var"] = {}
    for operator in profile["graph_exec"]["operator"].values():
        operator["input"], operator["output"] = [], []
    nodes = read_nodes(to_bytes(profile))
    alignment = align(nodes, read_nodes(to_bytes(profile)))
    assert MISSING not in alignment.of_a
