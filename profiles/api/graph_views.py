"""The executed graph of a profile, as nodes and edges."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypedDict

import msgspec
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from profiles.analysis.data import ProfileData
from profiles.analysis.netron.wiring import GraphWiring, wire
from profiles.api.base import NOT_READY, DataView, json_response
from profiles.api.queries import GraphQuery
from profiles.api.serializer_fields import answer_of
from profiles.formats.columns import MISSING, TextColumn
from profiles.presenters.described import means, unknown
from webprofile.api.schema import problems


class NodeAnswer(TypedDict):
    """An operator that runs."""

    node: Annotated[int, means("Index in execution order, starting from 0.")]
    row: Annotated[int | None, means("Row in tables; null without times and footprint.")]
    id: Annotated[str, means("Number in MegEngine.")]
    name: Annotated[str, means("Its name.")]
    type: Annotated[str, means("Its type.")]
    params: Annotated[Any, means("Its parameters by name; null: unknown.")]
    device_s: Annotated[float | None, unknown("Self time on the device, s.")]
    host_s: Annotated[float | None, unknown("Self time on the host, s.")]
    outputs: Annotated[Sequence[str], means("Ids of its output variables.")]


class EdgeAnswer(TypedDict):
    """A variable that a node reads, as an edge."""

    variable: Annotated[str, means("Its id.")]
    name: Annotated[str, means("Its name.")]
    from_node: Annotated[
        int | None, means("The node that produces it; null for a constant or an input.")
    ]
    to_node: Annotated[int, means("The node that reads it.")]
    slot: Annotated[int, means("Index among the inputs of `to_node`, starting from 0.")]
    is_constant: Annotated[
        bool, means("Whether its value is known before the run: a weight, or a shape.")
    ]
    shape: Annotated[Any, means("Elements along each axis; null: unknown.")]
    dtype: Annotated[str | None, means("Its data type; null: unknown.")]


class GraphAnswer(TypedDict):
    """A window of the executed graph: nodes in order of execution, and the variables they read."""

    total: Annotated[int, means("Nodes of the whole graph.")]
    offset: Annotated[int, means("Index of the first node.")]
    nodes: Annotated[Sequence[NodeAnswer], means("The nodes.")]
    edges: Annotated[
        Sequence[EdgeAnswer], means("Variables that these nodes read, also from other nodes.")
    ]
    left_out: Annotated[int, means("Operators that were not executed.")]
    problems: Annotated[Sequence[str], means("Sections of the raw file that are damaged.")]


class GraphView(DataView):
    """The executed graph."""

    @extend_schema(
        summary="Show the graph",
        parameters=[GraphQuery],
        responses={200: answer_of(GraphAnswer)} | problems(NOT_READY),
        operation_id="profiles_graph",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponse:
        """Nodes are the operators that ran, without constants; edges are the variables they read.

        If the order of execution is unknown, all operators count as executed, in the order of the
        file.
        """
        query = self.validated_query(GraphQuery)
        _, data = self.data(profile_id)
        wiring = wire(data.graph)
        start = query["offset"]
        window = range(len(wiring.rows))[start : start + query["limit"]]
        answer: GraphAnswer = {
            "total": len(wiring.rows),
            "offset": start,
            "nodes": [_node(data, wiring, place) for place in window],
            "edges": [edge for place in window for edge in _edges(data, wiring, place)],
            "left_out": wiring.left_out,
            "problems": data.graph.problems,
        }
        return json_response(answer)


def _node(data: ProfileData, wiring: GraphWiring, place: int) -> NodeAnswer:
    operators, columns = data.graph.operators, data.columns
    operator = int(wiring.rows[place])
    row = int(operators.row[operator])
    known = row != MISSING
    return {
        "node": place,
        "row": row if known else None,
        "id": operators.ids[operator],
        "name": operators.names[operator],
        "type": operators.types[operator] or "",
        "params": _raw(operators.params, operator),
        "device_s": float(columns.device.end_s[row]) if known else None,
        "host_s": float(columns.host.end_s[row]) if known else None,
        "outputs": [data.graph.variables.ids[variable] for variable in wiring.makes[place]],
    }


def _edges(data: ProfileData, wiring: GraphWiring, place: int) -> Iterator[EdgeAnswer]:
    """Yield the variables that a node reads."""
    variables = data.graph.variables
    for slot, variable in enumerate(wiring.reads[place]):
        maker = int(wiring.source[variable])
        yield {
            "variable": variables.ids[variable],
            "name": variables.names[variable],
            "from_node": None if maker == MISSING else maker,
            "to_node": place,
            "slot": slot,
            "is_constant": bool(wiring.is_constant[variable]),
            "shape": _raw(variables.shapes, variable),
            "dtype": variables.dtypes[variable],
        }


def _raw(column: TextColumn, row: int) -> msgspec.Raw | None:
    """Return a JSON text of the column unchanged; None where it is missing."""
    text = column[row]
    return None if text is None else msgspec.Raw(text.encode())
