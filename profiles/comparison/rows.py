"""Rows of a comparison: corresponding operators in order of execution, and what became of them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from profiles.comparison.align import align
from profiles.comparison.nodes import Nodes, Texts
from profiles.comparison.regions import DisjointSets, OperatorGroup, groups_of
from profiles.formats.columns import MISSING

Status = Literal["same", "changed", "fused", "split", "new", "gone"]
STATUSES: tuple[Status, ...] = get_args(Status)
#: reasons for a change: the operator's type, its parameters, the memory format among them, shapes,
#: data types; `time` if everything else is the same and the difference is significant
Reason = Literal["type", "params", "format", "shapes", "dtypes", "time"]
REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True)
class ComparisonCell:
    """The operators of one profile in a row, compared with the baseline.

    members: nodes in order of execution, empty if it has none
    reasons: what differs
    how: the stages of the alignment that found it
    """

    members: tuple[int, ...]
    status: Status
    reasons: tuple[Reason, ...] = ()
    how: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonRow:
    """Operators that correspond to each other.

    baseline: nodes of the first profile; empty for new operators
    cells: one per other profile; None if neither it nor the baseline has operators here
    constant: whether it contains only weights and constants
    """

    baseline: tuple[int, ...]
    cells: tuple[ComparisonCell | None, ...]
    constant: bool

    def members(self, profile: int) -> tuple[int, ...]:
        """Return the nodes of a profile; 0 is the baseline."""
        if profile == 0:
            return self.baseline
        cell = self.cells[profile - 1]
        return cell.members if cell else ()


def comparison_rows(nodes: Sequence[Nodes]) -> tuple[ComparisonRow, ...]:
    """Align each profile with the first one and return the rows of all.

    Operators of the baseline that form a group in any profile share one row for all profiles.
    """
    groups_of_all = [_timed_groups(nodes[0], other) for other in nodes[1:]]
    joined = _join(
        [group.a for groups in groups_of_all for group in groups if group.a], len(nodes[0])
    )
    rows = [*_baseline_rows(nodes, groups_of_all, joined), *_new_rows(nodes, groups_of_all)]
    return tuple(row for _, row in sorted(rows, key=lambda entry: entry[0]))


def _timed_groups(a: Nodes, b: Nodes) -> list[OperatorGroup]:
    """Return the groups, without operators that never ran in their profile."""
    groups = []
    for group in groups_of(align(a, b)):
        ours = tuple(x for x in group.a if a.rows[x] != MISSING)
        theirs = tuple(y for y in group.b if b.rows[y] != MISSING)
        if ours or theirs:
            groups.append(OperatorGroup(ours, theirs, group.how))
    return groups


def _join(sets: Sequence[tuple[int, ...]], size: int) -> list[int]:
    """Return for each node the smallest node that any set joins it with."""
    joined = DisjointSets[int]()
    for members in sets:
        for x in members[1:]:
            joined.join(members[0], x)
    return [joined.root(x) for x in range(size)]


def _baseline_rows(
    nodes: Sequence[Nodes], groups_of_all: Sequence[list[OperatorGroup]], joined: list[int]
) -> list[tuple[tuple[int, ...], ComparisonRow]]:
    members: defaultdict[int, list[int]] = defaultdict(list)
    for x in nodes[0].order:
        if nodes[0].rows[x] != MISSING:
            members[joined[x]].append(x)
    parts: list[defaultdict[int, list[OperatorGroup]]] = [defaultdict(list) for _ in groups_of_all]
    for number, groups in enumerate(groups_of_all):
        for group in groups:
            if group.a:
                parts[number][joined[group.a[0]]].append(group)
    rows: list[tuple[tuple[int, ...], ComparisonRow]] = []
    for root, ours in members.items():
        cells = tuple(
            _cell(parts[number].get(root, []), nodes[0], nodes[number + 1])
            for number in range(len(groups_of_all))
        )
        constant = all(nodes[0].is_constant(x) for x in ours)
        rows.append(((nodes[0].place[ours[0]], -1), ComparisonRow(tuple(ours), cells, constant)))
    return rows


def _cell(groups: list[OperatorGroup], a: Nodes, b: Nodes) -> ComparisonCell:
    statuses = [status_of(group, a, b) for group in groups]
    words = {status for status, _ in statuses}
    members = sorted((y for group in groups for y in group.b), key=b.place.__getitem__)
    return ComparisonCell(
        members=tuple(members),
        status=words.pop() if len(words) == 1 else "changed",
        reasons=tuple(dict.fromkeys(reason for _, reasons in statuses for reason in reasons)),
        how=tuple(dict.fromkeys(group.how for group in groups if group.how)),
    )


def _new_rows(
    nodes: Sequence[Nodes], groups_of_all: Sequence[list[OperatorGroup]]
) -> list[tuple[tuple[int, ...], ComparisonRow]]:
    """Return rows of operators that the baseline lacks; several profiles may share one."""
    rows: list[tuple[tuple[int, ...], dict[int, int]]] = []
    #: row of each new node, by profile
    opened: list[dict[int, int]] = []
    for number, groups in enumerate(groups_of_all):
        other = nodes[number + 1]
        before = _places_before(groups, nodes[0], other)
        new = [group.b[0] for group in groups if not group.a]
        known_rows = _rows_of_earlier(nodes[1:], opened, new)
        for y in new:
            if y not in known_rows:
                known_rows[y] = len(rows)
                rows.append(((before[y], number, other.place[y]), {}))
            rows[known_rows[y]][1][number] = y
        opened.append(known_rows)
    return [(place, _new_row(nodes, owners)) for place, owners in rows]


def _rows_of_earlier(
    others: Sequence[Nodes], opened: Sequence[dict[int, int]], new: list[int]
) -> dict[int, int]:
    """Return {node: row} for new nodes that correspond to new nodes of earlier profiles.

    Earlier profiles are aligned one after another, and only as many as necessary, because aligning
    large graphs is slow.
    """
    row_of_node: dict[int, int] = {}
    taken: set[int] = set()
    left = set(new)
    for earlier, rows in enumerate(opened):
        if not left or taken.issuperset(rows.values()):
            continue
        made = align(others[earlier], others[len(opened)])
        for y in sorted(left):
            row = rows.get(made.of_b[y])
            if row is not None and row not in taken:
                row_of_node[y] = row
                taken.add(row)
        left.difference_update(row_of_node)
    return row_of_node


def _new_row(nodes: Sequence[Nodes], owners: dict[int, int]) -> ComparisonRow:
    cells = tuple(
        ComparisonCell((owners[number],), "new") if number in owners else None
        for number in range(len(nodes) - 1)
    )
    number, node = next(iter(owners.items()))
    return ComparisonRow((), cells, nodes[number + 1].is_constant(node))


def _places_before(groups: list[OperatorGroup], a: Nodes, b: Nodes) -> list[int]:
    """Return for each node of b the index of the last operator of a that has run by then."""
    partner = {y: a.place[group.a[0]] for group in groups if group.a for y in group.b}
    places = [-1] * len(b)
    last = -1
    for y in b.order:
        last = partner.get(y, last)
        places[y] = last
    return places


def status_of(group: OperatorGroup, a: Nodes, b: Nodes) -> tuple[Status, tuple[Reason, ...]]:
    """Return the status of a group and what differs; times are ignored."""
    if not group.b:
        return "gone", ()
    if not group.a:
        return "new", ()
    if group.how != "region":
        reasons = _reasons(a, b, group.a[0], group.b[0])
        return ("changed" if reasons else "same"), reasons
    before, after = _weight(a, group.a), _weight(b, group.b)
    if before == after:
        return "changed", ("type",)
    return ("fused" if before > after else "split"), ()


def _weight(nodes: Nodes, members: tuple[int, ...]) -> tuple[int, int]:
    """Count the operators that compute, then those that normalize a batch.

    A BatchNorm is folded into the weights of a convolution, while an addition remains in the graph.
    """
    norms = sum(nodes.kinds[x].startswith("BatchNorm") for x in members)
    return len(nodes.computing(members)), norms


def _reasons(a: Nodes, b: Nodes, x: int, y: int) -> tuple[Reason, ...]:
    reasons: list[Reason] = []
    if a.params[x] != b.params[y] and (differing := _differing_params(a.params[x], b.params[y])):
        reasons += ["params"] if differing != {"format"} else ["format"]
    if (a.in_shapes[x], a.out_shapes[x]) != (b.in_shapes[y], b.out_shapes[y]):
        reasons.append("shapes")
    if _differ(a.out_dtypes[x], b.out_dtypes[y]):
        reasons.append("dtypes")
    return tuple(reasons)


def _differing_params(ours: str | None, theirs: str | None) -> set[str]:
    """Return the names of the parameters that differ; none if one side has no parameters."""
    if ours is None or theirs is None:
        return set()
    one, other = msgspec.json.decode(ours), msgspec.json.decode(theirs)
    if not isinstance(one, dict) or not isinstance(other, dict):
        return {"params"}
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


def _differ(ours: Texts, theirs: Texts) -> bool:
    """Whether data types differ, if both sides have them."""
    pairs = zip(ours, theirs, strict=False)
    return any(x != y for x, y in pairs if x is not None and y is not None)
