"""The roofline, the cumulative curve, and time by type and scope."""

import json

import numpy as np
import pytest

from profiles.analysis.by_type import scope_paths, scope_tree, time_by_type
from profiles.analysis.cumulative import cumulative
from profiles.analysis.roofline import roofline
from profiles.tests.graphs import read, read_good, read_times
from profiles.tests.make import make_profile


def read_with_footprints(times, footprint):
    profile = make_profile(times, footprint=footprint)
    return read(json.dumps(profile).encode())


def test_a_point_has_intensity_and_flops_of_footprint_and_time():
    _, columns = read_with_footprints(
        {"1": 0.002, "2": 0.0, "3": 0.001, "4": 0.001},
        {
            "1": {"computation": 4_000_000, "memory": 1000},
            "2": {"computation": 10, "memory": 10},
            "3": {"computation": None, "memory": 10},
            "4": {"computation": 10, "memory": 0},
        },
    )
    points = roofline(columns)
    assert points.rows.tolist() == [0]
    assert points.intensity.tolist() == [4000]
    assert points.flops.tolist() == pytest.approx([2e9])
    assert (points.no_time, points.no_computation, points.no_memory) == (1, 1, 1)


def test_the_best_rate_ignores_operators_that_are_too_short():
    _, columns = read_with_footprints(
        {"1": 1e-6, "2": 1e-3},
        {"1": {"computation": 10**9, "memory": 10**9}, "2": {"computation": 1000, "memory": 10}},
    )
    points = roofline(columns)
    assert len(points.rows) == 2
    assert points.best_flops == pytest.approx(1e6)
    assert points.best_bytes_s == pytest.approx(1e4)


def test_every_timed_operator_is_a_point_or_counted_as_left_out():
    _, columns = read_good("resnet18")
    points = roofline(columns)
    left_out = points.no_time + points.no_computation + points.no_memory
    assert len(points.rows) + left_out == columns.device.present.sum()
    assert (points.flops <= points.best_flops).mean() > 0.9


def test_eight_of_ten_equal_operators_make_80_percent():
    _, columns = read_times({str(n): (0.0, 0.0, 0.001) for n in range(10)})
    curve = cumulative(columns.device)
    assert dict(curve.milestones) == {0.5: 5, 0.8: 8, 0.95: 10}
    assert curve.shares[-1] == pytest.approx(1)


def test_invalid_times_are_left_out_of_the_cumulative_curve():
    _, columns = read_times(
        {"1": (0.0, 0.0, 0.001), "2": (0.002, 0.0, 0.001), "3": (0.0, 0.0, "inf")}
    )
    curve = cumulative(columns.device)
    assert (curve.rows.tolist(), curve.left_out) == ([0], 2)


def test_a_total_of_zero_has_no_milestones():
    _, columns = read_times({"1": (0.001, 0.001, 0.001)})
    assert cumulative(columns.device).milestones == ()


def test_times_by_type_add_up_to_the_total():
    _, columns = read_good("resnet18")
    times = time_by_type(columns.types, columns.device)
    assert columns.types.values[times.codes[0]] == "ConvolutionForward"
    assert times.total_s == pytest.approx(columns.device.total_s())
    assert times.operators.sum() == columns.device.present.sum()
    assert (np.diff(times.times_s) <= 0).all()


def rows_of_scope(scope):
    yield from (*scope.rows, *scope.more)
    for inner in scope.scopes.values():
        yield from rows_of_scope(inner)


@pytest.mark.parametrize("leaves", [10, 1500])
def test_each_timed_operator_is_in_one_scope(leaves):
    graph, columns = read_good("bert_tiny")
    tree = scope_tree(scope_paths(graph, len(columns)), columns.device, leaves=leaves)
    timed = np.flatnonzero(columns.device.end_s > 0)
    assert sorted(rows_of_scope(tree)) == timed.tolist()
    assert tree.total_s() == pytest.approx(columns.device.total_s())
    assert set(tree.scopes["layers"].scopes) == {"0", "1", "2", "3"}


def test_deeply_nested_scopes_are_truncated():
    _, columns = read_times({"1": (0.0, 0.0, 0.001)})
    tree = scope_tree([("a",) * 100_000], columns.device)
    assert list(rows_of_scope(tree)) == [0]
    assert tree.total_s() == pytest.approx(0.001)
