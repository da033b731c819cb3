"""The fast and the careful reader of profiles give the same columns."""

import json
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from profiles.formats.columns import MISSING, NumberColumn, SideTimes, TextColumn
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.fast_reader import quick
from profiles.formats.load_and_run.id_lists import IdIndex, id_lists
from profiles.formats.load_and_run.profile_json import decode_unchecked
from profiles.formats.load_and_run.reader import _careful, parse
from profiles.formats.load_and_run.sections import Sections
from profiles.tests.make import NODE, make_profile, to_json
from testdata import DATA, good_profile

NAMES = sorted(path.stem for path in (DATA / "profiles").glob("*.json"))


def plain(sections: Sections | None) -> dict[str, Any]:
    """Return all columns as lists with an entry for each operator."""
    assert sections is not None
    lists: dict[str, Any] = {}
    for name, value in vars(sections).items():
        match value:
            case SideTimes():
                lists[name] = [value.present.tolist(), *map(texts, (value.end_s, value.kern_s))]
            case NumberColumn():
                lists[name] = [value.present.tolist(), texts(value.values)]
            case TextColumn():
                lists[name] = [value[row] for row in range(len(value))]
            case np.ndarray():
                continue
            case _ if name in ("in_shapes", "out_shapes", "in_layouts"):
                lists[name] = [json.loads(value[row] or "0") for row in sections.costs]
            case _:
                lists[name] = list(value)
    return lists


def with_plain_ids(profile: dict[str, Any]) -> dict[str, Any]:
    """Give the only variable a number as its id, as MegEngine does."""
    graph = profile["graph_exec"]
    graph["var"] = {"4": graph["var"]["v"]}
    for operator in graph["operator"].values():
        operator.update(input=["4"], output=["4"])
    return profile


def texts(values: np.ndarray) -> list[str]:
    # texts, because nan differs from itself
    return list(map(repr, values.tolist()))


@pytest.mark.parametrize("name", NAMES)
def test_a_real_profile_is_read_the_quick_way_and_as_the_careful_one_does(name: str) -> None:
    data = good_profile(name)
    assert plain(quick(data)) == plain(_careful(data))


@pytest.mark.parametrize("name", NAMES)
def test_a_real_profile_is_read_as_the_tool_reads_it(name: str) -> None:
    data = good_profile(name)
    assert decode_unchecked(data) is not None
    assert plain(_careful(data, checked=False)) == plain(_careful(data))


def test_nodes_missing_sections_and_odd_orders_are_joined_alike() -> None:
    nodes = {"a": {"start": 1, "end": 2.5}, "b": {"start": 0.0, "kern": 0.5, "end": 3}}
    profile = make_profile(
        {"7": nodes, "3": {}, "900000000000": 0.5, "0": 0.25},
        host={"3": 1.0},
        footprint={"3": {"memory": 5, "in_shapes": [[1]]}, "0": {"computation": 0}, "8": {}},
    )
    profile["graph_exec"]["operator"]["5"] = {
        **profile["graph_exec"]["operator"]["7"],
        "id": "5",
    }
    profile["profiler"]["device"]["77"] = nodes
    data = to_json(with_plain_ids(profile))
    assert plain(quick(data)) == plain(_careful(data))
    assert plain(quick(data))["ids"] == ["7", "3", "900000000000", "0"]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["profiler"]["device"].update(x={NODE: {"start": 0, "end": 1}}),
        lambda p: p["graph_exec"]["operator"]["1"].update(input=["lost"]),
        lambda p: p["graph_exec"]["operator"]["1"].update(output=[None]),
        lambda p: p["graph_exec"]["operator"]["1"].update(input="v"),
        lambda p: p["graph_exec"]["operator"]["1"].update(id=1),
        lambda p: p["profiler"]["device"]["1"][NODE].update(end="inf"),
        lambda p: p["profiler"]["device"]["1"][NODE].update(end=float("nan")),
        lambda p: p["profiler"]["opr_footprint"]["1"].update(memory=None),
    ],
)
def test_what_is_odd_is_left_to_the_careful_way(change: Any) -> None:
    profile = with_plain_ids(make_profile({"1": 0.5}, footprint={"1": {"memory": 1}}))
    assert quick(to_json(profile)) is not None
    change(profile)
    assert quick(to_json(profile)) is None


def test_a_mapped_file_is_read_like_its_bytes(tmp_path: Path) -> None:
    data = good_profile("tiny")
    with (DATA / "profiles" / "tiny.json").open("rb") as file:
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    columns = parse(mapped)
    # the columns keep no reference to it
    mapped.close()
    assert columns.names == parse(data).names


def test_dtypes_that_are_not_asked_for_are_missing() -> None:
    columns = parse(good_profile("tiny"), dtypes=False)
    assert set(columns.in_dtypes.codes.tolist()) == {MISSING}
    assert columns.names == parse(good_profile("tiny")).names


def test_a_lost_variable_harms_only_who_asks_for_dtypes() -> None:
    profile = make_profile({"1": 0.5})
    profile["graph_exec"]["operator"]["1"].update(input=["lost"])
    assert parse(to_json(profile), dtypes=False).names == ("op1",)
    with pytest.raises(ProfileFormatError, match="lost"):
        parse(to_json(profile))


def test_unchecked_names_may_be_anything_and_print_as_python_prints_them() -> None:
    profile = make_profile({"1": 0.5, "2": 0.25}, footprint={"1": {"in_shapes": 5}})
    profile["graph_exec"]["operator"]["1"].update(name=None, type=7)
    profile["graph_exec"]["operator"]["2"].update(name="x" * 10_000)
    columns = parse(to_json(profile), checked=False)
    assert (columns.names[0], columns.types[0], columns.in_shapes[0]) == ("None", "7", "5")


IDS = st.lists(st.lists(st.integers(0, 10**18 - 1), max_size=4), max_size=6)


@given(IDS, st.sampled_from(["", " ", "  "]))
def test_lists_of_ids_are_read_as_json_reads_them(lists: list[list[int]], space: str) -> None:
    texts = [f",{space}".join(json.dumps(str(number)) for number in ids) for ids in lists]
    raws = [Raw(f"[{space}{text}]".encode()) for text in texts]
    result = id_lists(raws)
    assert result is not None
    assert result[0].tolist() == list(map(len, lists))
    assert result[1].tolist() == [number for ids in lists for number in ids]


@pytest.mark.parametrize(
    "texts",
    [
        ["[null]"], ['["01"]'], ['"12"'], ['[["1"]]'], ["[1]"], ["{}"], ['["a"]'], ['[""]'],
        ['"1"', "[]", "[]"], ['["-1"]'], ['["1", 2]'], ['["1234567890123456789"]'], ['[" 1"]'],
    ],
)  # fmt: skip
def test_what_is_no_list_of_plain_ids_is_refused(texts: list[str]) -> None:
    assert id_lists([Raw(text.encode()) for text in texts]) is None


@given(st.lists(st.integers(-5, 10**15), unique=True), st.lists(st.integers(-5, 10**15)))
def test_places_are_those_of_a_search(ids: list[int], others: list[int]) -> None:
    searched = [*ids, *others]
    places = IdIndex(np.array(ids, dtype=np.int64)).find(np.array(searched, dtype=np.int64))
    assert places.tolist() == [ids.index(number) if number in ids else -1 for number in searched]
