"""Rows, their order, and their numbers."""

import math

import pytest

from profiles.analysis.cells import info_lines, shape_lines
from profiles.analysis.table import table
from profiles.analysis.totals import totals
from profiles.parsers.load_and_run import parse
from profiles.tests.make import make_profile, to_json


def ids(profile: dict[str, object], top: int = 0) -> list[str]:
    return [row.id for row in table(parse(to_json(profile)), top=top).rows]


def test_the_slowest_operator_comes_first() -> None:
    assert ids(make_profile({"1": 0.1, "2": 0.3, "3": 0.2})) == ["2", "3", "1"]


def test_equal_times_keep_the_order_of_the_graph_and_not_of_the_times() -> None:
    profile = make_profile({"5": 0.1, "3": 0.1, "4": 0.1})
    times = profile["profiler"]["device"]
    profile["profiler"]["device"] = {key: times[key] for key in ("3", "4", "5")}
    assert ids(profile) == ["5", "3", "4"]


@pytest.mark.parametrize(
    ("top", "left"), [(1, ["3"]), (2, ["3", "2"]), (0, ["3", "2", "1"]), (-1, ["3", "2"])]
)
def test_the_table_is_cut_like_a_python_list(top: int, left: list[str]) -> None:
    assert ids(make_profile({"1": 0.1, "2": 0.2, "3": 0.3}), top) == left


def test_several_nodes_count_as_the_slowest_of_them() -> None:
    nodes = {"gpu0": {"start": 1.0, "kern": 1.1, "end": 1.2}, "gpu1": {"start": 0.0, "end": 0.75}}
    columns = parse(to_json(make_profile({"1": nodes, "2": {}, "3": 0.5})))
    assert columns.device.end_s.tolist()[0] == 0.75
    assert columns.device.present.tolist() == [True, False, True]
    assert totals(columns).device_s == 1.25


def test_a_row_holds_raw_numbers_beside_its_cells() -> None:
    footprint = {"1": {"computation": 3_000_000, "memory": 2048, "in_shapes": [[2, 8]]}}
    made = table(parse(to_json(make_profile({"1": 0.5, "2": 1.5}, footprint=footprint))), top=0)
    first, second = made.rows
    assert (first.flops, first.memory_bytes, first.computation_flo) == (None, None, None)
    assert (second.self_s, second.ratio, second.cumulative_s) == (0.5, 0.25, 2.0)
    assert (second.flops, second.bandwidth_bytes_per_s) == (6e6, 4096.0)
    assert second.cells[3:] == (
        ("3.00", "MFLO"),
        ("6.00", "MFLOPS"),
        ("2.00", "KiB"),
        ("4.00", "KiB/s"),
        ("{2,8}",),
        ("N/A",),
    )
    assert all(len(row.cells) == len(made.headers) for row in made.rows)


def test_a_time_of_zero_gives_infinite_speed_and_no_warning() -> None:
    footprint = {"1": {"computation": 8, "memory": 0}}
    row = table(parse(to_json(make_profile({"1": 0.0, "2": 1.0}, footprint=footprint)))).rows[1]
    assert row.flops == math.inf
    assert row.cells[4] == ("inf", "FLOPS")
    assert row.cells[6] == ("nan", "byte/s")


def test_a_side_without_times_has_headers_and_no_rows() -> None:
    made = table(parse(to_json(make_profile({"1": 0.5}))), side="host")
    assert made.headers[0] == "host self time"
    assert made.rows == ()


def test_long_names_are_wrapped_and_marked() -> None:
    assert info_lines(["a" * 35, "", "ADD"]) == ("a" * 30, "-  aaaaa", "", "ADD")


def test_a_long_word_breaks_after_a_hyphen_as_in_python_3_10() -> None:
    assert info_lines(["top_k(Reshape[0],const<-5>[30])"]) == (
        "top_k(Reshape[0],const<-",
        "-  5>[30])",
    )


def test_layouts_follow_their_shape_and_cut_the_list() -> None:
    assert shape_lines("[[2,3],[4],[5]]", "[[1,2],null]") == ("{2,3}", "-[1,2]", "{4}")
    assert shape_lines("[[],[1]]") == ("{}", "{1}")
    assert shape_lines("[]") == ("",)
    assert shape_lines("null") == ("None",)
    assert shape_lines(None) == ("N/A",)
