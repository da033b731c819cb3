"""Merging of passes into a profile: each pass gives a sample of each operator."""

import numpy as np
import pytest

from profiles.analysis.data import ProfileData
from profiles.analysis.passes import merge
from profiles.analysis.stability import limits, stability, totals_of_passes, unstable
from profiles.analysis.text import profile_text
from profiles.formats.columns import ProfileColumns
from profiles.formats.load_and_run.graph_json import empty_graph, parse_graph
from profiles.formats.load_and_run.reader import parse
from profiles.tests.make import make_profile, to_json
from profiles.tests.passes import another_pass, change_operator, remove_operator
from testdata import good_profile

NAMES = ("profile.json", "profile-2.json", "profile-3.json", "profile-4.json", "profile-5.json")


def files_of(name: str, passes: int) -> list[bytes]:
    first = good_profile(name)
    return [first, *(another_pass(first, seed) for seed in range(1, passes))]


def merged(files: list[bytes]) -> ProfileData:
    columns = [parse(data) for data in files]
    graph = parse_graph(files[0], columns[0])
    return merge(list(zip(NAMES, columns, strict=False)), graph)


def by_id(columns: ProfileColumns, values: np.ndarray) -> dict[str, float]:
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
    return merged(files)


@pytest.mark.parametrize("name", ["resnet18", "train_mlp", "lstm"])
@pytest.mark.parametrize("side", ["device", "host"])
def test_an_operators_statistics_are_those_of_its_own_samples_whatever_the_files_order(name, side):
    files = files_of(name, 4)
    data, passes = merged(files), [parse(content) for content in files]
    assert data.passes == NAMES[:4]
    assert not data.left_out
    assert passes[1].ids != passes[0].ids
    samples = [by_id(columns, columns.times(side).end_s) for columns in passes]
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


def test_the_time_to_the_first_kernel_is_a_median_too():
    data = merge_passes({"0": 0.010}, {"0": 0.030}, {"0": 0.020})
    assert data.columns.device.kern_s.tolist() == [0.020]


def test_one_pass_stays_exactly_what_its_file_says():
    data = merged(files_of("resnet18", 1))
    alone = parse(good_profile("resnet18"))
    assert profile_text(data.columns, 0, True) == profile_text(alone, 0, True)
    assert data.columns.device.end_s.tobytes() == alone.device.end_s.tobytes()
    assert np.isnan(data.device.cv).all()
    assert not unstable(data, "device").any()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_pass_can_still_be_printed_as_the_tool_prints_its_file(number):
    files = files_of("resnet18", 3)
    text = profile_text(merged(files).columns_of_pass(number), 0, True)
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
def test_a_pass_over_another_graph_is_left_out_and_named(change, word):
    files = files_of("resnet18", 3)
    data = merged([files[0], change(files[1]), files[2]])
    assert data.passes == ("profile.json", "profile-3.json")
    [left] = data.left_out
    assert (left.name, left.code) == ("profile-2.json", "other_graph")
    assert word in left.detail


def test_an_operator_that_only_some_passes_timed_has_the_samples_that_there_are():
    second = make_profile({"0": 0.020, "1": 0.002})
    del second["profiler"]["device"]["1"]
    second["profiler"]["opr_footprint"]["1"] = {"memory": 4}
    first = make_profile({"0": 0.010, "1": 0.001})
    data = merged([to_json(first), to_json(second)])
    assert data.device.count.tolist() == [2, 1]
    assert data.columns.device.end_s.tolist() == [0.015, 0.001]
    assert np.isnan(data.device.cv[1])


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0, 0.0])
def test_odd_times_disturb_no_other_operator(odd):
    data = merge_passes({"0": odd, "1": 0.01}, {"0": odd, "1": 0.03})
    assert data.columns.device.end_s[1] == 0.02
    assert np.isnan(data.device.cv[0])
    assert data.device.cv[1] > 0.5


@pytest.mark.parametrize(("node", "limit"), [("cpu0:0", 0.05), ("gpu0:0", 0.025)])
def test_the_limit_of_a_steady_time_is_stricter_on_a_gpu(node, limit):
    data = merge_passes({"0": 1.0, "1": 1.0}, {"0": 1.05, "1": 1.2}, node=node)
    assert limits(data, "device").tolist() == [limit, limit]
    assert limits(data, "host").tolist() == [0.05, 0.05]
    assert unstable(data, "device").tolist() == [node == "gpu0:0", True]


def test_the_part_of_the_time_that_is_unstable_and_the_totals_of_passes_are_told():
    data = merge_passes({"0": 0.9, "1": 0.1}, {"0": 0.9, "1": 0.3})
    result = stability(data, "device")
    assert (result.unstable, result.known) == (1, 2)
    assert result.share == pytest.approx(0.2 / 1.1)
    assert totals_of_passes(data, "device") == [1.0, pytest.approx(1.2)]
    assert result.total_is_unstable
    assert totals_of_passes(data, "host") == [None, None]


def test_a_profile_whose_graph_cannot_be_read_is_merged_all_the_same():
    columns = parse(good_profile("resnet18"))
    data = merge([("profile.json", columns)], empty_graph(("operator",)))
    assert data.graph.problems == ("operator",)
    assert len(data.graph.operators) == len(data.graph.variables) == 0
    assert not data.on_gpu.any()
