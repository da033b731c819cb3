"""The parser of graphs: damage of a section costs this section, never the table."""

import json

import numpy as np
import pytest

from profiles.formats.columns import MISSING
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph_json import empty_graph, parse_graph
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.formats.npz import pack
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


def parsed(profile):
    """Return the graph of a changed profile; its table is that of the unchanged resnet18."""
    return parse_graph(json.dumps(profile).encode(), parse(good_profile("resnet18")))


def resnet18():
    return json.loads(good_profile("resnet18"))


@pytest.mark.parametrize("name", PROFILES)
def test_a_sound_profile_has_nothing_to_complain_of(name):
    data = good_profile(name)
    columns = parse(data)
    graph = parse_graph(data, columns)
    # a graph without computation has no memory plan
    assert graph.problems == (("mem_chunk",) if name == "no_op" else ())
    known = graph.operators.row[graph.operators.row != MISSING]
    assert sorted(known.tolist()) == list(range(len(columns)))
    assert [
        graph.operators.names[operator] for operator in graph.operator_of_row(len(columns))
    ] == list(columns.names)


def twice(data):
    columns = parse(data)
    return as_bytes(columns, parse_graph(data, columns))


def once(data):
    columns, graph = parse_whole(data)
    return as_bytes(columns, graph())


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("name", PROFILES)
def test_a_file_that_is_decoded_once_says_what_two_readings_say(name, change):
    profile = json.loads(good_profile(name))
    change(profile)
    data = json.dumps(profile).encode()
    assert once(data) == twice(data)


def as_bytes(columns, graph):
    """Return dtype and bytes of all arrays that are stored."""
    arrays = pack(columns) | pack(graph, "graph.")
    return {key: (array.dtype, array.tobytes()) for key, array in arrays.items()}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_refused_or_read_alike_however_often_it_is_decoded(name):
    data = bad_profile(name)
    results = []
    for read in (twice, once):
        try:
            results.append(read(data))
        except ProfileFormatError as error:
            results.append((error.code, error.detail))
    assert results[0] == results[1]


def test_the_shape_of_what_is_fed_is_that_which_its_reader_saw():
    graph = parse_graph(good_profile("resnet18"), parse(good_profile("resnet18")))
    places = [index for index, name in enumerate(graph.variables.names) if name == "data"]
    assert graph.variables.shapes[places[0]] == "[1,3,224,224]"


@pytest.mark.parametrize(
    ("part", "section"),
    [
        ("graph_exec", "var"), ("graph_exec", "mem_chunk"), ("graph_exec", "comp_seq"),
        ("profiler", "device"), ("profiler", "host"), ("profiler", "opr_footprint"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [None, 7, "x", [1, 2], {"1": 7}, {"1": None}, {"490": [None]}])
def test_a_section_of_the_wrong_form_is_named_and_left_out(part, section, value):
    profile = resnet18()
    profile[part][section] = value
    graph = parsed(profile)
    assert graph.problems
    assert len(graph.operators) in (0, 174)


def test_one_damaged_entry_leaves_all_others():
    profile = resnet18()
    sound = parsed(profile)
    profile["graph_exec"]["var"]["491"] = {"name": 5}
    graph = parsed(profile)
    assert graph.problems == ("var",)
    assert graph.variables.names.count("") == 1
    assert np.array_equal(graph.operators.row, sound.operators.row)
    assert np.array_equal(graph.device.end_s, sound.device.end_s)


@pytest.mark.parametrize("section", ["operator", "var", "mem_chunk", "comp_seq"])
def test_a_missing_section_is_named(section):
    profile = resnet18()
    del profile["graph_exec"][section]
    graph = parsed(profile)
    assert section in graph.problems


def test_times_that_are_no_numbers_cost_their_side_only():
    profile = resnet18()
    nodes = next(iter(profile["profiler"]["host"].values()))
    next(iter(nodes.values()))["end"] = {"deep": "er"}
    graph = parsed(profile)
    assert graph.problems == ("host",)
    assert len(graph.host) == 0
    assert len(graph.device) > 0


def test_unknown_ids_and_repeated_steps_are_passed_over():
    profile = resnet18()
    profile["graph_exec"]["operator"]["493"]["input"] += ["nowhere", "491"]
    profile["graph_exec"]["comp_seq"] += ["nowhere", "490"]
    graph = parsed(profile)
    assert graph.problems == ()
    assert graph.execution_order().tolist() == parsed(resnet18()).execution_order().tolist()


def test_a_graph_that_feeds_itself_is_read_as_it_stands():
    profile = resnet18()
    operator = profile["graph_exec"]["operator"]["493"]
    operator["input"] += operator["output"]
    assert parsed(profile).problems == ()


@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_a_graph_of_enormous_depth_is_refused(opening):
    closing = "}" if opening == '{"a":' else "]"
    deep = opening * 100_000 + "1" + closing * 100_000
    data = good_profile("tiny").replace(
        b'"graph_exec":', b'"x":' + deep.encode() + b',"graph_exec":'
    )
    with pytest.raises(ProfileFormatError) as refusal:
        parse_graph(data, parse(good_profile("tiny")))
    assert refusal.value.code == "graph_unreadable"


def test_numbers_that_fit_nowhere_become_unknown():
    profile = resnet18()
    chunk = next(iter(profile["graph_exec"]["mem_chunk"].values()))
    chunk["size"] = 10**40
    profile["profiler"]["opr_footprint"]["493"]["param"] = {"pad": 10**40}
    profile["profiler"]["opr_footprint"]["493"]["out_shapes"] = 5
    graph = parsed(profile)
    assert graph.chunks.size_bytes[0] == 0


def test_another_files_graph_is_not_joined_with_the_table():
    graph = parse_graph(good_profile("tiny"), parse(good_profile("resnet18")))
    assert graph.problems == ("operator",)
    assert len(graph.operators) == 0


def test_an_empty_graph_says_why():
    graph = empty_graph(("operator",))
    assert graph.problems == ("operator",)
    assert (len(graph.operators), len(graph.variables), len(graph.device)) == (0, 0, 0)
    assert graph.execution_order().tolist() == []
