"""Read the `graph.json` of a memory plan, and infer from it which tensor each chunk holds.

It is the same graph as `graph_exec` of a profile, but written before memory planning: variables
have shapes, as far as MegEngine can infer them, but in 1.13 neither dtypes nor chunks. A chunk
begins at the operator that writes it, so it holds one of this operator's outputs; which one follows
from order, size and lifetime. If more than one output fits, the chunk gets no tensor.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import Raw

from profiles.formats.detection import without_mark
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import PERSISTENT, VOLATILE
from profiles.formats.load_and_run.profile_schema import GraphVar, PlanGraph
from profiles.formats.static_memory.plan_file import PlanFile

#: flags of outputs whose memory is not part of the plan
_NOT_PLANNED = frozenset({PERSISTENT, "NO_SYS_MEM_ALLOC", "NO_SYS_STATIC_MEM_ALLOC"})
#: MegEngine's tensors have 7 axes at most
_MOST_AXES = 16
NEVER = -1
#: possible sizes of an element, bytes; 0.5 for 4-bit types
ELEMENT_BYTES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: weights are padded to a multiple of this, bytes
_PADDED_TO = 64
#: limit of outputs times chunks of one operator; beyond it, chunks get no tensors
_MOST_PAIRS = 10_000


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
        graph = _DECODER.decode(without_mark(data))
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


def tensors_of(plan: PlanFile, steps: Sequence[PlanStep]) -> dict[int, Variable]:
    """Return the variable of each chunk, by the chunk's index, as far as it is certain."""
    variables = _weights(plan, steps)
    chunks: dict[int, list[int]] = defaultdict(list)
    for chunk in np.flatnonzero(~plan.is_weight).tolist():
        chunks[int(plan.begin[chunk])].append(chunk)
    for step, indices in chunks.items():
        outputs = _candidate_outputs(steps[step], len(indices))
        if len(outputs) * len(indices) <= _MOST_PAIRS:
            variables |= _match_chunks(plan, step, indices, outputs)
    return variables


def _candidate_outputs(step: PlanStep, chunks: int) -> list[Variable]:
    """The outputs of an operator that its chunks may hold.

    Workspaces are excluded if the number of chunks equals that of the other outputs.
    """
    outputs = [output for output in step.outputs if output.is_planned]
    results = [output for output in outputs if not (output.is_workspace or _is_empty(output))]
    return (
        results
        if len(results) == chunks
        else [output for output in outputs if output.is_workspace or not _is_empty(output)]
    )


def _is_empty(variable: Variable) -> bool:
    return variable.shape is not None and not math.prod(variable.shape)


def element_bytes(size: int, variable: Variable) -> float | None:
    """Bytes of one element, None if no dtype has this size: a workspace, or padding."""
    elements = math.prod(variable.shape) if variable.shape is not None else 0
    if not elements:
        return None
    for width in ELEMENT_BYTES:
        if math.ceil(elements * width) == size:
            return width
    return None


def _match_chunks(
    plan: PlanFile, step: int, chunks: Sequence[int], outputs: Sequence[Variable]
) -> dict[int, Variable]:
    """Repeatedly assign a chunk its only fitting output, and remove both from the candidates."""
    fitting = {
        chunk: [
            number
            for number, variable in enumerate(outputs)
            if _fits(int(plan.size[chunk]), variable)
            and _lives(int(plan.end[chunk]), step, variable)
        ]
        for chunk in chunks
    }
    variables: dict[int, Variable] = {}
    while sure := [chunk for chunk, fits in fitting.items() if len(fits) == 1]:
        (number,) = fitting.pop(sure[0])
        # two chunks that only fit the same output: neither gets it
        if any(fits == [number] for fits in fitting.values()):
            fitting = {chunk: fits for chunk, fits in fitting.items() if fits != [number]}
        else:
            variables[sure[0]] = outputs[number]
        fitting = {
            chunk: [other for other in fits if other != number] for chunk, fits in fitting.items()
        }
    return variables


def _fits(size: int, variable: Variable) -> bool:
    """Whether a variable may have this size, bytes; a workspace may have any size."""
    if variable.is_workspace:
        return True
    return variable.shape is None or element_bytes(size, variable) is not None


def _lives(end: int, step: int, variable: Variable) -> bool:
    """Whether the lifetime fits: a workspace ends with its operator, others after the last use."""
    if variable.is_workspace:
        return end == step + 1
    return end > variable.last


def _weights(plan: PlanFile, steps: Sequence[PlanStep]) -> dict[int, Variable]:
    """Assign weights to chunks in the execution order of their operators.

    Some chunks may have no variable. If a variable fits no chunk, the order is another one, and no
    chunk gets a variable.
    """
    chunks = iter(np.flatnonzero(plan.is_weight).tolist())
    variables: dict[int, Variable] = {}
    for variable in (output for step in steps for output in step.outputs if output.is_persistent):
        for chunk in chunks:
            if _is_padded(int(plan.size[chunk]), variable):
                variables[chunk] = variable
                break
        else:
            return {}
    return variables


def _is_padded(size: int, variable: Variable) -> bool:
    elements = math.prod(variable.shape) if variable.shape is not None else 0
    padded = [math.ceil(elements * width / _PADDED_TO) * _PADDED_TO for width in ELEMENT_BYTES]
    return variable.shape is None or size in padded
