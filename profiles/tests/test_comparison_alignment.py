"""Alignment of operators on real profiles, and on edits whose correct alignment is known."""

import random
from collections import Counter

import pytest

from profiles.analysis.advice.context import CONSTANTS
from profiles.comparison.align import align
from profiles.comparison.nodes import Nodes
from profiles.comparison.regions import OperatorGroup, groups_of
from profiles.comparison.rows import status_of
from profiles.formats.columns import MISSING
from profiles.tests.advice_data import recorded_profile
from profiles.tests.graph_edits import (
    bypass_operator,
    find_chains,
    fuse,
    insert_after,
    profile_of,
    read_nodes,
    relabel,
    without_graph,
)
from profiles.tests.make import to_json
from testdata import DATA, compiled_profile, good_profile

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


def count_statuses(a: bytes, b: bytes) -> Counter[str]:
    """Count the groups of each status, without groups of constants."""
    one, other, classified = classify_groups(a, b)
    return Counter(
        status
        for group, status, _ in classified
        if not all(map(one.is_constant, group.a)) or not all(map(other.is_constant, group.b))
    )


@pytest.mark.parametrize("name", REAL)
def test_a_profile_is_the_same_as_itself(name):
    profile = good_profile(name)
    nodes, _, classified = classify_groups(profile, profile)
    assert align(nodes, read_nodes(profile)).of_a == list(range(len(nodes)))
    assert {status for _, status, _ in classified} == {"same"}


@pytest.mark.parametrize("name", EDITED)
@pytest.mark.parametrize("seed", range(3))
def test_another_dump_of_the_same_model_is_the_same(name, seed):
    one, _, classified = classify_groups(
        good_profile(name), to_json(relabel(profile_of(name), random.Random(seed)))
    )
    assert {status for _, status, _ in classified} == {"same"}
    assert all(len(group.a) == len(group.b) == 1 for group, _, _ in classified)
    assert len(classified) == len(one)


@pytest.mark.parametrize("name", ["resnet18", "bert_tiny", "resnet18_fbs1"])
def test_relabelled_operators_are_aligned_with_themselves(name):
    profile = profile_of(name)
    renamed = relabel(profile, random.Random(7))
    a, b = read_nodes(to_json(profile)), read_nodes(to_json(renamed))
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


def test_alignment_does_not_depend_on_the_order_of_arguments():
    a, b = read_nodes(good_profile("resnet18")), read_nodes(good_profile("resnet18_fbs1"))
    forward, backward = align(a, b), align(b, a)
    assert forward.of_a == backward.of_b


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["resnet18", "bert_tiny"])
def test_only_a_removed_operator_is_gone(name):
    profile = profile_of(name)
    for chain in random.Random(3).sample(find_chains(profile, 2), 8):
        one, _, classified = classify_groups(
            to_json(profile), to_json(bypass_operator(profile, chain[0]))
        )
        statuses = Counter(status for _, status, _ in classified)
        removed = [group.a for group, status, _ in classified if status == "gone"]
        assert (statuses["gone"], statuses["new"]) == (1, 0)
        assert one.kinds[removed[0][0]].startswith(
            profile["graph_exec"]["operator"][chain[0]]["type"]
        )


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["resnet18", "resnet18_opt", "bert_tiny"])
def test_only_an_inserted_operator_is_new(name):
    profile = profile_of(name)
    for seed, chain in enumerate(random.Random(5).sample(find_chains(profile, 2), 8)):
        edited = relabel(insert_after(profile, chain[0]), random.Random(seed))
        _, other, classified = classify_groups(to_json(profile), to_json(edited))
        types = [other.kinds[group.b[0]] for group, status, _ in classified if status == "new"]
        assert types == ["Inserted"]
        assert Counter(status for _, status, _ in classified)["gone"] == 0


@pytest.mark.parametrize("length", [2, 3])
@pytest.mark.parametrize("name", ["resnet18", "bert_tiny"])
def test_only_a_chain_replaced_by_one_operator_is_fused(name, length):
    profile = profile_of(name)
    for seed, chain in enumerate(random.Random(11).sample(find_chains(profile, length), 8)):
        edited = relabel(fuse(profile, chain), random.Random(seed))
        one, other, classified = classify_groups(to_json(profile), to_json(edited))
        groups = [group for group, status, _ in classified if status == "fused"]
        assert len(groups) == 1
        computing = [x for x in groups[0].a if not one.is_constant(x)]
        assert len(computing) == length
        assert [other.kinds[y] for y in groups[0].b if not other.is_constant(y)] == ["Fused"]
        assert {status for _, status, _ in classified} <= {"fused", "same"}


def test_a_reversed_fusion_is_a_split():
    profile = profile_of("resnet18")
    chain = find_chains(profile, 3)[0]
    counts = count_statuses(to_json(fuse(profile, chain)), to_json(profile))
    assert (counts["split"], counts["fused"], counts["new"], counts["gone"]) == (1, 0, 0, 0)


def test_folded_batch_normalization_is_a_fusion():
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
    counts = count_statuses(good_profile("resnet18"), good_profile("resnet18_opt"))
    assert (counts["fused"], counts["gone"], counts["new"], counts["changed"]) == (17, 0, 0, 0)
    shortcuts = [
        one.value_names[group.a[0]][0]
        for group, status, _ in classified
        if status == "same" and one.kinds[group.a[0]] == "ConvolutionForward"
    ]
    assert sorted(shortcuts) == [f"layer{n}.0.downsample.0.Convolution" for n in (2, 3, 4)]


def test_a_batch_norm_replaced_by_an_addition_is_fused():
    """optimize_for_inference moves the scale of the BatchNorm into the convolution's weights."""
    profile = profile_of("resnet18")
    operators = profile["graph_exec"]["operator"]
    key = next(
        key for key, operator in operators.items() if operator["type"].startswith("BatchNorm")
    )
    folded = to_json(fuse(profile, [key], "Elemwise"))
    unfolded = good_profile("resnet18")
    for pair, status in (((unfolded, folded), "fused"), ((folded, unfolded), "split")):
        counts = count_statuses(*pair)
        assert (counts[status], counts["changed"]) == (1, 0)


def test_a_convolution_that_adds_its_shortcut_is_fused_with_both_norms():
    """At layers 2, 3 and 4 a ConvBias adds the convolution of the shortcut.

    The constants that both BatchNorms add became one constant of the FUSE_ADD_RELU behind it.
    """
    before, after = recorded_profile("resnet18_planned"), compiled_profile("resnet18_opt__profile")
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
    removed = [one.kinds[group.a[0]] for group, status, _ in classified if status == "gone"]
    # the wheel returns results through a callback, the compiled program does not
    assert [kind for kind in removed if kind not in CONSTANTS] == [
        "ComputingGraphImpl::CallbackCaller"
    ]
    counts = count_statuses(before, after)
    assert (counts["fused"], counts["new"]) == (17, 0)


def test_convolutions_with_other_shapes_are_changed():
    """resnet18_fbs1 has half the channels, a smaller input and generated names."""
    one, _, classified = classify_groups(good_profile("resnet18"), good_profile("resnet18_fbs1"))
    convolutions = [
        (status, reasons)
        for group, status, reasons in classified
        if group.a and one.inputs[group.a[0]] and one.kinds[group.a[0]] == "ConvolutionForward"
    ]
    assert len(convolutions) == 20
    assert {status for status, _ in convolutions} == {"changed"}
    assert all("shapes" in reasons for _, reasons in convolutions)


def test_a_compiled_load_and_run_executes_the_same_operators():
    one, _, classified = classify_groups(
        good_profile("resnet18_opt"), compiled_profile("resnet18_opt__profile")
    )
    differences = [
        (one.kinds[group.a[0]], status, reasons)
        for group, status, reasons in classified
        if status != "same"
    ]
    assert sorted(differences) == [
        ("InputCallback", "changed", ("type",)),
        ("OutputCallback", "gone", ()),
    ]


def test_two_elementwise_operators_replaced_by_one_are_fused():
    one, other, classified = classify_groups(
        good_profile("two_inputs"), compiled_profile("two_inputs__profile")
    )
    fusions = [
        ([one.kinds[x] for x in group.a], [other.kinds[y] for y in group.b])
        for group, status, _ in classified
        if status == "fused"
    ]
    assert fusions == [(["Elemwise ADD", "Elemwise RELU"], ["Elemwise FUSE_ADD_RELU"])]


@pytest.mark.parametrize(
    ("a", "b"), [("bert_tiny", "tiny"), ("bert_tiny", "deep_loop"), ("tiny", "lstm")]
)
def test_models_without_common_operators_are_not_aligned(a, b):
    counts = count_statuses(good_profile(a), good_profile(b))
    assert counts["same"] + counts["changed"] <= 1  # both may have an input called “data”
    assert counts["fused"] == counts["split"] == 0


@pytest.mark.parametrize("name", ["resnet18", "bert_tiny", "deep_loop"])
def test_every_operator_is_in_one_group_of_its_type(name):
    one, other, classified = classify_groups(good_profile(name), good_profile("resnet18_opt"))
    assert sorted(x for group, _, _ in classified for x in group.a) == list(range(len(one)))
    assert sorted(y for group, _, _ in classified for y in group.b) == list(range(len(other)))
    for group, _, _ in classified:
        if group.a and group.b and group.how != "region":
            assert one.kinds[group.a[0]] == other.kinds[group.b[0]]


def test_operators_without_a_graph_are_aligned_by_name():
    profile = without_graph("tiny")
    assert MISSING not in align(read_nodes(profile), read_nodes(profile)).of_a
