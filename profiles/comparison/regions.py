"""Find groups of operators that became other groups: fused, split, or replaced by another type.

The operators that `align` leaves unpaired are divided into regions: operators connected by data, up
to values that exist on both sides. A region with operators on both sides is one group if both sides
produce a common value, and read a common value or none at all, so that the new operators enclose
the same part of the graph as the old ones.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from profiles.comparison.align import Matching
from profiles.comparison.nodes import Nodes
from profiles.formats.columns import MISSING

#: most operators on the smaller side of a group; more means a different model
MOST_OPERATORS = 8
#: the side of a node in the joint graph
_A, _B = 0, 1
Node = tuple[int, int]
Member = TypeVar("Member", int, tuple[int, int])


@dataclass(frozen=True)
class OperatorGroup:
    """Operators of a that became operators of b; one side is empty for removed or new operators.

    a, b: nodes in order of execution
    how: the stage that found it, empty without a counterpart
    """

    a: tuple[int, ...]
    b: tuple[int, ...]
    how: str = ""


def groups_of(made: Matching) -> list[OperatorGroup]:
    """Return a partition of the operators of both profiles: pairs, regions, then the rest."""
    pairs = [
        OperatorGroup((x,), (y,), made.how[x]) for x, y in enumerate(made.of_a) if y != MISSING
    ]
    regions = _Regions(made).groups()
    taken_a = {x for group in regions for x in group.a}
    taken_b = {y for group in regions for y in group.b}
    gone = [x for x, y in enumerate(made.of_a) if y == MISSING and x not in taken_a]
    new = [y for y, x in enumerate(made.of_b) if x == MISSING and y not in taken_b]
    rest = [*(OperatorGroup((x,), ()) for x in gone), *(OperatorGroup((), (y,)) for y in new)]
    return pairs + regions + rest


class DisjointSets(Generic[Member]):
    """Union-find; each set is represented by its smallest member."""

    def __init__(self) -> None:
        self._parents: dict[Member, Member] = {}

    def root(self, member: Member) -> Member:
        """Return the smallest member of the set that contains this one."""
        root = member
        while (above := self._parents.get(root, root)) != root:
            root = above
        while (above := self._parents.get(member, member)) != root:
            self._parents[member] = root
            member = above
        return root

    def join(self, one: Member, other: Member) -> None:
        low, high = sorted((self.root(one), self.root(other)))
        if low != high:
            self._parents[high] = low


class _Regions:
    """The regions of unpaired operators, by union-find over the nodes of both graphs."""

    def __init__(self, made: Matching) -> None:
        self.made = made
        self.sides = (made.a, made.b)
        self.partners = (made.of_a, made.of_b)
        self.sets = DisjointSets[Node]()
        #: nodes that produce a value that the other side has too
        self.cut: set[Node] = set()
        self._link_values()
        for side in (_A, _B):
            self._join_by_data(side)

    def groups(self) -> list[OperatorGroup]:
        """Return the regions that are groups, in order of the first operator of a."""
        members: defaultdict[Node, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side in (_A, _B):
            for x in self.sides[side].order:
                if self._makes(side, x):
                    members[self.sets.root((side, x))][side].append(x)
        groups = [
            self._with_constants(*member) for member in members.values() if self._is_group(*member)
        ]
        return sorted(groups, key=lambda group: self.made.a.place[group.a[0]])

    def _is_left(self, side: int, x: int) -> bool:
        return self.partners[side][x] == MISSING

    def _is_apart(self, side: int, x: int) -> bool:
        """Whether a node does not connect a region: several operators may share a constant."""
        return self.sides[side].is_constant(x)

    def _link_values(self) -> None:
        for x, y in self.made.links.items():
            if self._is_left(_A, x) and self._is_left(_B, y):
                self._link(x, y)
        for x, y in enumerate(self.made.of_a):
            if y != MISSING:
                self._link_makers(x, y)

    def _link_makers(self, x: int, y: int) -> None:
        """Link the producers of the same input of a pair, because they compute the same value.

        If an input is a constant on one side only, for example after a sum was taken apart, inputs
        do not correspond one by one: all producers of one side together correspond to all of the
        other.
        """
        ours, theirs = self.made.a.inputs[x], self.made.b.inputs[y]
        if len(ours) != len(theirs):
            return
        makers = [
            (p, q) for (p, _), (q, _) in zip(ours, theirs, strict=True) if MISSING not in (p, q)
        ]
        if any(self._is_apart(_A, p) != self._is_apart(_B, q) for p, q in makers):
            left_a = [p for p, _ in makers if self._makes(_A, p)]
            left_b = [q for _, q in makers if self._makes(_B, q)]
            makers = [(p, q) for p in left_a for q in left_b]
        for p, q in makers:
            if self._makes(_A, p) and self._makes(_B, q):
                self._link(p, q)

    def _makes(self, side: int, x: int) -> bool:
        """Whether an operator is unpaired and not a constant."""
        return self._is_left(side, x) and not self._is_apart(side, x)

    def _link(self, x: int, y: int) -> None:
        self.cut |= {(_A, x), (_B, y)}
        self.sets.join((_A, x), (_B, y))

    def _join_by_data(self, side: int) -> None:
        nodes = self.sides[side]
        for x in nodes.order:
            if not self._makes(side, x):
                continue
            for p, _ in nodes.inputs[x]:
                if p != MISSING and self._makes(side, p) and (side, p) not in self.cut:
                    self.sets.join((side, p), (side, x))

    def _is_group(self, ours: list[int], theirs: list[int]) -> bool:
        if not ours or not theirs or min(len(ours), len(theirs)) > MOST_OPERATORS:
            return False
        if not any((_A, x) in self.cut for x in ours):
            return False
        read_a, read_b = self._reads(_A, ours), self._reads(_B, theirs)
        return bool(read_a & read_b) or not (read_a or read_b)

    def _reads(self, side: int, members: Iterable[int]) -> set[Node | None]:
        """Return the values that a region reads from outside, as far as both sides have them."""
        inside = set(members)
        sources: set[Node | None] = set()
        for x in members:
            for p, number in self.sides[side].inputs[x]:
                if p != MISSING and p not in inside and not self._is_apart(side, p):
                    sources.add(self._value(side, p, number))
        return sources - {None}

    def _value(self, side: int, p: int, number: int) -> Node | None:
        if (side, p) in self.cut:  # one value per operator, whichever of its outputs it is
            root_side, root = self.sets.root((side, p))
            return (-1 - root, root_side)  # distinguishable from the outputs of pairs
        x = p if side == _A else self.partners[_B][p]
        return None if x == MISSING else (x, number)

    def _with_constants(self, ours: list[int], theirs: list[int]) -> OperatorGroup:
        a = [*ours, *self._constants(_A, ours)]
        b = [*theirs, *self._constants(_B, theirs)]
        return OperatorGroup(_in_order(self.made.a, a), _in_order(self.made.b, b), "region")

    def _constants(self, side: int, members: list[int]) -> set[int]:
        """Return unpaired constants that nothing outside of the region reads."""
        nodes, inside = self.sides[side], set(members)
        constants = {p for x in members for p, _ in nodes.inputs[x] if p != MISSING}
        return {
            p
            for p in constants
            if self._is_apart(side, p)
            and self._is_left(side, p)
            and all(reader in inside for reader, _, _ in nodes.consumers[p])
        }


def _in_order(nodes: Nodes, members: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(members, key=nodes.place.__getitem__))
