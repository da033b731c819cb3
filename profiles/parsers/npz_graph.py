"""The executed graph as named arrays, for the same file as the columns (`npz`)."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from profiles.parsers.graph import (
    Chunks,
    ExecutedGraph,
    Intervals,
    Links,
    Operators,
    Variables,
)
from profiles.parsers.packing import (
    Arrays,
    pack_column,
    pack_texts,
    unpack_column,
    unpack_texts,
)

_INTERVAL_ARRAYS = ("row", "start_s", "kern_s", "end_s")


def graph_to_arrays(graph: ExecutedGraph) -> Arrays:
    """Return the graph as named arrays."""
    return {
        **_operators(graph.operators),
        **_variables(graph.variables),
        **pack_texts("chunk.ids", graph.chunks.ids),
        "chunk.size_bytes": graph.chunks.size_bytes,
        "chunk.owner": graph.chunks.owner,
        "chunk.address": graph.chunks.address,
        **_intervals("device", graph.device),
        **_intervals("host", graph.host),
        **pack_texts("problems", graph.problems),
    }


def graph_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> ExecutedGraph:
    """Return what `graph_to_arrays` gave. Raises one of `npz.DAMAGE` if something is missing."""
    return ExecutedGraph(
        operators=Operators(
            names=unpack_texts("operator.names", arrays),
            ids=unpack_texts("operator.ids", arrays),
            types=unpack_column("operator.types", arrays),
            row=arrays["operator.row"],
            step=arrays["operator.step"],
            params=unpack_column("operator.params", arrays),
            inputs=_links_from("operator.inputs", arrays),
            outputs=_links_from("operator.outputs", arrays),
        ),
        variables=Variables(
            ids=unpack_texts("var.ids", arrays),
            names=unpack_texts("var.names", arrays),
            shapes=unpack_column("var.shapes", arrays),
            dtypes=unpack_column("var.dtypes", arrays),
            comp_nodes=unpack_column("var.comp_nodes", arrays),
            flags=unpack_column("var.flags", arrays),
            producer=arrays["var.producer"],
            chunk=arrays["var.chunk"],
            chunk_offset=arrays["var.chunk_offset"],
        ),
        chunks=Chunks(
            ids=unpack_texts("chunk.ids", arrays),
            size_bytes=arrays["chunk.size_bytes"],
            owner=arrays["chunk.owner"],
            address=arrays["chunk.address"],
        ),
        device=_intervals_from("device", arrays),
        host=_intervals_from("host", arrays),
        problems=unpack_texts("problems", arrays),
    )


def _operators(operators: Operators) -> Arrays:
    return {
        **pack_texts("operator.names", operators.names),
        **pack_texts("operator.ids", operators.ids),
        **pack_column("operator.types", operators.types),
        "operator.row": operators.row,
        "operator.step": operators.step,
        **pack_column("operator.params", operators.params),
        **_links("operator.inputs", operators.inputs),
        **_links("operator.outputs", operators.outputs),
    }


def _variables(variables: Variables) -> Arrays:
    return {
        **pack_texts("var.ids", variables.ids),
        **pack_texts("var.names", variables.names),
        **pack_column("var.shapes", variables.shapes),
        **pack_column("var.dtypes", variables.dtypes),
        **pack_column("var.comp_nodes", variables.comp_nodes),
        **pack_column("var.flags", variables.flags),
        "var.producer": variables.producer,
        "var.chunk": variables.chunk,
        "var.chunk_offset": variables.chunk_offset,
    }


def _links(name: str, links: Links) -> Arrays:
    return {f"{name}.ends": links.ends, f"{name}.targets": links.targets}


def _links_from(name: str, arrays: Mapping[str, NDArray[Any]]) -> Links:
    return Links(arrays[f"{name}.ends"], arrays[f"{name}.targets"])


def _intervals(side: str, intervals: Intervals) -> Arrays:
    arrays = {f"interval.{side}.{name}": getattr(intervals, name) for name in _INTERVAL_ARRAYS}
    return {**arrays, **pack_column(f"interval.{side}.lanes", intervals.lanes)}


def _intervals_from(side: str, arrays: Mapping[str, NDArray[Any]]) -> Intervals:
    lanes = unpack_column(f"interval.{side}.lanes", arrays)
    times = {name: arrays[f"interval.{side}.{name}"] for name in _INTERVAL_ARRAYS}
    return Intervals(lanes=lanes, **times)
