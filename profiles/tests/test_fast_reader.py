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
from profiles.formats.load_and_run.fast_reader import IdIndex, id_lists, quick
from profiles.formats.load_and_run.profile_json import decode_unchecked
from profiles.formats.load_and_run.reader import _careful, _sections, parse
from profiles.formats.load_and_run.sections import Sections
from profiles.tests.make import NODE, make_profile, to_json
from testdata import DATA, good_profile

NAMES = sorted(path.stem for path in (DATA / "profiles").glob("*.json"))


def columns_as_lists(sections: Sections | None) -> dict[str, Any]:
    """Return all columns as lists with an entry for each operator."""
    assert sections is not None
    lists: dict[str, Any] = {}
    for name, value in vars(sections).items():
        match value:
            case SideTimes():
                lists[name] = [
                    value.present.tolist(),
                    *map(repr_values, (value.end_s, value.kern_s)),
                ]
            case NumberColumn():
                lists[name] = [value.present.tolist(), repr_values(value.values)]
            case TextColumn():
                lists[name] = [value[row] for row in range(len(value))]
            case np.ndarray():
                continue
            case _ if name in ("in_shapes", "out_shapes", "in_layouts"):
                lists[name] = [json.loads(value[row] or "0") for row in sections.costs]
            case _:
                lists[name] = list(value)
    return lists


def use_numeric_ids(profile: dict[str, Any]) -> dict[str, Any]:
    """Give the only variable a numeric id, as MegEngine does."""
    graph = profile["graph_exec"]
    graph["var"] = {"4": graph["var"]["v"]}
    for operator in graph["operator"].values():
        operator.update(input=["4"], output=["4"])
    return profile


def repr_values(values: np.ndarray) -> list[str]:
    # nan differs from itself, so compare texts
    return list(map(repr, values.tolist()))


@pytest.mark.parametrize("name", NAMES)
def test_both_readers_give_the_same_columns_for_real_profiles(name: str) -> None:
    data = good_profile(name)
    assert columns_as_lists(quick(data)) == columns_as_lists(_careful(data))


@pytest.mark.parametrize("name", NAMES)
def test_unchecked_reading_gives_the_same_columns_for_real_profiles(name: str) -> None:
    data = good_profile(name)
    unchecked = decode_unchecked(data)
    assert unchecked is not None
    assert columns_as_lists(_sections(unchecked)) == columns_as_lists(_careful(data))


def test_both_readers_join_nodes_missing_sections_and_any_order() -> None:
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
    data = to_json(use_numeric_ids(profile))
    assert columns_as_lists(quick(data)) == columns_as_lists(_careful(data))
    assert columns_as_lists(quick(data))["ids"] == ["7", "3", "900000000000", "0"]


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
def test_the_fast_reader_declines_unusual_values(change: Any) -> None:
    profile = use_numeric_ids(make_profile({"1": 0.5}, footprint={"1": {"memory": 1}}))
    assert quick(to_json(profile)) is not None
    change(profile)
    assert quick(to_json(profile)) is None


def test_a_mapped_file_reads_like_its_bytes(tmp_path: Path) -> None:
    data = good_profile("tiny")
    with (DATA / "profiles" / "tiny.json").open("rb") as file:
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    columns = parse(mapped)
    # the columns keep no reference to it
    mapped.close()
    assert columns.names == parse(data).names


def test_dtypes_are_optional() -> None:
    columns = parse(good_profile("tiny"), dtypes=False)
    assert set(columns.in_dtypes.codes.tolist()) == {MISSING}
    assert columns.names == parse(good_profile("tiny")).names


def test_a_missing_variable_is_an_error_only_if_dtypes_are_read() -> None:
    profile = make_profile({"1": 0.5})
    profile["graph_exec"]["operator"]["1"].update(input=["lost"])
    assert parse(to_json(profile), dtypes=False).names == ("op1",)
    with pytest.raises(ProfileFormatError, match="lost"):
        parse(to_json(profile))


def test_unchecked_values_are_printed_like_python_does() -> None:
    profile = make_profile({"1": 0.5, "2": 0.25}, footprint={"1": {"in_shapes": 5}})
    profile["graph_exec"]["operator"]["1"].update(name=None, type=7)
    profile["graph_exec"]["operator"]["2"].update(name="x" * 10_000)
    columns = parse(to_json(profile), checked=False)
    assert (columns.names[0], columns.types[0], columns.in_shapes[0]) == ("None", "7", "5")


IDS = st.lists(st.lists(st.integers(0, 10**18 - 1), max_size=4), max_size=6)


@given(IDS, st.sampled_from(["", " ", "  "]))
def test_lists_of_ids_are_read_like_json(lists: list[list[int]], space: str) -> None:
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
def test_other_lists_are_refused(texts: list[str]) -> None:
    assert id_lists([Raw(text.encode()) for text in texts]) is None


@given(st.lists(st.integers(-5, 10**15), unique=True), st.lists(st.integers(-5, 10**15)))
def test_id_index_finds_places_like_a_linear_search(ids: list[int], others: list[int]) -> None:
    searched = [*ids, *others]
    places = IdIndex(np.array(ids, dtype=np.int64)).find(np.array(searched, dtype=np.int64))
    assert places.tolist() == [ids.index(number) if number in ids else -1 for number in searched]
