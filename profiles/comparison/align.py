"""Align the operators of two profiles one to one.

The alignment runs in stages, from certain to less certain; each stage sees only the operators that
the previous stages left unpaired:
1. *name*: equal type, name, parameters and shapes, if only one operator on each side has them;
*value*: the same with the names of the outputs instead;
2. *neighbours*: from each pair to the readers of its outputs and to the producers of its inputs;
3. names without regard to shapes, or without the numbers in them;
4. *order*: between two pairs, the longest common subsequence of types, parameters and shapes in
order of execution, then of types and parameters only.

After each stage, its pairs are propagated to their neighbours. A pair of stage 3 or 4 is kept only
if pairs of neighbours link it to a pair of stage 1 or 2. Operators of different types are never
paired here (`regions` does this for groups).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Literal

from profiles.comparison.nodes import Nodes, Texts
from profiles.comparison.subsequence import common, longest_rising
from profiles.formats.columns import MISSING

How = Literal["name", "value", "neighbours", "order", "region"]
Key = Callable[[Nodes, int], Hashable]
_UNKNOWN = ("[]", None)


@dataclass(eq=False)
class Matching:
    """The pairs of nodes of profiles a and b.

    of_a: (n,) the partner in b of each node of a, MISSING without one; of_b is the inverse
    how: the stage that found the pair, by node of a
    links: (x, y) of different types whose outputs have the same user-given name, so that y computes
        the same value in another way, for example after a fusion
    """

    a: Nodes
    b: Nodes
    of_a: list[int]
    of_b: list[int]
    how: dict[int, How]
    links: dict[int, int]

    def counterpart(self, x: int) -> int:
        """Return the partner of x, or otherwise the node that computes the same value."""
        partner = self.of_a[x]
        return self.links.get(x, MISSING) if partner == MISSING else partner

    def pair(self, x: int, y: int, how: How) -> None:
        """Pair x of a with y of b, both unpaired."""
        self.of_a[x], self.of_b[y] = y, x
        self.how[x] = how

    def part(self, x: int) -> None:
        """Undo the pair of x."""
        self.of_b[self.of_a[x]] = MISSING
        self.of_a[x] = MISSING
        del self.how[x]

    def may_pair(self, x: int, y: int) -> bool:
        """Whether both are unpaired and compute the same kind of operation."""
        free = self.of_a[x] == MISSING and self.of_b[y] == MISSING
        return free and self.a.kinds[x] == self.b.kinds[y]


def align(a: Nodes, b: Nodes) -> Matching:
    """Pair the operators of two profiles; the result is deterministic."""
    made = Matching(a, b, [MISSING] * len(a), [MISSING] * len(b), {}, {})
    _pair_unique(made, "name", _by_full_name)
    _pair_unique(made, "value", _by_values)
    made.links.update(_same_values(made))
    sure = {**dict.fromkeys(made.how), **dict.fromkeys(made.links)}
    _spread(made, list(sure))
    _spread(made, _pair_unique(made, "value", _by_value_names))
    _spread(made, _pair_unique(made, "name", _by_plain_name))
    _spread(made, _pair_in_order(made, _kind_and_shapes))
    if made.how:
        _spread(made, _pair_in_order(made, _kind_and_params))
    _part_unconfirmed(made, list(sure))
    return made


def _by_full_name(nodes: Nodes, x: int) -> Hashable:
    """Return the key of the name stage.

    The name of a constant says little: `const{64,64,3,3}` may be any weight.
    """
    if nodes.is_constant(x) and not nodes.is_named(x):
        return None
    return (*_kind_and_shapes(nodes, x), nodes.short_names[x], nodes.value_names[x])


def _by_values(nodes: Nodes, x: int) -> Hashable:
    if not nodes.is_named(x):
        return None
    return (nodes.kinds[x], nodes.in_shapes[x], nodes.out_shapes[x], nodes.value_names[x])


def _by_value_names(nodes: Nodes, x: int) -> Hashable:
    return (nodes.kinds[x], nodes.value_names[x]) if nodes.is_named(x) else None


def _by_plain_name(nodes: Nodes, x: int) -> Hashable:
    return (*_kind_and_shapes(nodes, x), nodes.plain_names[x])


def _kind_and_shapes(nodes: Nodes, x: int) -> tuple[Hashable, ...]:
    return (nodes.kinds[x], nodes.params[x], nodes.in_shapes[x], nodes.out_shapes[x])


def _kind_and_params(nodes: Nodes, x: int) -> Hashable:
    return (nodes.kinds[x], nodes.params[x])


def _pair_unique(made: Matching, how: How, key: Key) -> list[int]:
    """Pair the unpaired nodes whose key is unique on both sides; None is not a key."""
    lone_a = _lone(made.a, made.of_a, key)
    lone_b = _lone(made.b, made.of_b, key)
    pairs = []
    for value, x in lone_a.items():
        y = lone_b.get(value, MISSING)
        if x != MISSING and y != MISSING:
            made.pair(x, y, how)
            pairs.append(x)
    return pairs


def _same_values(made: Matching) -> dict[int, int]:
    """Return {x: y} for unpaired nodes of different kinds with the same user-given output name."""
    names_a = _lone(made.a, made.of_a, _given_values)
    names_b = _lone(made.b, made.of_b, _given_values)
    links = {}
    for name, x in names_a.items():
        y = names_b.get(name, MISSING)
        if MISSING not in (x, y) and _may_be_equal(made.a.value_shapes[x], made.b.value_shapes[y]):
            links[x] = y
    return links


def _may_be_equal(ours: Texts, theirs: Texts) -> bool:
    """Whether shapes are equal as far as known; that of an input is recorded as empty."""
    known = zip(ours, theirs, strict=True)
    return all(x == y or x in _UNKNOWN or y in _UNKNOWN for x, y in known)


def _given_values(nodes: Nodes, x: int) -> Hashable:
    may = nodes.is_named(x) and not nodes.is_constant(x)
    return nodes.value_names[x] if may else None


def _lone(nodes: Nodes, partners: list[int], key: Key) -> dict[Hashable, int]:
    """Return {key: node}, with MISSING for a key of several nodes."""
    lone: dict[Hashable, int] = {}
    for x, partner in enumerate(partners):
        if partner == MISSING and (value := key(nodes, x)) is not None:
            lone[value] = MISSING if value in lone else x
    return lone


def _spread(made: Matching, starts: list[int]) -> list[int]:
    """Propagate pairs to their neighbours until no new pair is found; return the new pairs."""
    waiting = list(starts)
    pairs = []
    for x in waiting:  # grows while it is walked
        new = [*_pair_readers(made, x), *_pair_makers(made, x)]
        pairs += new
        waiting += new
    return pairs


def _pair_readers(made: Matching, x: int) -> list[int]:
    """Pair the readers of the outputs of x with the readers of its partner's outputs."""
    a, b, y = made.a, made.b, made.counterpart(x)
    if a.is_constant(x) and not (len(a.consumers[x]) == len(b.consumers[y]) == 1):
        return []  # operators that share a constant need not have anything else in common
    ours = [use for use in a.consumers[x] if made.of_a[use[0]] == MISSING]
    theirs = [use for use in b.consumers[y] if made.of_b[use[0]] == MISSING]
    if not ours or not theirs:
        return []
    pairs: list[int] = []
    for exact in (3, 2, 1):
        groups_a = _group((_reader_key(a, use, exact), use[0]) for use in ours)
        groups_b = _group((_reader_key(b, use, exact), use[0]) for use in theirs)
        for key, nodes in groups_a.items():
            pairs += _pair_groups(made, nodes, groups_b.get(key, []), in_turn=exact == 3)
    return pairs


def _reader_key(nodes: Nodes, reader: tuple[int, int, int], exact: int) -> Hashable:
    """Return the key of a reader: kind and input, from level 2 parameters, at level 3 shapes."""
    x, slot, _ = reader
    shapes = nodes.out_shapes[x] if exact == 3 else None
    return (slot, nodes.kinds[x], nodes.params[x] if exact >= 2 else None, shapes)


def _pair_groups(made: Matching, ours: list[int], theirs: list[int], *, in_turn: bool) -> list[int]:
    """Pair two lists of equal nodes: single nodes, or lists of equal length, in order."""
    ours = sorted({x for x in ours if made.of_a[x] == MISSING}, key=made.a.place.__getitem__)
    theirs = sorted({y for y in theirs if made.of_b[y] == MISSING}, key=made.b.place.__getitem__)
    if len(ours) != len(theirs) or (len(ours) > 1 and not in_turn):
        return []
    for x, y in zip(ours, theirs, strict=True):
        made.pair(x, y, "neighbours")
    return ours


def _pair_makers(made: Matching, x: int) -> list[int]:
    """Pair the producers of the inputs of x with those of its partner, input by input."""
    if made.of_a[x] == MISSING:
        return []
    ours, theirs = made.a.inputs[x], made.b.inputs[made.of_a[x]]
    if len(ours) != len(theirs):
        return []
    pairs = []
    for (p, p_output), (q, q_output) in zip(ours, theirs, strict=True):
        if MISSING not in (p, q) and p_output == q_output and made.may_pair(p, q):
            made.pair(p, q, "neighbours")
            pairs.append(p)
    return pairs


def _group(keyed: Iterable[tuple[Hashable, int]]) -> dict[Hashable, list[int]]:
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for key, node in keyed:
        groups[key].append(node)
    return groups


def _pair_in_order(made: Matching, key: Key) -> list[int]:
    """Pair by order of execution, between pairs that have the same order on both sides."""
    a, b = made.a, made.b
    anchors = longest_rising(
        [(a.place[x], b.place[y]) for x, y in enumerate(made.of_a) if y != MISSING]
    )
    pairs = []
    last_a = last_b = 0
    for end_a, end_b in [*anchors, (len(a), len(b))]:
        ours = [x for x in a.order[last_a:end_a] if made.of_a[x] == MISSING]
        theirs = [y for y in b.order[last_b:end_b] if made.of_b[y] == MISSING]
        last_a, last_b = end_a, end_b
        if not ours or not theirs:
            continue
        for i, j in common([key(a, x) for x in ours], [key(b, y) for y in theirs]):
            made.pair(ours[i], theirs[j], "order")
            pairs.append(ours[i])
    return pairs


def _part_unconfirmed(made: Matching, sure: list[int]) -> None:
    """Remove the pairs that no chain of neighbouring pairs links to a certain one.

    If neither operator has neighbours (a damaged graph), equal shapes suffice.
    """
    confirmed = set(sure)
    waiting = list(sure)
    for x in waiting:  # grows while it is walked
        theirs = _neighbours(made.b, made.counterpart(x))
        for other in _neighbours(made.a, x) - confirmed:
            if made.of_a[other] in theirs:
                confirmed.add(other)
                waiting.append(other)
    for x in set(made.how) - confirmed:
        y = made.of_a[x]
        are_alone = not _neighbours(made.a, x) and not _neighbours(made.b, y)
        if not are_alone or _kind_and_shapes(made.a, x) != _kind_and_shapes(made.b, y):
            made.part(x)


def _neighbours(nodes: Nodes, x: int) -> set[int]:
    """Return the readers of its outputs and the producers of its inputs."""
    readers = {reader for reader, _, _ in nodes.consumers[x]}
    return readers | {p for p, _ in nodes.inputs[x] if p != MISSING}
