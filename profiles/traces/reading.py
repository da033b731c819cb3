"""From the file of a trace to all that pages show of it."""

from dataclasses import dataclass
from pathlib import Path

from profiles.parsers.columns import ProfileColumns
from profiles.parsers.graph import ExecutedGraph
from profiles.traces.lanes import lanes_of
from profiles.traces.operators import operators_of
from profiles.traces.reader import read_trace
from profiles.traces.summary import TraceSummary, summarize


@dataclass(frozen=True, eq=False)
class DynamicProfile:
    """What a trace says: operators as of any profile, and what no other profile has."""

    columns: ProfileColumns
    graph: ExecutedGraph
    summary: TraceSummary


def read_dynamic(path: Path) -> DynamicProfile:
    """Read a trace of MegEngine's Profiler. Raises ProfileFormatError, as `read_trace` does, and
    `not_a_profile` for a trace of another program.
    """
    trace = read_trace(path)
    lanes = lanes_of(trace)
    found = operators_of(trace, lanes)
    summary = summarize(trace, lanes, found.columns.id_numbers, found.graph.device)
    return DynamicProfile(found.columns, found.graph, summary)
