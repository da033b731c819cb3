"""From the file of a trace to all that pages show of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy.ma  # noqa: F401 - numpy.unique would load it in each reader that is forked: 15 ms, 1 MB

from profiles.parsers.columns import ProfileColumns
from profiles.parsers.graph import ExecutedGraph
from profiles.traces.lanes import lanes_of
from profiles.traces.operators import operators_of
from profiles.traces.reader import Told, read_trace
from profiles.traces.span_index import write_index
from profiles.traces.summary import TraceSummary, summarize


@dataclass(frozen=True, eq=False)
class DynamicProfile:
    """What a trace says: operators as of any profile, and what no other profile has.

    write_index: writes that of its spans (`traces.span_index`) to a path
    """

    columns: ProfileColumns
    graph: ExecutedGraph
    summary: TraceSummary
    write_index: Callable[[Path], None]


def read_dynamic(path: Path, told: Told | None = None) -> DynamicProfile:
    """Read a trace of MegEngine's Profiler. Raises ProfileFormatError, as `read_trace` does, and
    `not_a_profile` for a trace of another program, `trace_without_operators`.
    """
    trace = read_trace(path, told)
    lanes = lanes_of(trace)
    found = operators_of(trace, lanes)
    summary = summarize(trace, lanes, found)

    def write(target: Path) -> None:
        write_index(trace, lanes, path.name, target)

    return DynamicProfile(found.columns, found.graph, summary, write)
