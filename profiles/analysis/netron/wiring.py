"""Select the operators of an executed graph that are drawn, and the edges between them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.formats.columns import MISSING
from profiles.formats.load_and_run.graph import PERSISTENT, VOLATILE, ExecutedGraph, Index


@dataclass(frozen=True, eq=False)
class GraphWiring:
    """The m operators that are drawn, in order of execution, and their variables.

    An operator is drawn if it runs and is no constant; where no order of execution is known, all
    are taken to run, in the file's order.

    rows: (m,) int32, rows of `Operators`
    position: (g,) int32, place in `rows`, MISSING for one that is not drawn
    source: (v,) int32, position of the operator that makes a variable, MISSING for none
    is_constant: (v,) bool, has its value before the run: a weight, or a shape that was inferred
    reads, makes: for each position, rows of `Variables`; `makes` without scratch memory
    readers: for each variable that is read, the positions that read it
    left_out: number of operators that never run
    """

    rows: Index
    position: Index
    source: Index
    is_constant: NDArray[np.bool_]
    reads: list[list[int]]
    makes: list[list[int]]
    readers: dict[int, list[int]]
    left_out: int


def wire(graph: ExecutedGraph) -> GraphWiring:
    """Return the drawn operators of a graph and their edges."""
    order = graph.execution_order()
    if not len(order):
        order = np.arange(len(graph.operators), dtype=np.int32)
    persistent = graph.variables.with_flag(PERSISTENT)
    operators = graph.operators
    inputs, outputs = operators.inputs.lists(), operators.outputs.lists()
    constant = persistent.tolist()

    def is_constant(row: int) -> bool:
        made = outputs[row]
        return not inputs[row] and bool(made) and all(constant[variable] for variable in made)

    kept = [row for row in order.tolist() if not is_constant(row)]
    rows = np.array(kept, dtype=np.int32)
    position = np.full(len(operators), MISSING, dtype=np.int32)
    position[rows] = np.arange(len(rows), dtype=np.int32)
    producer = graph.variables.producer
    source = np.where(producer == MISSING, MISSING, np.append(position, MISSING)[producer])
    scratch = graph.variables.with_flag(VOLATILE).tolist()
    reads = [inputs[row] for row in kept]
    readers: dict[int, list[int]] = {}
    for place, variables in enumerate(reads):
        for variable in dict.fromkeys(variables):
            readers.setdefault(variable, []).append(place)
    return GraphWiring(
        rows=rows,
        position=position,
        source=source.astype(np.int32),
        is_constant=(source == MISSING) & (persistent | (producer != MISSING)),
        reads=reads,
        makes=[[output for output in outputs[row] if not scratch[output]] for row in kept],
        readers=readers,
        left_out=len(operators) - len(order),
    )
