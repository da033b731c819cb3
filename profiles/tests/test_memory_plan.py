"""Memory by execution step, computed from real plans."""

import json

import numpy as np
import pytest

from profiles.analysis.dtypes import element_bytes
from profiles.analysis.memory_plan import memory_plan
from profiles.analysis.tensor_sizes import variable_bytes
from profiles.formats.columns import MISSING
from profiles.tests.graphs import read, read_compiled, read_good
from profiles.tests.make import to_json
from testdata import compiled_profile, good_profile

PLANNED = ("resnet18_opt__profile", "two_inputs__profile", "tiny__profile", "opt__multithread")


def test_the_plan_of_tiny_equals_a_sum_by_hand():
    # the input data (2, 8) float32 and two constants of one float32; FUSE_MUL_ADD3 writes (2, 8),
    # RELU writes its result in place
    plan = memory_plan(*read_compiled("tiny__profile"))
    assert plan.persistent_bytes == 64 + 4 + 4
    assert plan.planned.tolist() == [0, 0, 0, 64, 64]
    assert not plan.estimated.any()
    assert (plan.peak_step, plan.peak_bytes) == (3, 136)


def test_tagged_addresses_give_the_same_plan():
    """MegEngine writes addresses as signed integers, and Android sets their top bits."""
    profile = json.loads(compiled_profile("tiny__profile"))
    for chunk in profile["graph_exec"]["mem_chunk"].values():
        chunk["dev_ptr"] = (chunk["dev_ptr"] | 0xB4 << 56) - 2**64
    plan = memory_plan(*read(to_json(profile)))
    assert plan.planned.tolist() == [0, 0, 0, 64, 64]
    assert (plan.peak_step, plan.peak_bytes) == (3, 136)


def test_without_a_plan_sizes_are_estimated_from_shapes_and_bytes_moved():
    # as above; MUL and ADD are separate operators, and the file does not tell that RELU is in place
    plan = memory_plan(*read_good("tiny"))
    assert plan.persistent_bytes == 8
    assert not plan.planned.any()
    assert plan.estimated.tolist() == [64, 64, 128, 64, 128, 128, 64]
    assert plan.unknown == 0


@pytest.mark.parametrize("name", PLANNED)
def test_the_peak_fits_into_all_addresses_in_use(name):
    graph, columns = read_compiled(name)
    plan = memory_plan(graph, columns)
    chunks = graph.chunks
    real = np.flatnonzero((chunks.address > 0) & (chunks.size_bytes > 0))
    used_bytes = covered_bytes(chunks.address[real], chunks.size_bytes[real])
    # blocks share addresses
    assert used_bytes < chunks.size_bytes[real].sum()
    # simultaneous blocks fit into all addresses that are ever used
    assert plan.peak_bytes <= used_bytes


def covered_bytes(address, size):
    """Return the number of addresses that any chunk covers."""
    covered, end = 0, 0
    for begin, length in sorted(zip(address.tolist(), size.tolist(), strict=True)):
        covered += max(0, begin + length - max(begin, end))
        end = max(end, begin + length)
    return covered


def test_resnet18_peaks_in_its_first_convolution():
    graph, columns = read_compiled("resnet18_opt__profile")
    plan = memory_plan(graph, columns)
    assert columns.types[plan.rows[plan.peak_step]] == "ConvBiasForward"
    first, second = plan.owners[:2]
    assert (first.variable, first.kind) == ("RELU", "planned")
    assert first.size_bytes == 1 * 16 * 112 * 112 * 4
    assert second.variable.endswith(":workspace")
    assert columns.names[first.row] == columns.names[plan.rows[plan.peak_step]]
    assert sum(owner.size_bytes for owner in plan.owners) <= plan.peak_bytes
    assert len(plan.owners) == 10


@pytest.mark.parametrize("name", ["resnet18", "bert_tiny", "quantized", "lstm"])
def test_deduced_sizes_agree_with_the_plan(name):
    """Remove the dtypes of planned variables; footprints alone give nearly all sizes."""
    profile = json.loads(good_profile(name))
    graph, columns = read(json.dumps(profile).encode())
    known = variable_bytes(graph, columns)
    dtypes = {}
    for key, variable in profile["graph_exec"]["var"].items():
        if variable["mem_plan"] and variable["mem_plan"]["layout"]["dtype"] != "Int32":
            dtypes[key] = variable["mem_plan"]["layout"].pop("dtype")
    graph_without_dtypes, columns = read(json.dumps(profile).encode())
    deduced = variable_bytes(graph_without_dtypes, columns)
    places = [
        place for place, key in enumerate(graph_without_dtypes.variables.ids) if key in dtypes
    ]
    deduced_places = [place for place in places if not np.isnan(deduced[place])]
    assert len(deduced_places) >= 0.4 * len(places)
    equal = sum(deduced[place] == known[place] for place in deduced_places)
    assert equal >= 0.9 * len(deduced_places)


def test_a_quantised_result_has_one_byte_per_element():
    graph, columns = read_good("quantized")
    sizes = variable_bytes(graph, columns)
    place = graph.variables.names.index("conv2.ConvBias")
    shape = json.loads(graph.variables.shapes[place])
    assert sizes[place] == np.prod(shape)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Float32", 4),
        ("Float16", 2),
        ("Int8", 1),
        ("Complex64", 8),
        ("QuantizedS8", 1),
        ("QuantizedS8(scale=0.5)", 1),
        ("Quantized8Asymm", 1),
        ("QuantizedS32", 4),
        ("QuantizedS4", 0.5),
        ("Quantized4Asymm", 0.5),
        ("QuantizedS1", 0.125),
        ("Flaot32", None),
        (None, None),
    ],
)
def test_dtypes_have_sizes_and_unknown_dtypes_have_none(dtype, size):
    assert element_bytes(dtype) == size


def test_each_device_has_its_own_plan():
    profile = json.loads((good_profile("tiny")).decode())
    variables = profile["graph_exec"]["var"]
    moved = [key for key, variable in variables.items() if variable["name"] == "ADD"]
    for key in moved:
        variables[key]["comp_node"] = 'CompNode("gpu1:3" from "gpux:0")'
    graph, columns = read(json.dumps(profile).encode())
    first = memory_plan(graph, columns)
    assert first.devices == ("cpu0", "gpu1")
    second = memory_plan(graph, columns, "gpu1")
    assert (second.device, second.peak_bytes) == ("gpu1", 64)
    assert memory_plan(graph, columns, "gpu7").device == "cpu0"


def test_a_graph_without_steps_has_an_empty_plan():
    profile = json.loads(good_profile("tiny"))
    profile["graph_exec"]["comp_seq"] = []
    plan = memory_plan(*read(json.dumps(profile).encode()))
    assert (plan.peak_bytes, plan.owners, len(plan.rows)) == (0, (), 0)


def test_an_owner_without_times_has_no_row():
    profile = json.loads(good_profile("tiny"))
    operators = profile["graph_exec"]["operator"].items()
    key = next(key for key, row in operators if row["name"].startswith("const{1}[4]"))
    for section in ("device", "host", "opr_footprint"):
        del profile["profiler"][section][key]
    plan = memory_plan(*read(json.dumps(profile).encode()))
    rows = {owner.variable: owner.row for owner in plan.owners}
    assert rows["const<2>[2]"] == MISSING
