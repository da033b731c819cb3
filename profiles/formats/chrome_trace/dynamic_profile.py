"""Read the file of a trace into everything that pages show of it."""

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy.ma  # noqa: F401 - numpy.unique would load it in each reader that is forked: 15 ms, 1 MB

from profiles.formats.chrome_trace.lanes import Lane, lanes_of
from profiles.formats.chrome_trace.operators import operators_of
from profiles.formats.chrome_trace.reader import NONE, OnBytesRead, Trace, read_trace
from profiles.formats.chrome_trace.span_index import write_index
from profiles.formats.chrome_trace.summary import TraceSummary, event_fields, is_idle, summarize
from profiles.formats.columns import ProfileColumns
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import ExecutedGraph

#: events that only MegEngine 1.13 writes
_ITS_OWN = frozenset({"StartProfile", "StopProfile", "OpDispatch", "TensorWaitProp"})


@dataclass(frozen=True, eq=False)
class DynamicProfile:
    """The data of a trace: operators as in any profile, and the summary that only traces have."""

    columns: ProfileColumns
    graph: ExecutedGraph
    summary: TraceSummary


def read_dynamic(
    path: Path, on_progress: OnBytesRead | None = None, *, index: Path | None = None
) -> DynamicProfile:
    """Read a trace of MegEngine's Profiler.

    index: target path of the span index (`span_index`); the file is missing if the index cannot be
        written or the trace cannot be read
    Raises ProfileFormatError as `read_trace`, `not_a_profile` for a trace of another program, and
    `trace_without_anything` if nothing was called.
    """
    trace = read_trace(path, on_progress)
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
        facts = event_fields(trace, lanes)
        # free the columns of all events, half of the memory; lanes have copies of what is needed
        del trace
        _release_free_memory()
        operators = operators_of(lanes)
        return DynamicProfile(
            operators.columns, operators.graph, summarize(facts, lanes, operators)
        )
    except BaseException:
        if index is not None:
            index.unlink(missing_ok=True)
        raise


def _write_index(trace: Trace, lanes: list[Lane], name: str, index: Path) -> None:
    index.unlink(missing_ok=True)
    try:
        write_index(trace, lanes, name, index)
    except (MemoryError, OSError):  # without the index, only trace excerpts are unavailable
        index.unlink(missing_ok=True)


def _release_free_memory() -> None:
    """Return free heap memory to the system (malloc_trim(3)); glibc would keep it.

    With another C library nothing happens.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
