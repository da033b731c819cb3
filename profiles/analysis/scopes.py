"""Divide a large graph into blocks: by dotted module names, or by runs where names are no help.

A *scope node* is the content of one view: a scope (`layer1.0`), the whole graph, or a run of the
items of a scope. Its address is text: ``, `layer1.0`, `:72-143`, `layer1.0:72-143`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from profiles.formats.load_and_run.graph import ExecutedGraph, Index

#: a graph with at most this many operators is not divided
FLAT_LIMIT = 1000
#: nodes of a view with blocks: never more, and not fewer while there are blocks to open in place
MOST_NODES = 200
FEWEST_NODES = 10
#: longest repeating pattern of operators that is detected
_LONGEST_PERIOD = 256
#: `layer1.0.bn1.BatchNorm:o5`, `fc.MatrixMul[1]`: a scope, then the name of the operation
_DOTTED = re.compile(r"(\w+(?:\.\w+)*)\.[A-Za-z_]\w*(?:\[\d+\])?(?::\w+)?")
_ADDRESS = re.compile(r"([\w.]*)(?::(\d{1,9})-(\d{1,9}))?")

Scope = tuple[str, ...]


@dataclass(frozen=True)
class ScopeNode:
    """A scope, or with `last` the items `first` to `last` (inclusive) of its content."""

    scope: Scope = ()
    first: int = 0
    last: int | None = None

    @property
    def address(self) -> str:
        run = "" if self.last is None else f":{self.first}-{self.last}"
        return ".".join(self.scope) + run


@dataclass(frozen=True, eq=False)
class ViewNode:
    """One node of a view: an operator, or a block that can be opened.

    members: (k,) int32, positions in the order of execution, ascending
    place: the view that the block opens; None for an operator
    """

    members: Index
    place: ScopeNode | None = None


def read_place(address: str) -> ScopeNode:
    """Parse an address; an invalid one gives the whole graph."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return ScopeNode()
    scope = tuple(part for part in match[1].split(".") if part)
    if match[2] is None or int(match[2]) > int(match[3]):
        return ScopeNode(scope)
    return ScopeNode(scope, int(match[2]), int(match[3]))


def scopes_of(graph: ExecutedGraph, rows: Index) -> list[Scope]:
    """Return the scope of each operator in `rows` (rows of `Operators` in order of execution).

    The scope comes from the names of its outputs (`layer1.0.conv1.Convolution`), then from its own
    name, then from the names of inputs whose producer is not in `rows`, such as weights
    (`layer1.0.conv1.weight`). Operators without such a name belong to the scope that their nearest
    named neighbours have in common.
    """
    names, operators = graph.variables.names, graph.operators
    # index MISSING (-1) selects the last element: variables without a producer are not drawn
    drawn = np.zeros(len(operators) + 1, dtype=np.bool_)
    drawn[rows] = True
    is_weight = (~drawn[graph.variables.producer]).tolist()
    inputs, outputs = operators.inputs.lists(), operators.outputs.lists()
    scopes: list[Scope | None] = []
    for row in rows.tolist():
        scope = _first_scope(names[output] for output in outputs[row])
        if scope is None:
            weights = [names[variable] for variable in inputs[row] if is_weight[variable]]
            scope = _first_scope([operators.names[row], *weights])
        scopes.append(scope)
    return _fill_gaps(scopes)


def _first_scope(names: Iterable[str]) -> Scope | None:
    for name in names:
        if (match := _DOTTED.fullmatch(name[:400])) is not None:
            return tuple(match[1].split("."))
    return None


def _fill_gaps(scopes: list[Scope | None]) -> list[Scope]:
    """Give operators without a scope the common scope of their neighbours."""
    after: list[Scope | None] = [None] * len(scopes)
    following: Scope | None = None
    for place in range(len(scopes) - 1, -1, -1):
        following = scopes[place] if scopes[place] is not None else following
        after[place] = following
    filled: list[Scope] = []
    before: Scope | None = None
    for place, scope in enumerate(scopes):
        before = scope if scope is not None else before
        filled.append(scope if scope is not None else _common_scope(before, after[place]))
    return filled


def _common_scope(one: Scope | None, other: Scope | None) -> Scope:
    if one is None or other is None:
        return ()
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return tuple(name for name, _ in same)


class GraphBlocks:
    """The division of a graph into views.

    scopes: of the m operators in order of execution
    kinds: (m,) a number per operator, equal for operators of the same kind
    """

    def __init__(self, scopes: Sequence[Scope], kinds: NDArray[np.int32]) -> None:
        self._scopes = scopes
        self._kinds = kinds

    def items(self, place: ScopeNode) -> list[ViewNode]:
        """Return the nodes of a view in order of execution; none for an unknown place."""
        inside = self._members(place.scope)
        if place == ScopeNode() and len(inside) <= FLAT_LIMIT:
            return self._single(inside)
        items = self._content(place, inside)
        if len(items) > MOST_NODES:
            return self._runs(place, items)
        return self._open_largest(items)

    def path(self, place: ScopeNode) -> list[ScopeNode]:
        """Return the places from the whole graph down to this one, both included."""
        scopes = [ScopeNode(place.scope[:depth]) for depth in range(len(place.scope) + 1)]
        if place.last is None:
            return scopes
        return [*scopes, *self._runs_to(place)]

    def place_of(self, position: int) -> ScopeNode:
        """Return the place whose view has this operator as a node of its own."""
        place = ScopeNode()
        while True:
            holder = next(item for item in self.items(place) if _holds(item.members, position))
            if holder.place is None:
                return place
            place = holder.place

    def _members(self, scope: Scope) -> Index:
        depth = len(scope)
        inside = [p for p, other in enumerate(self._scopes) if other[:depth] == scope]
        return np.array(inside, dtype=np.int32)

    def _content(self, place: ScopeNode, inside: Index) -> list[ViewNode]:
        """Return the content of a place: its operators, and one block for each scope below."""
        if len(inside) <= MOST_NODES and place.last is None:
            return self._single(inside)
        below: dict[Scope, list[int]] = {}
        depth = len(place.scope)
        items: list[ViewNode] = []
        for position in inside.tolist():
            child = self._scopes[position][: depth + 1]
            if len(child) == depth:
                items += self._single([position])
            else:
                below.setdefault(child, []).append(position)
        for child, positions in below.items():
            if len(positions) == 1:
                items += self._single(positions)
            else:
                items.append(ViewNode(np.array(positions, dtype=np.int32), ScopeNode(child)))
        items.sort(key=lambda item: int(item.members[0]))
        return items if place.last is None else items[place.first : place.last + 1]

    def _single(self, positions: Sequence[int] | Index) -> list[ViewNode]:
        return [ViewNode(np.array([position], dtype=np.int32)) for position in positions]

    def _open_largest(self, items: list[ViewNode]) -> list[ViewNode]:
        """Open the largest blocks in place as long as there are few nodes."""
        while len(items) < FEWEST_NODES:
            blocks = [item for item in items if item.place is not None]
            for block in sorted(blocks, key=lambda item: -len(item.members)):
                assert block.place is not None
                inner = self._content(block.place, block.members)
                if len(items) - 1 + len(inner) <= MOST_NODES:
                    rest = [item for item in items if item is not block]
                    items = sorted([*rest, *inner], key=lambda item: int(item.members[0]))
                    break
            else:
                return items
        return items

    def _runs(self, place: ScopeNode, items: list[ViewNode]) -> list[ViewNode]:
        """Cut many items into runs of about equal length that start at the start of a pattern."""
        length = self._run_length(items)
        runs = []
        for begin in range(0, len(items), length):
            part = items[begin : begin + length]
            first = place.first + begin
            run = replace(place, first=first, last=first + len(part) - 1)
            members = np.sort(np.concatenate([item.members for item in part]))
            runs.append(ViewNode(members, run) if len(part) > 1 else part[0])
        return runs

    def _run_length(self, items: list[ViewNode]) -> int:
        count = len(items)
        pieces = min(max(int(count**0.5), FEWEST_NODES), MOST_NODES)
        length = -(-count // pieces)
        kinds = self._kinds[[int(item.members[0]) for item in items]]
        for period in range(1, min(_LONGEST_PERIOD, count // 2)):
            if np.mean(kinds[period:] == kinds[:-period]) >= 0.95:
                return -(-length // period) * period
        return length

    def _runs_to(self, place: ScopeNode) -> list[ScopeNode]:
        """Return the runs from a whole scope down to this place; the place alone if none leads to
        it.
        """
        way: list[ScopeNode] = []
        block = ScopeNode(place.scope)
        while block != place:
            inner = [
                item.place
                for item in self.items(block)
                if item.place is not None
                and item.place.scope == place.scope
                and item.place.last is not None
                and item.place.first <= place.first
                and (place.last or 0) <= item.place.last
            ]
            if not inner or inner[0] == block:
                return [*way, place]
            block = inner[0]
            way.append(block)
        return way


def _holds(members: Index, position: int) -> bool:
    at = int(np.searchsorted(members, position))
    return at < len(members) and int(members[at]) == position
