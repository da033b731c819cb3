"""Infer which tensor each chunk holds from order, size and lifetime; the files do not say.

A chunk begins at the operator that writes it, so it holds one of this operator's outputs. If more
than one output fits, the chunk gets no tensor.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from profiles.formats.static_memory.graph_file import PlanStep, Variable
from profiles.formats.static_memory.plan_file import PlanFile

#: possible sizes of an element, bytes; 0.5 for 4-bit types
ELEMENT_BYTES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: weights are padded to a multiple of this, bytes
_PADDED_TO = 64
#: limit of outputs times chunks of one operator; beyond it, chunks get no tensors
_MOST_PAIRS = 10_000


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
