"""The parser of graphs: a damaged section is omitted, and the table is kept."""

import json

import numpy as np
import pytest

from profiles.formats.columns import MISSING
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph_json import empty_graph, parse_graph
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.formats.npz import pack
from profiles.tests.make import to_json
from testdata import DATA, bad_profile, good_profile

PROFILES = sorted(path.stem for path in (DATA / "profiles").glob("*.json"))
BAD = sorted(path.stem for path in (DATA / "bad" / "profiles").glob("*.json"))
#: changes that do not affect the table
CHANGES = {
    "nothing": lambda profile: None,
    "infinite time": lambda profile: first(profile["profiler"]["host"]).update(end="inf"),
    "node of a variable": lambda profile: first(graph_of(profile)["var"]).update(comp_node=7),
    "no chunks": lambda profile: graph_of(profile).update(mem_chunk=[]),
    "no order": lambda profile: graph_of(profile).pop("comp_seq"),
}


def graph_of(profile):
    return profile["graph_exec"]


def first(section):
    """Return the first entry of a section; for times, those of its first comp node."""
    entry = next(iter(section.values()))
    return next(iter(entry.values())) if "mem_plan" not in entry else entry


def parse_changed(profile):
    """Return the graph of a changed profile; its table is that of the unchanged resnet18."""
    return parse_graph(to_json(profile), parse(good_profile("resnet18")))


def resnet18():
    return json.loads(good_profile("resnet18"))


@pytest.mark.parametrize("name", PROFILES)
def test_a_valid_profile_has_no_problems(name):
    data = good_profile(name)
    columns = parse(data)
    graph = parse_graph(data, columns)
    # a graph without computation has no memory plan
    assert graph.problems == (("mem_chunk",) if name == "no_op" else ())
    rows = graph.operators.row[graph.operators.row != MISSING]
    assert sorted(rows.tolist()) == list(range(len(columns)))
    operators = graph.operator_of_row(len(columns))
    assert tuple(graph.operators.names[operator] for operator in operators) == columns.names


def read_separately(data):
    columns = parse(data)
    return as_bytes(columns, parse_graph(data, columns))


def read_at_once(data):
    columns, graph = parse_whole(data)
    return as_bytes(columns, graph())


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("name", PROFILES)
def test_parse_whole_equals_parse_and_parse_graph(name, change):
    profile = json.loads(good_profile(name))
    change(profile)
    data = to_json(profile)
    assert read_at_once(data) == read_separately(data)


def as_bytes(columns, graph):
    """Return dtype and bytes of all arrays that are stored."""
    arrays = pack(columns) | pack(graph, "graph.")
    return {key: (array.dtype, array.tobytes()) for key, array in arrays.items()}


@pytest.mark.parametrize("name", BAD)
def test_parse_whole_of_a_damaged_file_equals_parse_and_parse_graph(name):
    data = bad_profile(name)
    results = []
    for read in (read_separately, read_at_once):
        try:
            results.append(read(data))
        except ProfileFormatError as error:
            results.append((error.code, error.detail))
    assert results[0] == results[1]


def test_the_shape_of_an_input_is_from_its_reader():
    graph = parse_graph(good_profile("resnet18"), parse(good_profile("resnet18")))
    indexes = [index for index, name in enumerate(graph.variables.names) if name == "data"]
    assert graph.variables.shapes[indexes[0]] == "[1,3,224,224]"


@pytest.mark.parametrize(
    ("part", "section"),
    [
        ("graph_exec", "var"), ("graph_exec", "mem_chunk"), ("graph_exec", "comp_seq"),
        ("profiler", "device"), ("profiler", "host"), ("profiler", "opr_footprint"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [None, 7, "x", [1, 2], {"1": 7}, {"1": None}, {"490": [None]}])
def test_an_invalid_section_is_named_and_omitted(part, section, value):
    profile = resnet18()
    profile[part][section] = value
    graph = parse_changed(profile)
    assert graph.problems
    assert len(graph.operators) in (0, 174)


def test_a_damaged_entry_does_not_affect_others():
    profile = resnet18()
    valid = parse_changed(profile)
    profile["graph_exec"]["var"]["491"] = {"name": 5}
    graph = parse_changed(profile)
    assert graph.problems == ("var",)
    assert graph.variables.names.count("") == 1
    assert np.array_equal(graph.operators.row, valid.operators.row)
    assert np.array_equal(graph.device.end_s, valid.device.end_s)


@pytest.mark.parametrize("section", ["operator", "var", "mem_chunk", "comp_seq"])
def test_a_missing_section_is_named(section):
    profile = resnet18()
    del profile["graph_exec"][section]
    graph = parse_changed(profile)
    assert section in graph.problems


def test_invalid_times_of_one_side_do_not_affect_the_other():
    profile = resnet18()
    first(profile["profiler"]["host"])["end"] = {"deep": "er"}
    graph = parse_changed(profile)
    assert graph.problems == ("host",)
    assert len(graph.host) == 0
    assert len(graph.device) > 0


def test_unknown_ids_and_repeated_steps_are_ignored():
    profile = resnet18()
    profile["graph_exec"]["operator"]["493"]["input"] += ["nowhere", "491"]
    profile["graph_exec"]["comp_seq"] += ["nowhere", "490"]
    graph = parse_changed(profile)
    assert graph.problems == ()
    assert graph.execution_order().tolist() == parse_changed(resnet18()).execution_order().tolist()


def test_an_operator_that_reads_its_own_output_is_accepted():
    profile = resnet18()
    operator = profile["graph_exec"]["operator"]["493"]
    operator["input"] += operator["output"]
    assert parse_changed(profile).problems == ()


@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_a_deeply_nested_graph_is_refused(opening):
    closing = "}" if opening == '{"a":' else "]"
    deep = opening * 100_000 + "1" + closing * 100_000
    data = good_profile("tiny").replace(
        b'"graph_exec":', b'"x":' + deep.encode() + b',"graph_exec":'
    )
    with pytest.raises(ProfileFormatError) as refusal:
        parse_graph(data, parse(good_profile("tiny")))
    assert refusal.value.code == "graph_unreadable"


def test_numbers_that_are_too_large_become_zero():
    profile = resnet18()
    chunk = next(iter(profile["graph_exec"]["mem_chunk"].values()))
    chunk["size"] = 10**40
    profile["profiler"]["opr_footprint"]["493"]["param"] = {"pad": 10**40}
    profile["profiler"]["opr_footprint"]["493"]["out_shapes"] = 5
    graph = parse_changed(profile)
    assert graph.chunks.size_bytes[0] == 0


def test_the_graph_of_another_file_is_refused():
    graph = parse_graph(good_profile("tiny"), parse(good_profile("resnet18")))
    assert graph.problems == ("operator",)
    assert len(graph.operators) == 0


def test_an_empty_graph_has_its_problem():
    graph = empty_graph(("operator",))
    assert graph.problems == ("operator",)
    assert (len(graph.operators), len(graph.variables), len(graph.device)) == (0, 0, 0)
    assert graph.execution_order().tolist() == []
