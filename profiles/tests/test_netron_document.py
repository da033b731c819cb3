"""The document that describes an executed graph to Netron."""

import json

import numpy as np
import pytest

from profiles.analysis.netron.colours import Colouring, colouring
from profiles.analysis.netron.document import netron_document, place_of_row
from profiles.analysis.netron.text import plain
from profiles.analysis.passes import merge
from profiles.formats.load_and_run.graph_json import empty_graph
from profiles.formats.load_and_run.reader import parse
from profiles.tests.passes import data_of
from testdata import DATA, good_profile

PROFILES = sorted(path.stem for path in (DATA / "profiles").glob("*.json"))


def load_profile(name):
    return data_of(good_profile(name))


def make_document(data, **options):
    body = json.loads(netron_document(data, **options))
    return body["modules"][0], body["view"]


def value_names(module, arguments):
    return [
        module["values"][index]["name"] for argument in arguments for index in argument["value"]
    ]


@pytest.mark.parametrize("name", PROFILES)
def test_every_input_is_an_output_a_graph_input_or_a_constant(name):
    module, view = make_document(load_profile(name))
    sources = set(value_names(module, module["inputs"]))
    for node in module["nodes"]:
        sources |= set(value_names(module, node["outputs"]))
    constant = {value["name"] for value in module["values"] if "initializer" in value}
    for node in module["nodes"]:
        assert set(value_names(module, node["inputs"])) <= sources | constant, node["name"]
    names = [node["name"] for node in module["nodes"]]
    assert len(set(names)) == len(names) > 0
    assert len({value["name"] for value in module["values"]}) == len(module["values"])
    assert view["shown"] == view["operators"]


@pytest.mark.parametrize("name", ["resnet18", "deep_loop", "hostile_names", "quantized"])
def test_the_graph_input_is_connected_to_the_first_node(name):
    module, _ = make_document(load_profile(name))
    fed = set(value_names(module, module["inputs"]))
    assert fed & set(value_names(module, module["nodes"][0]["inputs"]))


def test_a_node_has_time_parameters_and_inputs():
    module, view = make_document(load_profile("resnet18"))
    node = next(node for node in module["nodes"] if node["name"].startswith("[493] conv"))
    attributes = {attribute["name"]: attribute["value"] for attribute in node["attributes"]}
    assert attributes["time"] == "1.95 ms"
    assert attributes["flops"] == "59.0 MFLOP"
    assert (attributes["stride_h"], attributes["pad_w"]) == ("2", "3")
    kinds = [module["values"][argument["value"][0]] for argument in node["inputs"]]
    assert kinds[0]["type"]["shape"]["dimensions"] == [1, 3, 224, 224]
    assert kinds[1]["initializer"]["type"]["shape"]["dimensions"] == [16, 3, 7, 7]
    assert node["inputs"][1]["name"] == "weight"
    row = next(row for name, row, _ in view["nodes"] if name == node["name"])
    assert load_profile("resnet18").columns.names[row] == "conv(data,conv1.weight)[493]"


def test_the_slowest_operator_has_the_hottest_colour():
    data = load_profile("resnet18")
    module, view = make_document(data)
    hottest = [node["name"] for node in module["nodes"] if node["type"]["category"] == "heat9"]
    slowest = int(np.nanargmax(data.columns.device.end_s))
    assert [row for name, row, _ in view["nodes"] if name in hottest][:1] == [slowest]
    assert view["scale"]["texts"][0] == "0 ms"
    assert view["scale"]["texts"][-1] == "1.95 ms"


def test_a_constant_belongs_to_the_node_that_reads_it():
    data = load_profile("resnet18")
    _, view = make_document(data)
    row = data.columns.names.index("const{100,128}[483]")
    assert dict(view["rows"])[row].startswith("[786] matrix_mul")
    assert place_of_row(data, row) == ""


def test_operators_that_never_run_are_counted_as_left_out():
    _, view = make_document(load_profile("bert_tiny"))
    assert view["left_out"] == 272


def test_a_large_graph_is_divided_into_blocks_with_sums():
    data = load_profile("deep_loop")
    module, view = make_document(data)
    assert len(module["nodes"]) <= 200
    attributes = [{a["name"]: a["value"] for a in node["attributes"]} for node in module["nodes"]]
    assert sum(int(block["operators"]) for block in attributes) == 5316
    assert {"time", "share", "slowest"} <= attributes[0].keys()
    _, inner = make_document(data, place=view["nodes"][3][2])
    assert inner["path"][0] == ["", ""]
    assert inner["place"] == view["nodes"][3][2]


def test_place_of_row_is_the_block_that_shows_the_row():
    data = load_profile("deep_loop")
    for row in (0, 2_663, 5_325):
        _, view = make_document(data, place=place_of_row(data, row))
        assert row in [node_row for _, node_row, _ in view["nodes"]] + list(dict(view["rows"]))
    assert place_of_row(data, 10**9) is None


def test_an_unknown_place_shows_the_whole_graph():
    _, view = make_document(load_profile("tiny"), place="nowhere.at.all")
    assert view["place"] == ""
    assert view["shown"] > 0


def test_the_rate_of_a_block_divides_its_sums():
    data = load_profile("resnet18")
    colours = colouring(data, "flops", "device")
    rows = np.array([86, 87, 88], dtype=np.int32)
    flops, seconds = colours.values[rows], colours.seconds[rows]
    assert colours.of([rows])[0] == pytest.approx(np.nansum(flops) / np.nansum(seconds))


def test_change_colours_diverge_from_zero():
    data = load_profile("resnet18")
    change = np.full(len(data.columns), np.nan)
    change[[5, 6, 7]] = -1e-3, 0.0, 5e-4
    colours = Colouring("change", change)
    classes, texts = colours.classes(np.array([-1e-3, 0.0, 5e-4, np.nan]))
    assert classes.tolist() == [0, 4, 7, -1]
    assert (texts[0], texts[4], texts[8]) == ("-1.00 ms", "0 ms", "1.00 ms")
    module, _ = make_document(data, colours=colours)
    assert "none" in {node["type"]["category"] for node in module["nodes"]}


def test_a_graph_without_execution_order_is_drawn():
    profile = json.loads(good_profile("tiny"))
    profile["graph_exec"]["comp_seq"] = []
    module, view = make_document(data_of(json.dumps(profile).encode()))
    assert len(module["nodes"]) > 0
    assert view["left_out"] == 0


def test_a_profile_without_a_graph_has_an_empty_document():
    columns = parse(good_profile("tiny"))
    data = merge([("profile.json", columns)], empty_graph(("operator",)))
    module, view = make_document(data)
    assert module["nodes"] == []
    assert view["operators"] == 0
    assert place_of_row(data, 0) is None


def test_hostile_names_become_one_escaped_line():
    assert plain("a\nb\u202ec\x00") == "a\\u000ab\\u202ec\\u0000"
    assert plain("</script><b>🦊 עברית") == "</script><b>🦊 עברית"
    assert len(plain("x" * 10**6)) == 200


def test_operators_with_equal_ids_and_names_stay_separate_nodes():
    profile = json.loads(good_profile("resnet18"))
    for operator in profile["graph_exec"]["operator"].values():
        operator["id"], operator["name"] = "1", "same"
    for variable in profile["graph_exec"]["var"].values():
        variable["name"] = "same"
    module, _ = make_document(data_of(json.dumps(profile).encode()))
    names = [node["name"] for node in module["nodes"]]
    assert len(set(names)) == len(names) == 79


def test_a_cyclic_graph_is_drawn():
    profile = json.loads(good_profile("resnet18"))
    operator = profile["graph_exec"]["operator"]["493"]
    operator["input"] += operator["output"]
    module, _ = make_document(data_of(json.dumps(profile).encode()))
    assert len(module["nodes"]) == 79
