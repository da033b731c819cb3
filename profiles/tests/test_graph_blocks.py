"""Large graphs are divided into blocks of a readable size."""

import numpy as np
import pytest

from profiles.analysis.netron.wiring import wire
from profiles.analysis.scopes import (
    FEWEST_NODES,
    MOST_NODES,
    GraphBlocks,
    ScopeNode,
    read_place,
    scopes_of,
)
from profiles.tests.graphs import read_good


def make_blocks(scopes, kinds=None):
    kinds = np.zeros(len(scopes), dtype=np.int32) if kinds is None else np.array(kinds)
    return GraphBlocks([tuple(scope.split(".")) if scope else () for scope in scopes], kinds)


def reachable_places(tree):
    """Return every place that a user can reach by opening blocks."""
    queue, places = [ScopeNode()], []
    while queue:
        place = queue.pop()
        places.append(place)
        queue += [item.place for item in tree.items(place) if item.place is not None]
    return places


def test_scopes_follow_from_outputs_and_weights():
    graph, _ = read_good("resnet18")
    rows = wire(graph).rows
    scopes = dict(zip(rows.tolist(), scopes_of(graph, rows), strict=True))
    names = {graph.operators.names[row].partition("(")[0]: scope for row, scope in scopes.items()}
    assert scopes[rows[1]] == ("conv1",)
    assert ("layer2", "0", "downsample", "0") in scopes.values()
    assert names["data"] == ()


def test_an_operator_without_a_scope_joins_its_neighbours():
    graph, _ = read_good("resnet18")
    rows = wire(graph).rows
    scopes = scopes_of(graph, rows)
    kinds = [graph.operators.types[int(row)] for row in rows]
    # additions and activations within a block have no name of a module
    elementwise_scopes = [
        scope for scope, kind in zip(scopes, kinds, strict=True) if kind == "Elemwise"
    ]
    assert ("layer1", "0") in elementwise_scopes


def test_a_small_graph_is_not_divided():
    items = make_blocks(["a", "a", "b"]).items(ScopeNode())
    assert [item.place for item in items] == [None, None, None]


@pytest.mark.exhaustive
def test_every_operator_of_a_deep_graph_is_reachable():
    graph, _ = read_good("deep_loop")
    wiring = wire(graph)
    kinds = graph.operators.types.codes[wiring.rows]
    tree = GraphBlocks(scopes_of(graph, wiring.rows), kinds)
    reached = []
    for place in reachable_places(tree):
        items = tree.items(place)
        assert FEWEST_NODES <= len(items) <= MOST_NODES
        reached += [int(item.members[0]) for item in items if item.place is None]
    assert sorted(reached) == list(range(5316))


@pytest.mark.parametrize("count", [1_001, 40_001, 100_000])
def test_nested_runs_have_a_limited_number_of_nodes(count):
    tree = make_blocks([""] * count)
    place, sizes = ScopeNode(), []
    while items := tree.items(place):
        sizes.append(len(items))
        last = items[-1]
        if last.place is None:
            break
        place = last.place
    assert max(sizes) <= MOST_NODES
    assert int(last.members[0]) == count - 1


def test_runs_begin_at_repetitions_of_a_pattern():
    pattern = [0, 1, 2, 1, 3]
    tree = make_blocks([""] * 5_000, pattern * 1_000)
    assert all(item.members[0] % 5 == 0 for item in tree.items(ScopeNode()))


def test_scopes_with_a_single_child_are_expanded():
    names = [f"model.layer{layer}" for layer in range(12) for _ in range(100)]
    addresses = [item.place.address for item in make_blocks(names).items(ScopeNode())]
    assert addresses == [f"model.layer{layer}" for layer in range(12)]


def test_a_scope_with_many_children_is_divided_into_runs():
    names = [f"model.block{block}" for block in range(500) for _ in range(4)]
    tree = make_blocks(names)
    items = tree.items(ScopeNode(("model",)))
    assert len(items) <= MOST_NODES
    inner = tree.items(items[1].place)
    assert inner[0].place.scope[0] == "model"


def test_the_path_to_a_place_has_all_enclosing_blocks():
    graph, _ = read_good("deep_loop")
    wiring = wire(graph)
    tree = GraphBlocks(scopes_of(graph, wiring.rows), graph.operators.types.codes[wiring.rows])
    deep = tree.place_of(2_000)
    path = tree.path(deep)
    assert path[0] == ScopeNode()
    assert path[-1] == deep
    assert any(item.place == deep for item in tree.items(path[-2]))
    assert any(item.members.tolist() == [2_000] for item in tree.items(deep))


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("", ScopeNode()),
        ("layer1.0", ScopeNode(("layer1", "0"))),
        (":72-143", ScopeNode((), 72, 143)),
        ("a.b:0-9", ScopeNode(("a", "b"), 0, 9)),
        ("a:9-0", ScopeNode(("a",))),
        ("../../etc", ScopeNode()),
        ("<script>", ScopeNode()),
        ("a" * 10_000, ScopeNode(("a" * 10_000,))),
    ],
)
def test_an_invalid_place_means_the_whole_graph(address, place):
    assert read_place(address) == place


def test_an_unknown_place_is_empty():
    tree = make_blocks(["a"] * 2_000)
    assert tree.items(ScopeNode(("nowhere",))) == []
    assert tree.items(ScopeNode((), 5_000, 6_000)) == []
