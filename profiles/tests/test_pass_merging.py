"""Merging of passes into a profile: each pass gives a sample of each operator."""

import math

import numpy as np
import pytest

from profiles.analysis.data import ProfileData
from profiles.analysis.passes import merge
from profiles.analysis.stability import limits, stability, totals_of_passes, unstable
from profiles.formats.columns import ProfileColumns
from profiles.formats.load_and_run.graph_json import empty_graph
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.tests.make import make_profile, profile_text, to_json
from profiles.tests.passes import another_pass, change_operator, remove_operator
from testdata import good_profile

NAMES = ("profile.json", "profile-2.json", "profile-3.json", "profile-4.json", "profile-5.json")


def make_passes(name: str, passes: int) -> list[bytes]:
    first = good_profile(name)
    return [first, *(another_pass(first, seed) for seed in range(1, passes))]


def merge_files(files: list[bytes]) -> ProfileData:
    first, graph = parse_whole(files[0])
    columns = [first, *map(parse, files[1:])]
    return merge(list(zip(NAMES, columns, strict=False)), graph())


def values_by_id(columns: ProfileColumns, values: np.ndarray) -> dict[str, float]:
    return dict(zip(columns.ids, values.tolist(), strict=True))


def merge_passes(*times: dict[str, float], node: str = "cpu0:0") -> ProfileData:
    """Merge passes of small operators; each dict has the times of a pass, s, by operator id."""
    files = [
        to_json(
            make_profile(
                {
                    key: {f'CompNode("{node}" from "xpux:0")': {"start": 0.0, "kern": t, "end": t}}
                    for key, t in pass_times.items()
                }
            )
        )
        for pass_times in times
    ]
    return merge_files(files)


@pytest.mark.parametrize("name", ["resnet18", "train_mlp", "lstm"])
@pytest.mark.parametrize("side", ["device", "host"])
def test_statistics_match_samples_by_operator_id_in_any_order(name, side):
    files = make_passes(name, 4)
    data, passes = merge_files(files), [parse(content) for content in files]
    assert data.passes == NAMES[:4]
    assert not data.left_out
    assert passes[1].ids != passes[0].ids
    samples = [values_by_id(columns, columns.times(side).end_s) for columns in passes]
    for row, key in enumerate(data.columns.ids):
        times = np.array([sample[key] for sample in samples])
        if np.isnan(times).any():  # not timed on this side
            assert not data.columns.times(side).present[row]
            continue
        spread = data.spread(side)
        assert spread.median_s[row] == pytest.approx(np.median(times), rel=1e-12)
        assert spread.p10_s[row] == pytest.approx(np.percentile(times, 10), rel=1e-12)
        assert spread.p90_s[row] == pytest.approx(np.percentile(times, 90), rel=1e-12)
        assert spread.min_s[row] == times.min()
        assert spread.count[row] == 4
        expected_cv = times.std(ddof=1) / times.mean() if times.mean() > 0 else np.nan
        assert spread.cv[row] == pytest.approx(expected_cv, rel=1e-9, nan_ok=True)
    assert data.columns.times(side).end_s is data.spread(side).median_s


def test_the_time_to_the_first_kernel_is_a_median():
    data = merge_passes({"0": 0.010}, {"0": 0.030}, {"0": 0.020})
    assert data.columns.device.kern_s.tolist() == [0.020]


def test_an_infinite_time_in_one_pass_of_three_does_not_hide_the_median():
    data = merge_passes({"0": 0.010}, {"0": 0.020}, {"0": math.inf})
    assert data.device.median_s.tolist() == [0.020]


def test_a_single_pass_keeps_the_values_of_its_file():
    data = merge_files(make_passes("resnet18", 1))
    alone = parse(good_profile("resnet18"))
    assert profile_text(data.columns, 0, True) == profile_text(alone, 0, True)
    assert data.columns.device.end_s.tobytes() == alone.device.end_s.tobytes()
    assert np.isnan(data.device.cv).all()
    assert not unstable(data, "device").any()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_pass_prints_like_its_file(number):
    files = make_passes("resnet18", 3)
    text = profile_text(merge_files(files).columns_of_pass(number), 0, True)
    assert text == profile_text(parse(files[number]), 0, True)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda data: change_operator(data, name="renamed"), "names"),
        (lambda data: change_operator(data, type="Other"), "types"),
        (lambda data: change_operator(data, id="99999"), "ids"),
        (remove_operator, "operators"),
    ],
)
def test_a_pass_with_another_graph_is_left_out_with_a_reason(change, word):
    files = make_passes("resnet18", 3)
    data = merge_files([files[0], change(files[1]), files[2]])
    assert data.passes == ("profile.json", "profile-3.json")
    [left] = data.left_out
    assert (left.name, left.code) == ("profile-2.json", "other_graph")
    assert word in left.detail


def test_an_operator_missing_from_a_pass_has_fewer_samples():
    second = make_profile({"0": 0.020, "1": 0.002})
    del second["profiler"]["device"]["1"]
    second["profiler"]["opr_footprint"]["1"] = {"memory": 4}
    first = make_profile({"0": 0.010, "1": 0.001})
    data = merge_files([to_json(first), to_json(second)])
    assert data.device.count.tolist() == [2, 1]
    assert data.columns.device.end_s.tolist() == [0.015, 0.001]
    assert np.isnan(data.device.cv[1])


@pytest.mark.parametrize("time_s", [float("nan"), float("inf"), -1.0, 0.0])
def test_invalid_times_do_not_affect_other_operators(time_s):
    data = merge_passes({"0": time_s, "1": 0.01}, {"0": time_s, "1": 0.03})
    assert data.columns.device.end_s[1] == 0.02
    assert np.isnan(data.device.cv[0])
    assert data.device.cv[1] > 0.5


@pytest.mark.parametrize(("node", "limit"), [("cpu0:0", 0.05), ("gpu0:0", 0.025)])
def test_the_stability_limit_is_stricter_on_a_gpu(node, limit):
    data = merge_passes({"0": 1.0, "1": 1.0}, {"0": 1.05, "1": 1.2}, node=node)
    assert limits(data, "device").tolist() == [limit, limit]
    assert limits(data, "host").tolist() == [0.05, 0.05]
    assert unstable(data, "device").tolist() == [node == "gpu0:0", True]


def test_stability_has_the_unstable_share_and_totals_of_passes():
    data = merge_passes({"0": 0.9, "1": 0.1}, {"0": 0.9, "1": 0.3})
    result = stability(data, "device")
    assert (result.unstable, result.known) == (1, 2)
    assert result.share == pytest.approx(0.2 / 1.1)
    assert totals_of_passes(data, "device") == [1.0, pytest.approx(1.2)]
    assert result.total_is_unstable
    assert totals_of_passes(data, "host") == [None, None]


def test_passes_without_a_readable_graph_are_merged():
    columns = parse(good_profile("resnet18"))
    data = merge([("profile.json", columns)], empty_graph(("operator",)))
    assert data.graph.problems == ("operator",)
    assert len(data.graph.operators) == len(data.graph.variables) == 0
    assert not data.on_gpu.any()
