"""Figures of memory plans, compared with recorded values and with a count by brute force."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.formats.errors import ProfileFormatError
from profiles.formats.static_memory import summary as summaries
from profiles.formats.static_memory.summary import StaticMemory, read_static_memory
from profiles.tests.static_plans import (
    NAMES,
    Plan,
    graph_of,
    make_chunk,
    make_plan,
    plan_of,
    to_bytes,
)
from testdata import DATA


def read(folder: Path, plan: Plan | bytes, graph: bytes | None = None) -> StaticMemory:
    plan_path, graph_path = folder / "plan.json", None
    plan_path.write_bytes(plan if isinstance(plan, bytes) else to_bytes(plan))
    if graph is not None:
        graph_path = folder / "graph.json"
        graph_path.write_bytes(graph)
    return msgspec.json.decode(read_static_memory(plan_path, graph_path), type=StaticMemory)


def count_by_hand(plan: Plan) -> dict:
    """Compute the figures of a plan chunk by chunk and step by step."""
    alive = [0] * len(plan["opr"])
    chunks_at: list[set[int]] = [set() for _ in alive]
    for chunk in plan["chunk"].values():
        if chunk["type"] == "weight_mem":
            continue
        size = int(chunk["logic_addr_end"]) - int(chunk["logic_addr_begin"])
        first = int(chunk["time_begin"]) + (chunk["overwrite_dest_id"] != "-1")
        for step in range(first, int(chunk["time_end"])):
            alive[step] += size
            chunks_at[step].add(int(chunk["id"]))
    most = max(alive, default=0)
    static = [chunk for chunk in plan["chunk"].values() if chunk["type"] == "static_mem"]
    return {
        "alive": alive,
        "chunks": chunks_at,
        "most": most,
        "steps_of_most": [step for step, size in enumerate(alive) if size == most and most],
        "peak": max((int(chunk["logic_addr_end"]) for chunk in static), default=0),
    }


def assert_counted_by_hand(summary: StaticMemory, plan: Plan) -> None:
    expected = count_by_hand(plan)
    assert (summary.peak_bytes, summary.most_alive_bytes) == (expected["peak"], expected["most"])
    assert list(summary.curve_bytes) == expected["alive"]
    steps = [step for run in summary.moments for step in range(run.first, run.last + 1)]
    assert steps == expected["steps_of_most"]
    assert summary.reached_count == len(steps)
    for run in summary.moments:
        for step in range(run.first, run.last + 1):
            assert set(run.chunks) == expected["chunks"][step]


@pytest.mark.parametrize("name", NAMES)
def test_figures_of_real_plans_equal_a_count_by_hand(name, tmp_path):
    plan = json.loads(plan_of(name))
    summary = read(tmp_path, plan, graph_of(name))
    assert_counted_by_hand(summary, plan)
    weights = [chunk for chunk in plan["chunk"].values() if chunk["type"] == "weight_mem"]
    assert summary.weight_bytes == sum(
        int(chunk["logic_addr_end"]) - int(chunk["logic_addr_begin"]) for chunk in weights
    )
    assert summary.overlaps_count == 0
    assert summary.graph == "used"


def test_figures_of_resnet18_opt(tmp_path):
    summary = read(tmp_path, plan_of("resnet18_opt"), graph_of("resnet18_opt"))
    assert (summary.peak_bytes, summary.weight_bytes) == (1_939_968, 3_456_448)
    assert (summary.most_alive_bytes, summary.peak_alive_bytes) == (1_433_088, 718_848)
    assert (summary.sum_bytes, summary.in_place_count) == (12_048_336, 9)
    (moment,) = summary.moments
    assert (moment.first, moment.last, moment.percent) == (31, 31, (56.02, 43.98))
    names = {chunk.id: chunk.variable for chunk in summary.chunks}
    workspace = "conv_bias(data,fuse[1725]@1726,const{1,16,1,1}[1717])[24]:workspace"
    assert [names[number] for number in moment.chunks] == ["RELU", workspace]


def test_chunks_have_the_sizes_of_a_real_run(tmp_path):
    """The profile of load_and_run for the same model has the chunk of each variable."""
    summary = read(tmp_path, plan_of("resnet18_opt"), graph_of("resnet18_opt"))
    path = DATA / "load_and_run" / "resnet18_opt__profile" / "profile.json"
    graph = json.loads(path.read_text())["graph_exec"]
    sizes: dict[str, set[int]] = {}
    for variable in graph["var"].values():
        if variable["mem_plan"]:
            size = graph["mem_chunk"][variable["mem_plan"]["mem_chunk_id"]]["size"]
            sizes.setdefault(variable["name"], set()).add(size)
    moving = [chunk for chunk in summary.chunks if not chunk.is_weight]
    assert sum(not chunk.variable for chunk in moving) == 0
    known = [chunk for chunk in moving if sizes.get(chunk.variable)]
    assert len(known) > 40
    # a chunk of the plan may be part of a larger chunk of the run
    assert all(chunk.size_bytes in sizes[chunk.variable] for chunk in known)


@pytest.mark.parametrize(
    ("name", "unnamed"), [("resnet18_opt", 0), ("lstm", 2), ("bert_tiny", 20), ("dynamic_shape", 1)]
)
def test_an_ambiguous_chunk_has_no_name(name, unnamed, tmp_path):
    summary = read(tmp_path, plan_of(name), graph_of(name))
    assert sum(not chunk.variable for chunk in summary.chunks) == unnamed


def test_sizes_known_only_at_run_time_are_counted(tmp_path):
    assert read(tmp_path, plan_of("dynamic_shape"), graph_of("dynamic_shape")).unplanned == 4
    assert read(tmp_path, plan_of("lstm"), graph_of("lstm")).unplanned == 0
    assert read(tmp_path, plan_of("lstm")).unplanned == -1


@pytest.mark.parametrize(
    ("graph", "state"),
    [(None, "none"), (b"{", "graph_unreadable"), (graph_of("lstm"), "not_a_profile")],
)
def test_a_plan_without_its_graph_has_figures_but_no_names(tmp_path, graph, state):
    summary = read(tmp_path, plan_of("tiny"), graph)
    assert (summary.graph, summary.peak_bytes) == (state, 64)
    assert {chunk.variable for chunk in summary.chunks} == {""}
    assert summary.operators[2].name.startswith("MUL(")


def test_the_order_of_the_file_does_not_matter(tmp_path):
    plan = json.loads(plan_of("two_inputs"))
    for section in plan:
        plan[section] = dict(reversed(plan[section].items()))
    reordered = json.dumps(dict(reversed(plan.items()))).encode()
    assert read(tmp_path, reordered) == read(tmp_path, plan_of("two_inputs"))


@st.composite
def plans(draw) -> Plan:
    operators = draw(st.integers(1, 12))
    chunks = []
    for number in range(draw(st.integers(0, 12))):
        begin = draw(st.integers(0, operators - 1))
        low = draw(st.integers(0, 40))
        changes = {}
        if number and draw(st.booleans()):
            changes["overwrite_dest_id"] = str(draw(st.integers(0, number - 1)))
        if draw(st.integers(0, 5)) == 0:
            changes["type"] = "weight_mem"
        end = draw(st.integers(begin, operators))
        high = low + draw(st.integers(0, 20))
        chunks.append(make_chunk(number, (begin, end), (low, high), **changes))
    return make_plan(operators, *draw(st.permutations(chunks)))


@given(plans())
def test_figures_of_any_plan_equal_a_count_by_hand(tmp_path_factory, plan):
    summary = read(tmp_path_factory.mktemp("plan"), plan)
    assert_counted_by_hand(summary, plan)
    rows = {chunk.id: chunk for chunk in summary.chunks}
    static = [chunk for chunk in rows.values() if not chunk.is_weight and chunk.size_bytes]

    def share_addresses(a, b) -> bool:
        ends = a.address + a.size_bytes, b.address + b.size_bytes
        return a is not b and a.address < ends[1] and b.address < ends[0]

    for chunk in static:
        assert chunk.shares == sum(share_addresses(chunk, other) for other in static)
    overlapping = {
        frozenset((a.id, b.id))
        for a in static
        for b in static
        if share_addresses(a, b)
        and max(a.counted_from, b.counted_from) <= min(a.last, b.last)
        and a.counted_from <= a.last
        and b.counted_from <= b.last
    }
    assert bool(summary.overlaps_count) == bool(overlapping)
    assert {frozenset((pair.one, pair.other)) for pair in summary.overlaps} <= overlapping


def test_overlapping_chunks_are_reported(tmp_path):
    plan = make_plan(
        3,
        make_chunk(0, (0, 2), (0, 64)),
        make_chunk(1, (1, 3), (32, 96)),
        make_chunk(2, (2, 3), (0, 8)),
    )
    (overlap,) = read(tmp_path, plan).overlaps
    assert (overlap.one, overlap.other, overlap.size_bytes) == (0, 1, 32)


def test_an_empty_plan_is_valid(tmp_path):
    summary = read(tmp_path, b'{"opr": {}, "chunk": {}}')
    assert (summary.peak_bytes, summary.peak_step) == (0, -1)
    assert (summary.moments, summary.chunks) == ((), ())


def test_the_summary_is_bounded_and_counts_what_it_leaves_out(tmp_path, monkeypatch):
    unlimited = read(tmp_path, plan_of("bert_tiny"), graph_of("bert_tiny"))
    for name in ("CHUNKS_LIMIT", "WEIGHTS_LIMIT", "OPERATORS_LIMIT", "MOMENT_CHUNKS_LIMIT"):
        monkeypatch.setattr(summaries, name, 5)
    monkeypatch.setattr(summaries, "MOMENTS_LIMIT", 1)
    monkeypatch.setattr(summaries, "POINTS_LIMIT", 50)
    summary = read(tmp_path, plan_of("bert_tiny"), graph_of("bert_tiny"))
    assert (len(summary.chunks), summary.chunks_left_out) == (10, 199)
    assert (len(summary.moments), summary.moments_left_out) == (1, 2)
    assert summary.moments[0].chunks == unlimited.moments[0].chunks[:5]
    assert summary.moments[0].chunks_left_out == len(unlimited.moments[0].chunks) - 5
    assert set(summary.moments[0].chunks) <= {chunk.id for chunk in summary.chunks}
    assert max(summary.curve_bytes) == unlimited.most_alive_bytes
    assert len(summary.curve_steps) == 50
    steps = {operator.step for operator in summary.operators}
    assert {chunk.begin for chunk in summary.chunks if not chunk.is_weight} <= steps
    assert (summary.peak_bytes, summary.sum_bytes) == (unlimited.peak_bytes, unlimited.sum_bytes)


def plan_with(**changes: str) -> bytes:
    return to_bytes(
        make_plan(3, make_chunk(0, (0, 2), (0, 64)), make_chunk(1, (1, 3), (64, 96), **changes))
    )


CHUNK_AGAIN = to_bytes(make_chunk(1, (0, 1), (0, 1))) + b", "
DAMAGED = {
    "nothing": (b"", "empty"),
    "white space": (b" \n ", "empty"),
    "cut": (plan_of("tiny")[:-200], "not_json"),
    "cut within a number": (plan_of("tiny")[:-40], "not_json"),
    "bytes that are no text": (b'{"opr": {}, "chunk": {"\xff": 1}}', "not_utf8"),
    "brackets": (b'{"opr":' + b"[" * 100_000, "too_deep"),
    "no chunks": (b'{"opr": {}}', "static_memory_missing"),
    "no operators": (b'{"chunk": {}}', "static_memory_missing"),
    "a list": (b'{"opr": [], "chunk": {}}', "static_memory_bad"),
    "no address": (plan_with().replace(b'"logic_addr_end": "96", ', b""), "static_memory_missing"),
    "a number that is none": (plan_with(time_end="3.0"), "static_memory_bad"),
    "a number in words": (plan_with(logic_addr_end="many"), "static_memory_bad"),
    "an exponent": (plan_with(logic_addr_end="1e3"), "static_memory_bad"),
    "a negative number": (plan_with(logic_addr_begin="-64"), "static_memory_bad"),
    "a negative time": (plan_with(time_begin="-1"), "static_memory_bad"),
    "an empty number": (plan_with(time_begin=""), "static_memory_bad"),
    "a comma": (plan_with(time_begin="1,1"), "static_memory_bad"),
    "other digits": (plan_with(time_begin="١"), "static_memory_bad"),
    "a number that is no text": (plan_with().replace(b'"96"', b"96"), "static_memory_bad"),
    "another kind of memory": (plan_with(type="magic_mem"), "static_memory_bad"),
    "an end before its begin": (plan_with(time_begin="2", time_end="1"), "static_memory_bad"),
    "an address that ends first": (plan_with(logic_addr_end="63"), "static_memory_bad"),
    "an exabyte": (plan_with(logic_addr_end=str(2**60)), "static_memory_bad"),
    "a number without end": (plan_with(logic_addr_end="9" * 400), "static_memory_bad"),
    "another id": (plan_with(id="7").replace(b'"7": {', b'"8": {'), "static_memory_bad"),
    "an unknown operator": (plan_with(time_end="4"), "static_memory_operator"),
    "a writer behind the end": (plan_with(time_begin="3", time_end="3"), "static_memory_operator"),
    "a gap between operators": (plan_with().replace(b'"2"', b'"5"'), "static_memory_operator"),
    "a chunk twice": (
        plan_with().replace(b'"chunk": {', b'"chunk": {"1": ' + CHUNK_AGAIN),
        "static_memory_twice",
    ),
    "an operator twice": (
        plan_with().replace(b'"opr": {', b'"opr": {"1": {"id": "1", "name": "x"},'),
        "static_memory_twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "code"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_plan_is_refused_with_a_code(tmp_path, data, code):
    with pytest.raises(ProfileFormatError) as caught:
        read(tmp_path, data)
    assert caught.value.code == code
    assert len(caught.value.detail) < 300


def test_a_plan_of_more_than_8_pib_is_refused(tmp_path):
    chunks = [make_chunk(n, (0, 1), (0, 2**50)) for n in range(9)]
    with pytest.raises(ProfileFormatError, match="8 PiB"):
        read(tmp_path, make_plan(1, *chunks))


def test_an_operator_name_may_look_like_a_key(tmp_path):
    plan = make_plan(2, make_chunk(0, (0, 1), (0, 8)))
    plan["opr"]["1"]["name"] = '"time_begin": "name": time_begin'
    assert read(tmp_path, plan).operators[1].name == '"time_begin": "name": time_begin'
