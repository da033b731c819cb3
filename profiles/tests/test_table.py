"""Rows of the table of operators: their order, numbers and formatted cells."""

import math

from profiles.analysis.select import Query, select
from profiles.analysis.table import TableRow, info_lines, rows, shape_lines
from profiles.formats.load_and_run.reader import parse
from profiles.tests.make import make_profile, profile_text, to_json


def rows_of(profile: dict[str, object]) -> tuple[TableRow, ...]:
    columns = parse(to_json(profile))
    return rows(columns, select(columns, Query()))


def test_equal_times_keep_the_order_of_the_graph() -> None:
    profile = make_profile({"5": 0.1, "3": 0.1, "4": 0.1})
    times = profile["profiler"]["device"]
    profile["profiler"]["device"] = {key: times[key] for key in ("3", "4", "5")}
    assert [row.id for row in rows_of(profile)] == ["5", "3", "4"]


def test_an_operator_on_several_nodes_has_the_longest_time() -> None:
    nodes = {"gpu0": {"start": 1.0, "kern": 1.1, "end": 1.2}, "gpu1": {"start": 0.0, "end": 0.75}}
    columns = parse(to_json(make_profile({"1": nodes, "2": {}, "3": 0.5})))
    assert columns.device.end_s.tolist()[0] == 0.75
    assert columns.device.present.tolist() == [True, False, True]
    assert columns.device.total_s() == 1.25


def test_a_row_has_raw_numbers_and_lines_of_shapes() -> None:
    footprint = {"1": {"computation": 3_000_000, "memory": 2048, "in_shapes": [[2, 8], [4]]}}
    first, second = rows_of(make_profile({"1": 0.5, "2": 1.5}, footprint=footprint))
    assert (first.flops, first.memory_bytes, first.computation_flo) == (None, None, None)
    assert (second.place, second.self_s, second.ratio, second.cumulative_s) == (1, 0.5, 0.25, 2.0)
    assert (second.computation_flo, second.memory_bytes) == (3e6, 2048.0)
    assert (second.flops, second.bandwidth_bytes_per_s) == (6e6, 4096.0)
    assert (second.in_shapes, second.out_shapes) == (("{2,8}", "{4}"), ("N/A",))


def test_a_time_of_zero_has_infinite_rates() -> None:
    footprint = {"1": {"computation": 8, "memory": 0}}
    row = rows_of(make_profile({"1": 0.0, "2": 1.0}, footprint=footprint))[1]
    assert row.flops == math.inf
    assert row.bandwidth_bytes_per_s is not None and math.isnan(row.bandwidth_bytes_per_s)


def test_a_side_without_times_has_no_rows() -> None:
    text = profile_text(parse(to_json(make_profile({"1": 0.5}))), show_host=True)
    device, host = text.split("host self time")
    assert "#0" in device
    assert "#0" not in host


def test_long_names_are_wrapped() -> None:
    assert info_lines(["a" * 35, "", "ADD"]) == ("a" * 30, "-  aaaaa", "", "ADD")


def test_a_long_word_breaks_after_a_hyphen_as_in_python_3_10() -> None:
    assert info_lines(["top_k(Reshape[0],const<-5>[30])"]) == (
        "top_k(Reshape[0],const<-",
        "-  5>[30])",
    )


def test_shape_lines_have_layouts_after_their_shape() -> None:
    assert shape_lines("[[2,3],[4],[5]]", "[[1,2],null]") == ("{2,3}", "-[1,2]", "{4}")
    assert shape_lines("[[],[1]]") == ("{}", "{1}")
    assert shape_lines("[]") == ("",)
    assert shape_lines("null") == ("None",)
    assert shape_lines(None) == ("N/A",)
