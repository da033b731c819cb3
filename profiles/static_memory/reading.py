"""From the files of a memory plan to what is kept of it."""

from pathlib import Path

from profiles.parsers.errors import ProfileFormatError
from profiles.static_memory.graph_file import read_graph
from profiles.static_memory.plan_file import read_plan
from profiles.static_memory.summary import GraphState, encode_static_memory, summarize


def read_static_memory(path: Path, graph_path: Path | None) -> bytes:
    """Return the summary of a StaticMemoryInfo.json as JSON (`decode_static_memory` reads it).

    graph_path: the graph.json that was written with it, if there is one. If it is damaged or of
        another graph, tensors have no names, and the summary says so.
    Raises ProfileFormatError, as `read_plan` does.
    """
    plan = read_plan(path.read_bytes())
    state: GraphState = "none"
    steps = None
    if graph_path is not None:
        try:
            steps = read_graph(graph_path.read_bytes(), plan.names)
            state = "used"
        except ProfileFormatError as error:
            state = "graph_unreadable" if error.code == "graph_unreadable" else "not_a_profile"
    return encode_static_memory(summarize(plan, steps, state))
