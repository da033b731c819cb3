"""Build a Netron document of the executed graph: structure, shapes and times, no weights.

Format: the JSON that `message.js` of Netron 9 reads, whose `signature` begins with `netron:`. The
    colour class of an operator is its `category`. `view` is our extension, which Netron ignores: it
    maps the nodes to the rows of the profile's table.
"""

from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from profiles.analysis.data import ProfileData
from profiles.analysis.netron.colours import Colouring, colouring
from profiles.analysis.netron.module import Module
from profiles.analysis.netron.text import OperatorPanel, plain
from profiles.analysis.netron.wiring import GraphWiring, wire
from profiles.analysis.scopes import GraphBlocks, ScopeNode, ViewNode, read_place, scopes_of
from profiles.formats.columns import MISSING, Side
from profiles.formats.load_and_run.graph import ExecutedGraph

#: Netron rejects a document without a format
_HEAD = {"signature": "netron:megengine-web-profile", "format": "MegEngine executed graph"}
#: sections of the file that the drawing does not use
_NOT_DRAWN = ("mem_chunk", "device", "host")
#: the class of operators without a value
_PLAIN = "none"
_CUT: WeakKeyDictionary[ExecutedGraph, tuple[GraphWiring, GraphBlocks]] = WeakKeyDictionary()


def place_of_row(data: ProfileData, row: int) -> str | None:
    """Return the address of the view that shows a row of the table; None if no view does.

    A constant is shown at its first reader.
    """
    if not 0 <= row < len(data.columns):
        return None
    wiring, blocks = _cut(data.graph)
    operator = int(data.graph.operator_of_row(len(data.columns))[row])
    if operator == MISSING:
        return None
    position = int(wiring.position[operator])
    if position == MISSING:
        made = data.graph.operators.outputs[operator].tolist()
        readers = [reader for variable in made for reader in wiring.readers.get(variable, [])]
        if not readers:
            return None
        position = min(readers)
    return blocks.place_of(position).address


def netron_document(
    data: ProfileData,
    *,
    side: Side = "device",
    place: str = "",
    colours: Colouring | None = None,
) -> bytes:
    """Return one view of the executed graph as JSON.

    place: address of a scope or run, as in `scopes`; an address without operators shows the whole
        graph
    colours: quantity that the colours represent, time by default

    `view` has `place`; `path`, [address, name] from the whole graph to this view; `nodes`, [name,
    row of the table or null, address that it opens or null]; `rows`, [row, name] of constants,
    which are drawn inside their first reader; `operators`, `shown` and `left_out`, numbers of
    operators; `problems`, damaged sections of the file; `scale`, {metric, prefix, texts}.
    """
    wiring, blocks = _cut(data.graph)
    block = read_place(place)
    items = blocks.items(block)
    if not items:
        block = ScopeNode()
        items = blocks.items(block)
    panel = OperatorPanel(data, side, wiring.rows)
    categories, scale = _colour_items(items, panel, colours or colouring(data, "time", side))
    module = Module(data, wiring, items=items, categories=categories, panel=panel)
    view = {
        "place": block.address,
        "path": [[node.address, _name(node)] for node in blocks.path(block)],
        "nodes": _targets(module, items, panel),
        "rows": module.constants(),
        "operators": len(wiring.rows),
        "shown": sum(len(item.members) for item in items),
        "left_out": wiring.left_out,
        "problems": [problem for problem in data.graph.problems if problem not in _NOT_DRAWN],
        "scale": scale,
    }
    return msgspec.json.encode(_HEAD | {"modules": [module.document()], "view": view})


def _cut(graph: ExecutedGraph) -> tuple[GraphWiring, GraphBlocks]:
    """Return the drawn operators and their division into views, cached with the graph."""
    cached = _CUT.get(graph)
    if cached is None:
        wiring = wire(graph)
        kinds = graph.operators.types.codes[wiring.rows]
        cached = _CUT[graph] = wiring, GraphBlocks(scopes_of(graph, wiring.rows), kinds)
    return cached


def _colour_items(
    items: list[ViewNode], panel: OperatorPanel, colours: Colouring
) -> tuple[list[str], dict[str, Any]]:
    """Return the category of each item and the colour scale of the view."""
    groups = [panel.rows[item.members] for item in items]
    classes, texts = colours.classes(colours.of([rows[rows != MISSING] for rows in groups]))
    categories = [
        _PLAIN if class_ == MISSING else f"{colours.prefix}{class_}" for class_ in classes.tolist()
    ]
    return categories, {"metric": colours.metric, "prefix": colours.prefix, "texts": texts}


def _targets(
    module: Module, items: list[ViewNode], panel: OperatorPanel
) -> list[tuple[str, int | None, str | None]]:
    targets: list[tuple[str, int | None, str | None]] = []
    for node, item in zip(module.nodes, items, strict=True):
        row = int(panel.rows[item.members[0]])
        if item.place is not None:
            targets.append((node["name"], None, item.place.address))
        else:
            targets.append((node["name"], None if row == MISSING else row, None))
    return targets


def _name(place: ScopeNode) -> str:
    if place.last is None:
        return plain(place.scope[-1]) if place.scope else ""
    return f"{place.first + 1}–{place.last + 1}"
