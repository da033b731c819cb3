"""The text of a profile compared with recorded output of MegEngine's profile_analyze."""

import re
from typing import Any

import pytest

from profiles.analysis.errors import AnalysisError
from profiles.analysis.query import Query
from profiles.analysis.text import PrintOptions, profile_text, text_pieces
from profiles.formats.load_and_run.reader import parse
from profiles.tests.make import make_profile, to_json
from testdata import bad_profile, commands, good_profile

_PLAIN = re.compile(r"(?:-t (-?\d+))?\s*(--show-host)?")


def plain(file: str) -> list[Any]:
    return [
        pytest.param(command, id=f"{command['profile']} {command['arguments']}")
        for command in commands(file)
        if command["status"] == 0 and _PLAIN.fullmatch(command["arguments"])
    ]


def ours(command: dict[str, Any], data: bytes) -> bytes:
    match = _PLAIN.fullmatch(command["arguments"])
    assert match
    top = 3 if match[1] is None else int(match[1])
    return profile_text(parse(data), top=top, show_host=bool(match[2])).encode()


def test_there_are_recorded_outputs_to_compare_with() -> None:
    assert len(plain("profiles")) >= 87
    assert len(plain("bad/profiles")) >= 69


@pytest.mark.parametrize("command", plain("profiles"))
def test_the_text_of_a_real_profile_is_the_tools_to_the_byte(command: dict[str, Any]) -> None:
    assert ours(command, good_profile(command["profile"])) == command["stdout"].encode()


@pytest.mark.parametrize("command", plain("bad/profiles"))
def test_where_the_tool_reads_a_damaged_profile_we_print_the_same(command: dict[str, Any]) -> None:
    assert ours(command, bad_profile(command["profile"])) == command["stdout"].encode()


def test_times_that_opencl_was_not_told_to_take_are_an_error_with_a_code() -> None:
    with pytest.raises(AnalysisError, match="enable_opencl_profile") as caught:
        profile_text(parse(bad_profile("time_all_zero_opencl")))
    assert caught.value.code == "device_total_zero_opencl"


def test_times_below_the_clock_s_resolution_print_as_zeros_where_the_tool_fails() -> None:
    text = profile_text(parse(bad_profile("time_all_zero")))
    assert "total device time  0" in text
    assert "│ nan%               │" in text


def test_whole_numbers_as_times_print_where_the_tool_crashes() -> None:
    text = profile_text(parse(bad_profile("time_integers")))
    assert "total device time  24" in text
    assert "│ 1.0 " in text


def test_a_column_of_names_that_look_like_numbers_is_aligned_as_the_tool_does_it() -> None:
    profile = make_profile({"1": 0.5}, names={"1": "10.25"})
    profile["graph_exec"]["operator"]["1"]["type"] = "7"
    text = profile_text(parse(to_json(profile)))
    assert "│           10.25 │" in text
    assert "│            7    │" in text


def test_the_host_table_follows_only_when_asked_for() -> None:
    columns = parse(to_json(make_profile({"1": 0.5}, host={"1": 0.25})))
    assert "host self time" not in profile_text(columns)
    assert profile_text(columns, show_host=True).startswith(profile_text(columns)[:-1])


def test_a_text_in_pieces_is_whole_and_no_piece_is_large() -> None:
    times = {str(number): 1.0 / number for number in range(1, 4001)}
    columns = parse(to_json(make_profile(times, host={"1": 0.5})))
    pieces = list(text_pieces(columns, Query(), PrintOptions(top=0, show_host=True)))
    assert b"".join(pieces).decode() == profile_text(columns, 0, True)
    assert b"".join(pieces).decode().count("│ #") == len(times) + 1
    assert max(map(len, pieces)) < 1 << 19 < sum(map(len, pieces))


def test_a_text_that_nobody_could_read_is_refused_before_its_first_piece(
    monkeypatch: Any,
) -> None:
    times = {"1": 0.5, "2": 0.25, "3": 0.125}
    shapes = {"in_shapes": [[1], [2]], "out_shapes": [[1]], "computation": 1.0, "memory": 1.0}
    profile = make_profile(times, host={"1": 0.5}, footprint=dict.fromkeys(times, shapes))
    columns = parse(to_json(profile))
    monkeypatch.setattr("profiles.analysis.text.MOST_LINES", 14)
    with pytest.raises(AnalysisError, match="device would have 18 lines; at most 14 are printed"):
        text_pieces(columns, Query(), PrintOptions(top=0))
    assert b"".join(text_pieces(columns, Query(), PrintOptions(top=2)))
    assert b"".join(text_pieces(columns, Query(), PrintOptions(top=0, print_only="summary")))
