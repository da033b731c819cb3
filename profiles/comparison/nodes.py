"""The operators of one profile as they are aligned with those of another.

A name that nobody gave is made by MegEngine of the type, the names of the inputs and the operator's
number, `conv(data,conv1.weight)[493]`. The numbers change with each dump of a model, so they say
nothing about what the operator is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from profiles.analysis.advice.kinds import CONSTANTS, GLUE
from profiles.analysis.data import ProfileData
from profiles.formats.columns import MISSING, ProfileColumns
from profiles.formats.load_and_run.graph import ExecutedGraph

_LAST_NUMBER = re.compile(r"\[\d+\]$")
_ANY_NUMBER = re.compile(r"\[\d+\]|@\d+")
#: a name made by MegEngine: `const{1,64,1,1}[95]`, `ADD(a,b)[3003]`
_MADE_NAME = re.compile(r"^const[<{]|\(")
_WORKSPACE = ":workspace"
#: types whose parameter `mode` decides what they compute
_BY_MODE = frozenset({"Elemwise", "ElemwiseMultiType"})

Texts = tuple[str | None, ...]
#: producing operator, and which of its outputs
Source = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Nodes:
    """All n operators of a profile, also those that never run; lists have one item for each.

    kinds: what an operator computes: its type, of elementwise ones also the mode, `Elemwise ADD`
    short_names: names without the number at the end; plain_names: without any number
    value_names: names of the outputs that others read (of the first output if nobody does)
    value_shapes: their shapes
    in_shapes, out_shapes, out_dtypes: of variables; scratch memory is left out
    inputs: for each input its source, (MISSING, 0) for none
    consumers: who reads the outputs: (operator, its input, output of this one)
    order: the operators that run, in order of execution, then those that do not
    place: place in `order`
    rows: rows of `ProfileColumns`, MISSING for an operator without times
    read_shapes: compact JSON of the shapes it read when it ran, None if it did not
    """

    kinds: list[str]
    short_names: list[str]
    plain_names: list[str]
    value_names: list[tuple[str, ...]]
    value_shapes: list[Texts]
    params: list[str | None]
    in_shapes: list[Texts]
    out_shapes: list[Texts]
    out_dtypes: list[Texts]
    inputs: list[list[Source]]
    consumers: list[list[tuple[int, int, int]]]
    order: list[int]
    place: list[int]
    rows: list[int]
    read_shapes: list[str | None]

    def __len__(self) -> int:
        return len(self.kinds)

    def is_constant(self, node: int) -> bool:
        """Whether it holds a weight or another constant."""
        return self.kinds[node] in CONSTANTS

    def computes(self, node: int) -> bool:
        """Whether it is neither a constant nor an input or output of the model."""
        return self.kinds[node] not in GLUE

    def is_named(self, node: int) -> bool:
        """Whether all its values have names that somebody gave, such as `conv1.weight`."""
        values = self.value_names[node]
        return bool(values) and not any(map(_MADE_NAME.search, values))


def nodes_of(data: ProfileData) -> Nodes:
    """Prepare a profile for alignment."""
    columns, graph = data.columns, data.graph
    operators, variables = graph.operators, graph.variables
    ins, outs = operators.inputs.lists(), operators.outputs.lists()
    names, types, params = operators.names, operators.types.texts(), operators.params.texts()
    scratch = [_WORKSPACE in name for name in variables.names]
    shapes, dtypes = variables.shapes.texts(), variables.dtypes.texts()
    inputs = _inputs(graph, ins, outs)
    consumers = _consumers(inputs)
    values = [_values(*ports) for ports in zip(outs, consumers, strict=True)]
    order = _order(graph)
    made = Nodes(
        kinds=[_kind(*pair) for pair in zip(types, params, strict=True)],
        short_names=[_LAST_NUMBER.sub("", name) for name in names],
        plain_names=[_ANY_NUMBER.sub("", name) for name in names],
        value_names=[tuple(variables.names[v] for v in row) for row in values],
        value_shapes=[tuple(shapes[v] for v in row) for row in values],
        params=params,
        in_shapes=[tuple(shapes[v] for v in row) for row in ins],
        out_shapes=[tuple(shapes[v] for v in row if not scratch[v]) for row in outs],
        out_dtypes=[tuple(dtypes[v] for v in row if not scratch[v]) for row in outs],
        inputs=inputs,
        consumers=consumers,
        order=order,
        place=[],
        rows=operators.row.tolist(),
        read_shapes=[],
    )
    _add_rows_without_operator(made, columns)
    made.place.extend(_inverse(made.order))
    read = columns.in_shapes.texts()
    made.read_shapes.extend(None if row == MISSING else read[row] for row in made.rows)
    return made


def _kind(type_: str | None, params: str | None) -> str:
    if type_ in _BY_MODE and params:
        decoded = msgspec.json.decode(params)
        mode = decoded.get("mode") if isinstance(decoded, dict) else None
        return f"{type_} {mode}" if mode else str(type_)
    return type_ or ""


def _inputs(
    graph: ExecutedGraph, ins: Sequence[list[int]], outs: Sequence[list[int]]
) -> list[list[Source]]:
    source: list[Source] = [(MISSING, 0)] * len(graph.variables)
    for node, row in enumerate(outs):
        for number, variable in enumerate(row):
            source[variable] = (node, number)
    return [[source[variable] for variable in row] for row in ins]


def _consumers(inputs: Sequence[list[Source]]) -> list[list[tuple[int, int, int]]]:
    consumers: list[list[tuple[int, int, int]]] = [[] for _ in inputs]
    for node, row in enumerate(inputs):
        for slot, (producer, number) in enumerate(row):
            if producer != MISSING:
                consumers[producer].append((node, slot, number))
    return consumers


def _values(outputs: list[int], readers: list[tuple[int, int, int]]) -> list[int]:
    """The outputs that others read, or the first one."""
    read = sorted({number for _, _, number in readers}) or [0]
    return [outputs[number] for number in read if number < len(outputs)]


def _order(graph: ExecutedGraph) -> list[int]:
    running: list[int] = graph.execution_order().tolist()
    known = set(running)
    return running + [node for node in range(len(graph.operators)) if node not in known]


def _add_rows_without_operator(nodes: Nodes, columns: ProfileColumns) -> None:
    """Add the operators that have times, but that a damaged graph does not tell of."""
    known = set(nodes.rows)
    in_shapes, out_shapes = columns.in_shapes.texts(), columns.out_shapes.texts()
    types = columns.types.texts()
    for row in range(len(columns)):
        if row in known:
            continue
        name = columns.names[row]
        nodes.order.append(len(nodes.kinds))
        nodes.kinds.append(types[row] or "")
        nodes.short_names.append(_LAST_NUMBER.sub("", name))
        nodes.plain_names.append(_ANY_NUMBER.sub("", name))
        nodes.value_names.append(())
        nodes.value_shapes.append(())
        nodes.params.append(None)
        nodes.in_shapes.append((in_shapes[row],))
        nodes.out_shapes.append((out_shapes[row],))
        nodes.out_dtypes.append(())
        nodes.inputs.append([])
        nodes.consumers.append([])
        nodes.rows.append(row)


def _inverse(order: Sequence[int]) -> list[int]:
    place = [0] * len(order)
    for number, node in enumerate(order):
        place[node] = number
    return place
