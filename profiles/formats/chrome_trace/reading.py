"""From the file of a trace to all that pages show of it."""

from dataclasses import dataclass
from pathlib import Path

import numpy.ma  # noqa: F401 - numpy.unique would load it in each reader that is forked: 15 ms, 1 MB

from profiles.allocator import give_back
from profiles.formats.chrome_trace.lanes import Lane, lanes_of
from profiles.formats.chrome_trace.operators import operators_of
from profiles.formats.chrome_trace.reader import NONE, Told, Trace, read_trace
from profiles.formats.chrome_trace.span_index import write_index
from profiles.formats.chrome_trace.summary import TraceSummary, facts_of, is_idle, summarize
from profiles.formats.columns import ProfileColumns
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import ExecutedGraph

#: of 1.13, and of no other writer of Chrome traces
_ITS_OWN = frozenset({"StartProfile", "StopProfile", "OpDispatch", "TensorWaitProp"})


@dataclass(frozen=True, eq=False)
class DynamicProfile:
    """What a trace says: operators as of any profile, and what no other profile has."""

    columns: ProfileColumns
    graph: ExecutedGraph
    summary: TraceSummary


def read_dynamic(
    path: Path, told: Told | None = None, *, index: Path | None = None
) -> DynamicProfile:
    """Read a trace of MegEngine's Profiler.

    index: where to write that of its spans (`traces.span_index`); none is there if it cannot be
        written, or if the trace cannot be read
    Raises ProfileFormatError, as `read_trace` does, and `not_a_profile` for a trace of another
    program, `trace_without_anything` for one in which nothing was called.
    """
    trace = read_trace(path, told)
    lanes = lanes_of(trace)
    has_operators = any((lane.operator != NONE).any() for lane in lanes)
    if not has_operators and not _ITS_OWN & set(trace.texts.names):
        raise ProfileFormatError(
            "not_a_profile", "It is a Chrome trace without any operator of MegEngine's Profiler."
        )
    if is_idle(lanes):
        raise ProfileFormatError(
            "trace_without_anything",
            "It is a trace of MegEngine's Profiler, and nothing was called meanwhile.",
        )
    if index is not None:
        _write_index(trace, lanes, path.name, index)
    try:
        facts = facts_of(trace, lanes)
        # the columns of all events are half of what is held, and lanes have what is needed of them
        del trace
        give_back()
        found = operators_of(lanes)
        return DynamicProfile(found.columns, found.graph, summarize(facts, lanes, found))
    except BaseException:
        if index is not None:
            index.unlink(missing_ok=True)
        raise


def _write_index(trace: Trace, lanes: list[Lane], name: str, index: Path) -> None:
    index.unlink(missing_ok=True)
    try:
        write_index(trace, lanes, name, index)
    except (MemoryError, OSError):  # it costs the cuts, nothing else
        index.unlink(missing_ok=True)
