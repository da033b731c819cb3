"""Rows, sums, filters and the waterfall of comparisons of real profiles."""

from itertools import pairwise

import numpy as np
import pytest

from agent.statistics.unpaired import Basis, Scatter
from profiles.comparison.comparison import align_profiles, judged
from profiles.comparison.question import RowQuery, select_rows
from profiles.comparison.rows import STATUSES
from profiles.comparison.waterfall import BYS, MOST_STEPS, scope_of, waterfall
from profiles.formats.columns import MISSING
from profiles.tests.graph_edits import profile_of, with_end_times, without_graph
from profiles.tests.make import to_json
from profiles.tests.passes import another_pass, data_of, scale_times
from testdata import good_profile


def compare(profiles, bases=None):
    return judged(align_profiles(profiles), bases or {})


def with_passes(name, count=5, factor=1.0):
    """Return a profile of several passes; `factor` multiplies the times of all operators."""
    first = scale_times(good_profile(name), factor)
    return data_of(first, *(another_pass(first, seed) for seed in range(2, count + 1)))


@pytest.fixture(scope="module")
def comparison():
    return compare(
        [data_of(good_profile(n)) for n in ("resnet18", "resnet18_opt", "resnet18_fbs1")]
    )


def test_every_executed_operator_is_in_one_row(comparison):
    for profile, nodes in enumerate(comparison.nodes):
        members = [x for row in comparison.rows for x in row.members(profile)]
        assert sorted(members) == [x for x in range(len(nodes)) if nodes.rows[x] != MISSING]


@pytest.mark.parametrize("side", ["device", "host"])
def test_row_differences_add_up_to_the_difference_of_totals(comparison, side):
    numbers = comparison.side(side)
    for other in (1, 2):
        difference_s = numbers.total_s[other] - numbers.total_s[0]
        assert numbers.delta_s[other - 1].sum() == pytest.approx(difference_s)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("other", [1, 2])
def test_the_waterfall_adds_up_exactly(comparison, by, other):
    steps = waterfall(comparison, other, by=by)
    assert (steps[0].kind, steps[-1].kind) == ("start", "end")
    assert steps[-1].to_s == comparison.device.total_s[other]
    assert steps[0].to_s == comparison.device.total_s[0]
    for step, following in pairwise(steps[:-1]):
        assert step.to_s == following.from_s
    assert steps[-2].to_s == pytest.approx(steps[-1].to_s, rel=1e-12)
    assert sum(step.rows for step in steps) == len(comparison.rows)
    assert len(steps) <= MOST_STEPS + 3


def test_the_largest_step_is_the_operator_with_the_largest_change(comparison):
    step = waterfall(comparison, 1)[1]
    assert step.name == "layer3.1.conv2 · conv"
    assert step.delta_s == pytest.approx(0.003862)
    assert comparison.rows[step.row].cells[0].status == "fused"


def test_a_waterfall_without_totals_is_empty():
    profile = profile_of("tiny")
    profile["profiler"]["device"] = {}
    comparison = compare([data_of(good_profile("tiny")), data_of(to_json(profile))])
    assert waterfall(comparison, 1) == ()


def test_scope_of_returns_the_outer_parts_of_a_name():
    assert scope_of("layer1.0.conv1.Convolution") == "layer1.0"
    assert scope_of("fc.MatrixMul") == "fc"
    assert scope_of("RELU") == ""


def test_a_fused_group_has_one_row_for_all_profiles(comparison):
    rows = [row for row in comparison.rows if row.cells[0].status == "fused"]
    assert len(rows) == 17
    # in the third profile these operators are not fused: three to five each
    assert {row.cells[1].status for row in rows} == {"changed"}
    assert all(len(row.cells[1].members) >= 3 for row in rows)


@pytest.mark.parametrize("baseline", ["tiny", "bert_tiny"])
def test_two_profiles_of_a_model_share_rows_whatever_the_baseline(baseline):
    other, model = data_of(good_profile(baseline)), data_of(good_profile("resnet18"))
    comparison = compare([other, model, model])
    assert sum(bool(row.members(1)) for row in comparison.rows) == len(model.columns)
    assert all(row.members(1) == row.members(2) for row in comparison.rows)


def test_later_profiles_share_rows_with_earlier_ones():
    names = ("bert_tiny", "tiny", "resnet18", "resnet18", "tiny")
    comparison = compare([data_of(good_profile(name)) for name in names])
    for one, other in ((1, 4), (2, 3)):
        assert all(row.members(one) == row.members(other) for row in comparison.rows)


STEADY = Scatter(sd=0.01, dof=19, largest=0.03)
BASES = {"device": [Basis(STEADY, STEADY)]}


def test_slower_operators_are_changed_and_noise_is_not():
    noise = compare([with_passes("resnet18"), with_passes("resnet18")], BASES)
    slower = compare([with_passes("resnet18"), with_passes("resnet18", factor=1.5)], BASES)
    assert select_rows(noise, RowQuery(statuses=("changed",))).rows.size == 0
    selection = select_rows(slower, RowQuery(statuses=("changed",)))
    assert len(selection.rows) > 20
    for number in selection.rows.tolist():
        assert slower.rows[number].cells[0].reasons == ("time",)
        assert slower.device.delta_s[0, number] > 0


@pytest.mark.parametrize("by", ["type", "scope"])
def test_a_type_or_scope_of_only_one_profile_gets_no_verdict(by):
    comparison = compare([with_passes("resnet18"), with_passes("bert_tiny")], BASES)
    steps = {step.name: step for step in waterfall(comparison, 1, by=by) if step.kind == "step"}
    gone, new = {
        "type": ("ConvolutionForward", "LayerNormForward"),
        "scope": ("layer1.0", "layers.0"),
    }[by]
    assert steps[gone].delta_s < 0 < steps[new].delta_s
    assert steps[gone].verdict == steps[new].verdict == "absent"
    if by == "type":  # both profiles have operators of this type
        assert steps["MatrixMul"].verdict == "slower"


def test_rows_that_hardly_changed_are_omitted_and_counted(comparison):
    selection = select_rows(comparison, RowQuery())
    assert len(select_rows(comparison, RowQuery(every=True)).rows) == len(comparison.rows)
    assert len(selection.rows) + selection.quiet == len(comparison.rows)
    omitted = set(range(len(comparison.rows))) - set(selection.rows.tolist())
    expected = comparison.device.delta_s[:, sorted(omitted)].sum(axis=1)
    assert selection.quiet_delta_s == pytest.approx(expected)


def test_filters_narrow_by_status_text_and_least_change(comparison):
    assert len(select_rows(comparison, RowQuery(statuses=("gone",))).rows) == 2
    numbers = select_rows(comparison, RowQuery(text="LAYER1.0.", every=True)).rows.tolist()
    assert numbers
    for number in numbers:
        texts = [
            nodes.short_names[x]
            for profile, nodes in enumerate(comparison.nodes)
            for x in comparison.rows[number].members(profile)
        ]
        assert any("layer1.0." in text for text in texts)
    large = select_rows(comparison, RowQuery(least_percent=10)).rows
    limit = 0.1 * comparison.device.total_s[0]
    assert (np.abs(comparison.device.delta_s[:, large]).max(axis=0) >= limit).all()


def test_rows_can_be_ordered(comparison):
    def rows(sort):
        return select_rows(comparison, RowQuery(sort=sort, every=True)).rows

    delta_s, time_s = comparison.device.delta_s, comparison.device.time_s[0]
    assert (np.diff(np.abs(delta_s[:, rows("change")]).max(axis=0)) <= 0).all()
    assert (np.diff(delta_s[:, rows("slower")].max(axis=0)) <= 0).all()
    assert (np.diff(delta_s[:, rows("faster")].min(axis=0)) >= 0).all()
    assert (np.diff(np.nan_to_num(time_s[rows("baseline")])) <= 0).all()
    assert rows("order").tolist() == list(range(len(comparison.rows)))
    assert sorted(rows("name").tolist()) == list(range(len(comparison.rows)))


def test_counts_of_statuses_do_not_depend_on_the_filter(comparison):
    counts = select_rows(comparison, RowQuery()).counts
    assert select_rows(comparison, RowQuery(statuses=("new",))).counts == counts
    assert set(counts) == set(STATUSES)


@pytest.mark.parametrize("name", ["no_op", "tiny", "lstm"])
def test_a_small_model_has_operators_in_common_with_itself(name):
    data = data_of(good_profile(name))
    assert compare([data, data]).common[0] > 0


def test_a_profile_without_a_graph_has_operators_in_common_with_itself():
    data = data_of(without_graph("tiny"))
    assert compare([data, data]).common == (3,)


def test_compare_accepts_two_to_eight_profiles():
    data = data_of(good_profile("tiny"))
    for count in (1, 9):
        with pytest.raises(ValueError):
            compare([data] * count)
    assert len(compare([data] * 8).common) == 7


def test_rows_are_complete_despite_invalid_times():
    damaged = data_of(with_end_times("tiny", "inf", "nan", -1.0, 0.0))
    for other in (data_of(good_profile("tiny")), damaged):
        comparison = compare([damaged, other])
        assert len(select_rows(comparison, RowQuery(every=True)).rows) == len(comparison.rows)
        assert waterfall(comparison, 1) == ()
