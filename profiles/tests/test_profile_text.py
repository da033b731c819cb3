"""The text of a profile compared with recorded output of MegEngine's profile_analyze."""

import re
import sys
from typing import Any

import pytest

from profiles.analysis.errors import AnalysisError
from profiles.analysis.select import Query
from profiles.analysis.text import PrintOptions, text_pieces
from profiles.formats.load_and_run.reader import parse
from profiles.tests.make import make_profile, profile_text, to_json
from testdata import bad_profile, commands

_PLAIN = re.compile(r"(?:-t (-?\d+))?\s*(--show-host)?")


#: commands without filters that the original tool ran on damaged profiles without an error
RECORDED = [
    pytest.param(command, match, id=f"{command['profile']} {command['arguments']}")
    for command in commands("bad/profiles")
    if command["status"] == 0 and (match := _PLAIN.fullmatch(command["arguments"]))
]


def test_enough_outputs_of_the_original_tool_are_recorded() -> None:
    assert len(RECORDED) >= 69


@pytest.mark.parametrize(("command", "match"), RECORDED)
def test_text_of_damaged_profiles_equals_that_of_the_original_tool(
    command: dict[str, Any], match: re.Match[str]
) -> None:
    top = 3 if match[1] is None else int(match[1])
    text = profile_text(parse(bad_profile(command["profile"])), top, show_host=bool(match[2]))
    if command["profile"].endswith("time_nan_literal") and sys.version_info >= (3, 13):
        pytest.xfail("the order of NaN depends on list.sort, which Python 3.13 changed")
    assert text.encode() == command["stdout"].encode()


def test_opencl_times_that_are_all_zero_are_an_error() -> None:
    with pytest.raises(AnalysisError, match="enable_opencl_profile") as caught:
        profile_text(parse(bad_profile("time_all_zero_opencl")))
    assert caught.value.code == "device_total_zero_opencl"


def test_times_that_are_all_zero_are_printed_as_zeros() -> None:
    text = profile_text(parse(bad_profile("time_all_zero")))
    assert "total device time  0" in text
    assert "│ nan%               │" in text


def test_integer_times_are_printed() -> None:
    text = profile_text(parse(bad_profile("time_integers")))
    assert "total device time  24" in text
    assert "│ 1.0 " in text


def test_names_that_look_like_numbers_are_aligned_as_numbers() -> None:
    profile = make_profile({"1": 0.5}, names={"1": "10.25"})
    profile["graph_exec"]["operator"]["1"]["type"] = "7"
    text = profile_text(parse(to_json(profile)))
    assert "│           10.25 │" in text
    assert "│            7    │" in text


def test_the_host_table_is_optional() -> None:
    columns = parse(to_json(make_profile({"1": 0.5}, host={"1": 0.25})))
    assert "host self time" not in profile_text(columns)
    assert profile_text(columns, show_host=True).startswith(profile_text(columns)[:-1])


def test_pieces_of_a_text_are_small_and_join_to_the_whole() -> None:
    times = {str(number): 1.0 / number for number in range(1, 4001)}
    columns = parse(to_json(make_profile(times, host={"1": 0.5})))
    pieces = list(text_pieces(columns, Query(), PrintOptions(top=0, show_host=True)))
    assert b"".join(pieces).decode() == profile_text(columns, 0, True)
    assert b"".join(pieces).decode().count("│ #") == len(times) + 1
    assert max(map(len, pieces)) < 1 << 19 < sum(map(len, pieces))


def test_a_text_with_too_many_lines_is_refused_before_its_first_piece(monkeypatch: Any) -> None:
    times = {"1": 0.5, "2": 0.25, "3": 0.125}
    shapes = {"in_shapes": [[1], [2]], "out_shapes": [[1]], "computation": 1.0, "memory": 1.0}
    profile = make_profile(times, host={"1": 0.5}, footprint=dict.fromkeys(times, shapes))
    columns = parse(to_json(profile))
    monkeypatch.setattr("profiles.analysis.text.MOST_LINES", 14)
    with pytest.raises(AnalysisError, match="device would have 18 lines; at most 14 are printed"):
        text_pieces(columns, Query(), PrintOptions(top=0))
    assert b"".join(text_pieces(columns, Query(), PrintOptions(top=2)))
    assert b"".join(text_pieces(columns, Query(), PrintOptions(top=0, print_only="summary")))
