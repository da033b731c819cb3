"""Size in bytes of the variables of a graph, deduced where the file does not state it.

A variable with a memory plan has a dtype; a variable that is allocated while the graph runs has
only a shape. Its element size follows from the footprints of its operators: bytes read and written,
minus those of the variables already known, divided among the elements of the others.
"""

import json
import math

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.dtypes import element_bytes
from profiles.formats.columns import MISSING, ProfileColumns
from profiles.formats.load_and_run.graph import VOLATILE, ExecutedGraph

Floats = NDArray[np.float64]

#: possible element sizes in bytes; a quotient within TOLERANCE of one of them counts as that size.
#: The quotient is not exact where an input is counted of which only the shape is used; the sizes
#: are a factor of 2 apart.
POSSIBLE_BYTES = (0.5, 1.0, 2.0, 4.0, 8.0)
TOLERANCE = 0.15


def variable_bytes(graph: ExecutedGraph, columns: ProfileColumns) -> Floats:
    """Return (v,) float64, bytes of each variable; nan if it cannot be determined."""
    elements = _elements(graph, columns)
    dtypes = graph.variables.dtypes
    by_dtype = [element_bytes(dtype) or np.nan for dtype in dtypes.values]
    sizes = np.array([*by_dtype, np.nan])[dtypes.codes]
    return np.asarray(np.ceil(elements * _deduce(sizes, elements, graph, columns)))


def _elements(graph: ExecutedGraph, columns: ProfileColumns) -> Floats:
    """Return the elements of each variable; inputs without a shape take it from the reader's
    footprint.

    An empty list of axes, `[]`, is a shape that was never set: MegEngine's scalars are `[1]`.
    """
    shapes, operators = graph.variables.shapes, graph.operators
    known = [json.loads(text) for text in shapes.values]
    counts = np.array([float(math.prod(axes)) if axes else np.nan for axes in known] + [np.nan])
    elements = counts[shapes.codes]
    missing = np.flatnonzero(np.isnan(elements[operators.inputs.targets]))
    readers = np.unique(np.searchsorted(operators.inputs.ends, missing, side="right"))
    for place in readers[operators.row[readers] != MISSING].tolist():
        inputs = operators.inputs[place].tolist()
        footprint = json.loads(columns.in_shapes[operators.row[place]] or "null")
        if not isinstance(footprint, list) or len(footprint) != len(inputs):
            continue
        for variable, axes in zip(inputs, footprint, strict=True):
            if np.isnan(elements[variable]) and _is_shape(axes):
                elements[variable] = float(math.prod(axes))
    return elements


def _is_shape(axes: object) -> bool:
    sound = isinstance(axes, list) and all(type(axis) is int and axis >= 0 for axis in axes)
    return sound and bool(axes)


def _deduce(
    sizes: Floats, elements: Floats, graph: ExecutedGraph, columns: ProfileColumns
) -> Floats:
    """Return the element sizes with those that footprints determine, in order of execution."""
    operators, memory = graph.operators, columns.memory
    volatile = graph.variables.with_flag(VOLATILE)
    counts = np.where(volatile | ~(elements > 0), 0.0, elements).tolist()
    deduced = sizes.tolist()
    bytes_moved = np.where(memory.present, memory.values, np.nan).tolist()
    inputs, outputs = operators.inputs.lists(), operators.outputs.lists()
    rows = operators.row.tolist()
    for place in graph.execution_order().tolist():
        if rows[place] != MISSING:
            moved = [variable for variable in inputs[place] + outputs[place] if counts[variable]]
            _share_out(bytes_moved[rows[place]], moved, counts, deduced)
    return np.array(deduced)


def _share_out(
    bytes_moved: float, moved: list[int], counts: list[float], deduced: list[float]
) -> None:
    """Assign one operator's variables of unknown size what its footprint leaves for them."""
    unknown = [variable for variable in moved if math.isnan(deduced[variable])]
    if not unknown or math.isnan(bytes_moved):
        return
    rest = bytes_moved - sum(
        counts[variable] * deduced[variable] for variable in moved if variable not in unknown
    )
    size = rest / sum(counts[variable] for variable in unknown)
    nearest = min(POSSIBLE_BYTES, key=lambda possible: abs(possible - size))
    if abs(size / nearest - 1) <= TOLERANCE:
        for variable in unknown:
            deduced[variable] = nearest
