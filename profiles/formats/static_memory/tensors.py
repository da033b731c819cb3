"""Which tensor lies in which chunk. The files do not say: it follows from order, size and life.

A chunk begins at the operator that writes it, so it is one of this operator's outputs. Where more
than one of them fits, none is named.
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from profiles.formats.static_memory.graph_file import Step, Variable
from profiles.formats.static_memory.plan_file import PlanFile

#: bytes of an element, with 4-bit types at first
ELEMENT_BYTES = (0.5, 1.0, 2.0, 4.0, 8.0)
#: weights are padded to so many bytes
_PADDED_TO = 64
#: outputs of one operator times its chunks; more are not compared
_MOST_PAIRS = 10_000


def tensors_of(plan: PlanFile, steps: Sequence[Step]) -> dict[int, Variable]:
    """Return the variable of each chunk, by its place, as far as it can be told."""
    found = _weights(plan, steps)
    chunks: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(~plan.is_weight).tolist():
        chunks[int(plan.begin[place])].append(place)
    for step, places in chunks.items():
        outputs = _written(steps[step], len(places))
        if len(outputs) * len(places) <= _MOST_PAIRS:
            found |= _matched(plan, step, places, outputs)
    return found


def _written(step: Step, chunks: int) -> list[Variable]:
    """The outputs of an operator that its chunks can be; without workspaces if there is a chunk
    for each of the others, and no more."""
    outputs = [each for each in step.outputs if each.is_planned]
    results = [each for each in outputs if not (each.is_workspace or _is_empty(each))]
    return (
        results
        if len(results) == chunks
        else [each for each in outputs if each.is_workspace or not _is_empty(each)]
    )


def _is_empty(variable: Variable) -> bool:
    return variable.shape is not None and not math.prod(variable.shape)


def element_bytes(size: int, variable: Variable) -> float | None:
    """Bytes of one element, None if no type has so many: a workspace, or padding."""
    elements = math.prod(variable.shape) if variable.shape is not None else 0
    if not elements:
        return None
    for each in ELEMENT_BYTES:
        if math.ceil(elements * each) == size:
            return each
    return None


def _matched(
    plan: PlanFile, step: int, places: Sequence[int], outputs: Sequence[Variable]
) -> dict[int, Variable]:
    """Give each chunk the only output that fits, and go on without the two."""
    fitting = {
        place: [
            number
            for number, variable in enumerate(outputs)
            if _fits(int(plan.size[place]), variable)
            and _lives(int(plan.end[place]), step, variable)
        ]
        for place in places
    }
    found: dict[int, Variable] = {}
    while sure := [place for place, fits in fitting.items() if len(fits) == 1]:
        (number,) = fitting.pop(sure[0])
        # two chunks that only fit the same output: neither is told
        if any(fits == [number] for fits in fitting.values()):
            fitting = {place: fits for place, fits in fitting.items() if fits != [number]}
        else:
            found[sure[0]] = outputs[number]
        fitting = {
            place: [each for each in fits if each != number] for place, fits in fitting.items()
        }
    return found


def _fits(size: int, variable: Variable) -> bool:
    """Whether a variable may have so many bytes; those of a workspace are chosen later."""
    if variable.is_workspace:
        return True
    return variable.shape is None or element_bytes(size, variable) is not None


def _lives(end: int, step: int, variable: Variable) -> bool:
    """A workspace ends with its operator; what others read stays at least as long."""
    if variable.is_workspace:
        return end == step + 1
    return end > variable.last


def _weights(plan: PlanFile, steps: Sequence[Step]) -> dict[int, Variable]:
    """Weights lie in the order in which their operators run; some chunks may have no variable.

    If not every variable finds its place, the order is another one, and none is named.
    """
    places = iter(np.flatnonzero(plan.is_weight).tolist())
    found: dict[int, Variable] = {}
    for variable in (each for step in steps for each in step.outputs if each.is_persistent):
        for place in places:
            if _is_padded(int(plan.size[place]), variable):
                found[place] = variable
                break
        else:
            return {}
    return found


def _is_padded(size: int, variable: Variable) -> bool:
    elements = math.prod(variable.shape) if variable.shape is not None else 0
    padded = [math.ceil(elements * each / _PADDED_TO) * _PADDED_TO for each in ELEMENT_BYTES]
    return variable.shape is None or size in padded
