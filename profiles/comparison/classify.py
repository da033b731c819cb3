"""Classify the change of an operator or a group: a status, and what differs."""

from typing import Literal, get_args

import msgspec

from profiles.comparison.nodes import Nodes, Texts
from profiles.comparison.regions import OperatorGroup

Status = Literal["same", "changed", "fused", "split", "new", "gone"]
STATUSES: tuple[Status, ...] = get_args(Status)
#: reasons for a change: the operator's type, its parameters, the memory format among them, shapes,
#: data types; `time` if everything else is the same and the difference is significant
Reason = Literal["type", "params", "format", "shapes", "dtypes", "time"]
REASONS: tuple[Reason, ...] = get_args(Reason)


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
