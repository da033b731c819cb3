"""Read the `graph.json` of a memory plan: the operator of each step and its outputs.

It is the same graph as `graph_exec` of a profile, but written before memory planning: variables
have shapes, as far as MegEngine can infer them, but in 1.13 neither dtypes nor chunks.
"""

from dataclasses import dataclass

import msgspec
from msgspec import Raw

from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import PERSISTENT, VOLATILE
from profiles.formats.load_and_run.profile_schema import GraphVar, PlanGraph

#: flags of outputs whose memory is not part of the plan
_NOT_PLANNED = frozenset({PERSISTENT, "NO_SYS_MEM_ALLOC", "NO_SYS_STATIC_MEM_ALLOC"})
#: MegEngine's tensors have 7 axes at most
_MOST_AXES = 16
NEVER = -1


@dataclass
class Variable:
    """An output of an operator.

    shape: None if it is unknown before the graph runs
    last: the last step that reads it, not counting steps that read a view of it; NEVER for none
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None
    is_persistent: bool
    is_planned: bool
    is_workspace: bool
    last: int = NEVER


@dataclass(frozen=True)
class PlanStep:
    """The operator of one step and its outputs, in order."""

    id: str
    type: str
    outputs: tuple[Variable, ...]


_DECODER = msgspec.json.Decoder(PlanGraph)
_SHAPE = msgspec.json.Decoder(tuple[int, ...])


def read_graph(data: bytes, names: tuple[str, ...]) -> tuple[PlanStep, ...]:
    """Return the steps of the graph that belongs to a plan with operators of these names.

    Raises ProfileFormatError: graph_unreadable; not_a_profile for the graph of another plan.
    """
    try:
        graph = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileFormatError("graph_unreadable", f"graph.json: {error}.") from None
    executed = [graph.operator.get(key) for key in graph.comp_seq]
    if [operator.name if operator else None for operator in executed] != list(names):
        raise ProfileFormatError("not_a_profile", "graph.json is of another graph than the plan.")
    operators = [operator for operator in executed if operator is not None]
    variables = {key: _variable(variable) for key, variable in graph.var.items()}
    for step, operator in enumerate(operators):
        for key in operator.input:
            if key in variables:
                variables[key].last = step
    return tuple(
        PlanStep(
            id=str(operator.id),
            type=operator.type,
            outputs=tuple(variables[key] for key in operator.output if key in variables),
        )
        for operator in operators
    )


def _variable(var: GraphVar) -> Variable:
    layout = var.mem_plan.layout if var.mem_plan else None
    shape = _shape(layout.shape) if layout else None
    if shape is None:
        shape = _shape(var.inferred_shape)
    flags = frozenset(var.flag)
    return Variable(
        name=var.name,
        shape=shape,
        dtype=var.dtype,
        is_persistent=PERSISTENT in flags,
        is_planned=not flags & _NOT_PLANNED,
        is_workspace=VOLATILE in flags,
    )


def _shape(raw: Raw) -> tuple[int, ...] | None:
    """Decode a shape; None if it is not a list of integers, such as "Large Array"."""
    try:
        axes = _SHAPE.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    is_sound = len(axes) <= _MOST_AXES and all(0 <= axis < 1 << 40 for axis in axes)
    return axes if is_sound else None
