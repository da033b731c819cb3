"""Rows, sums, filters and the waterfall of comparisons of real profiles."""

from itertools import pairwise

import numpy as np
import pytest

from profiles.comparison.classify import STATUSES
from profiles.comparison.comparison import compare
from profiles.comparison.confidence import Basis
from profiles.comparison.question import RowQuery, select_rows
from profiles.comparison.scatter import Scatter
from profiles.comparison.waterfall import BYS, MOST_STEPS, scope_of, waterfall
from profiles.formats.columns import MISSING
from profiles.tests.graph_edits import profile_of, to_bytes
from profiles.tests.passes import another_pass, data_of, scale_times
from testdata import good_profile


def with_passes(name, count=5, factor=1.0):
    """Return a profile of several passes; `factor` multiplies the times of all operators."""
    first = scale_times(good_profile(name), factor)
    return data_of(first, *(another_pass(first, seed) for seed in range(2, count + 1)))


@pytest.fixture(scope="module")
def related():
    return compare(
        [data_of(good_profile(n)) for n in ("resnet18", "resnet18_opt", "resnet18_fbs1")]
    )


def test_every_operator_that_ran_stands_in_one_row(related):
    for profile, nodes in enumerate(related.nodes):
        members = [x for row in related.rows for x in row.members(profile)]
        assert sorted(members) == [x for x in range(len(nodes)) if nodes.rows[x] != MISSING]


@pytest.mark.parametrize("side", ["device", "host"])
def test_differences_of_rows_add_up_to_the_difference_of_totals(related, side):
    numbers = related.side(side)
    for other in (1, 2):
        of_totals = numbers.total_s[other] - numbers.total_s[0]
        assert numbers.delta_s[other - 1].sum() == pytest.approx(of_totals)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("other", [1, 2])
def test_the_waterfall_adds_up_exactly(related, by, other):
    steps = waterfall(related, other, by=by)
    assert (steps[0].kind, steps[-1].kind) == ("start", "end")
    assert steps[-1].to_s == related.device.total_s[other]
    assert steps[0].to_s == related.device.total_s[0]
    for step, following in pairwise(steps[:-1]):
        assert step.to_s == following.from_s
    assert steps[-2].to_s == pytest.approx(steps[-1].to_s, rel=1e-12)
    assert sum(step.rows for step in steps) == len(related.rows)
    assert len(steps) <= MOST_STEPS + 3


def test_the_largest_step_is_the_operator_that_lost_most(related):
    step = waterfall(related, 1)[1]
    assert step.name == "layer3.1.conv2.Convolution"
    assert step.delta_s == pytest.approx(0.003862)
    assert related.rows[step.row].cells[0].status == "fused"


def test_a_waterfall_without_totals_is_empty():
    profile = profile_of("tiny")
    profile["profiler"]["device"] = {}
    comparison = compare([data_of(good_profile("tiny")), data_of(to_bytes(profile))])
    assert waterfall(comparison, 1) == ()


def test_scopes_are_the_outer_parts_of_names():
    assert scope_of("layer1.0.conv1.Convolution") == "layer1.0"
    assert scope_of("fc.MatrixMul") == "fc"
    assert scope_of("RELU") == ""


def test_a_fused_group_stands_in_one_row_for_all_profiles(related):
    fused = [row for row in related.rows if row.cells[0].status == "fused"]
    assert len(fused) == 17
    # in the third profile these operators are not fused: three to five each
    assert {row.cells[1].status for row in fused} == {"changed"}
    assert all(len(row.cells[1].members) >= 3 for row in fused)


@pytest.mark.parametrize("baseline", ["tiny", "bert_tiny"])
def test_the_same_model_twice_shares_its_rows_beside_another_baseline(baseline):
    other, model = data_of(good_profile(baseline)), data_of(good_profile("resnet18"))
    comparison = compare([other, model, model])
    assert sum(bool(row.members(1)) for row in comparison.rows) == len(model.columns)
    assert all(row.members(1) == row.members(2) for row in comparison.rows)


def test_later_profiles_share_rows_with_any_earlier_one():
    names = ("bert_tiny", "tiny", "resnet18", "resnet18", "tiny")
    comparison = compare([data_of(good_profile(name)) for name in names])
    for one, other in ((1, 4), (2, 3)):
        assert all(row.members(one) == row.members(other) for row in comparison.rows)


def test_passes_tell_slower_operators_apart_from_noise():
    steady = Scatter(sd=0.01, dof=19, largest=0.03)
    bases = {"device": [Basis(steady, steady)]}
    noise = compare([with_passes("resnet18"), with_passes("resnet18")], bases)
    slower = compare([with_passes("resnet18"), with_passes("resnet18", factor=1.5)], bases)
    assert select_rows(noise, RowQuery(statuses=("changed",))).rows.size == 0
    selection = select_rows(slower, RowQuery(statuses=("changed",)))
    assert len(selection.rows) > 20
    for number in selection.rows.tolist():
        assert slower.rows[number].cells[0].reasons == ("time",)
        assert slower.device.delta_s[0, number] > 0


@pytest.mark.parametrize("by", ["type", "scope"])
def test_a_type_or_scope_of_one_profile_alone_is_a_step_without_a_verdict(by):
    steady = Scatter(sd=0.01, dof=19, largest=0.03)
    pair = [with_passes("resnet18"), with_passes("bert_tiny")]
    comparison = compare(pair, {"device": [Basis(steady, steady)]})
    steps = {step.name: step for step in waterfall(comparison, 1, by=by) if step.kind == "step"}
    gone, new = {
        "type": ("ConvolutionForward", "LayerNormForward"),
        "scope": ("layer1.0", "layers.0"),
    }[by]
    assert steps[gone].delta_s < 0 < steps[new].delta_s
    assert steps[gone].verdict == steps[new].verdict == "absent"
    if by == "type":  # both profiles have operators of this type
        assert steps["MatrixMul"].verdict == "slower"


def test_what_hardly_changed_is_left_out_and_counted(related):
    usual, every = select_rows(related, RowQuery()), select_rows(related, RowQuery(every=True))
    assert len(every.rows) == len(related.rows)
    assert len(usual.rows) + usual.quiet == len(related.rows)
    left_out = set(range(len(related.rows))) - set(usual.rows.tolist())
    expected = related.device.delta_s[:, sorted(left_out)].sum(axis=1)
    assert usual.quiet_delta_s == pytest.approx(expected)


def test_filters_narrow_by_status_text_and_least_change(related):
    assert len(select_rows(related, RowQuery(statuses=("gone",))).rows) == 2
    named = select_rows(related, RowQuery(text="LAYER1.0.", every=True)).rows.tolist()
    assert named
    for number in named:
        texts = [
            nodes.short_names[x]
            for profile, nodes in enumerate(related.nodes)
            for x in related.rows[number].members(profile)
        ]
        assert any("layer1.0." in text for text in texts)
    large = select_rows(related, RowQuery(least_percent=10)).rows
    limit = 0.1 * related.device.total_s[0]
    assert (np.abs(related.device.delta_s[:, large]).max(axis=0) >= limit).all()


def test_rows_can_be_ordered(related):
    def rows(sort):
        return select_rows(related, RowQuery(sort=sort, every=True)).rows

    delta_s, time_s = related.device.delta_s, related.device.time_s[0]
    assert (np.diff(np.abs(delta_s[:, rows("change")]).max(axis=0)) <= 0).all()
    assert (np.diff(delta_s[:, rows("slower")].max(axis=0)) <= 0).all()
    assert (np.diff(delta_s[:, rows("faster")].min(axis=0)) >= 0).all()
    assert (np.diff(np.nan_to_num(time_s[rows("baseline")])) <= 0).all()
    assert rows("order").tolist() == list(range(len(related.rows)))
    assert sorted(rows("name").tolist()) == list(range(len(related.rows)))


def test_counts_of_statuses_do_not_depend_on_the_filter(related):
    one, other = select_rows(related, RowQuery(statuses=("new",))), select_rows(related, RowQuery())
    assert one.counts == other.counts
    assert set(one.counts) == set(STATUSES)


@pytest.mark.parametrize("name", ["no_op", "tiny", "lstm"])
def test_a_small_model_has_itself_in_common(name):
    data = data_of(good_profile(name))
    assert compare([data, data]).common[0] > 0


def test_a_profile_without_its_graph_has_itself_in_common():
    profile = profile_of("tiny")
    profile["graph_exec"]["var"] = {}
    for operator in profile["graph_exec"]["operator"].values():
        operator["input"], operator["output"] = [], []
    data = data_of(to_bytes(profile))
    assert compare([data, data]).common == (3,)


def test_only_two_to_eight_profiles_are_compared():
    data = data_of(good_profile("tiny"))
    for count in (1, 9):
        with pytest.raises(ValueError):
            compare([data] * count)
    assert len(compare([data] * 8).common) == 7


def test_odd_times_break_nothing():
    profile = profile_of("tiny")
    for times, value in zip(
        profile["profiler"]["device"].values(), ("inf", "nan", -1.0, 0.0), strict=False
    ):
        for interval in times.values():
            interval["end"] = value
    odd, even = data_of(to_bytes(profile)), data_of(good_profile("tiny"))
    for pair in ([odd, even], [odd, odd]):
        comparison = compare(pair)
        assert len(select_rows(comparison, RowQuery(every=True)).rows) == len(comparison.rows)
        assert waterfall(comparison, 1) == ()
