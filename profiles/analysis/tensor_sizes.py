"""How many bytes the variables of a graph take, also where the file does not say it.

A variable with a memory plan has a dtype; one that is allocated while the graph runs has a shape
only. Its element size follows from its operators' footprints: bytes read and written, less those
of the variables already known, shared among the elements of the others.
"""

import json
import math

import numpy as np
from numpy.typing import NDArray

from profiles.analysis.dtypes import element_bytes
from profiles.formats.columns import MISSING, ProfileColumns
from profiles.formats.load_and_run.graph import ExecutedGraph

Floats = NDArray[np.float64]

#: what an element may take; a quotient within TOLERANCE of one of these is that size. It is not
#: exact where an input counts that is only a shape, and sizes lie a factor of 2 apart.
POSSIBLE_BYTES = (0.5, 1.0, 2.0, 4.0, 8.0)
TOLERANCE = 0.15


def variable_bytes(graph: ExecutedGraph, columns: ProfileColumns) -> Floats:
    """Return (v,) float64: bytes of each variable, nan where neither file nor footprint tells."""
    elements = _elements(graph, columns)
    dtypes = graph.variables.dtypes
    by_dtype = [element_bytes(dtype) or np.nan for dtype in dtypes.values]
    sizes = np.array([*by_dtype, np.nan])[dtypes.codes]
    return np.asarray(np.ceil(elements * _deduced(sizes, elements, graph, columns)))


def _elements(graph: ExecutedGraph, columns: ProfileColumns) -> Floats:
    """Elements of each variable; of an input without shape, as its reader's footprint tells.

    No axes, `[]`, is a shape that nobody set: MegEngine's scalars are `[1]`.
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
        if not isinstance(footprint, list) or len(told) != len(inputs):
            continue
        for variable, axes in zip(inputs, footprint, strict=True):
            if np.isnan(elements[variable]) and _is_shape(axes):
                elements[variable] = float(math.prod(axes))
    return elements


def _is_shape(axes: object) -> bool:
    sound = isinstance(axes, list) and all(type(axis) is int and axis >= 0 for axis in axes)
    return sound and bool(axes)


def _deduced(
    sizes: Floats, elements: Floats, graph: ExecutedGraph, columns: ProfileColumns
) -> Floats:
    """The element sizes, with those that footprints determine, in order of execution."""
    operators, memory = graph.operators, columns.memory
    volatile = graph.variables.flags.where(lambda text: "VOLATILE_CONTENT" in text)
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
    """Give one operator's variables of unknown size what its footprint leaves for them."""
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
